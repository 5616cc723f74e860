"""The first stage: a CPU task per video, from a path to chunks of pictures as the encoder wants them.

A chunk holds as many pictures as the encoder takes at once, and the one before them for encoders that look at motion:
it is encoded on any node, and comes out as it would if the whole video were encoded in one place.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from prvr.cluster.object_pieces import pieces_at
from prvr.library.ingest.index import FILE_PROBLEMS, reason
from prvr.media.frames import Fit, Frame, StreamInfo, VideoInfo
from prvr.media.reader import open_video

Row = dict[str, Any]  # video, chunk (numbers), times, pixels, before (bytes), end (JSON, in a video's last row)


@dataclass(frozen=True)
class Ending:
    """What is known of a file when all of it has been decoded, or nothing could be."""

    chunks: int
    info: VideoInfo | None = None
    problem: str | None = None  # something is missing of it
    failed: str | None = None  # nothing can be had of it
    unseen: str | None = None  # the node on which it is not there

    def to_json(self) -> str:
        return json.dumps({**asdict(self), "info": None if self.info is None else _facts(self.info)})

    @staticmethod
    def from_json(text: str) -> Ending:
        found = json.loads(text)
        info = found["info"]
        if info is not None:
            streams = tuple(StreamInfo(**stream) for stream in info["streams"])
            info = VideoInfo(**{**info, "path": Path(info["path"]), "streams": streams})
        return Ending(**{**found, "info": info})


def _facts(info: VideoInfo) -> dict[str, Any]:
    return {**asdict(info), "path": str(info.path)}


@dataclass(frozen=True)
class Decode:
    """Called by Ray Data with a row (video, path, key) for each file."""

    library: str
    fit: Fit
    batch: int
    rate: float

    def __call__(self, row: Row) -> Iterator[Row]:
        number, path, pieces = int(row["video"]), Path(row["path"]), pieces_at(self.library)
        chunks = 0
        if not path.exists():
            yield _last(number, Ending(0, failed="is not there (moved, renamed or deleted?)", unseen=_node()))
            return
        if not pieces.begin(row["key"]):
            crashed = "its decoder never came to an end, five times over: it may crash the program that opens it"
            yield _last(number, Ending(0, failed=crashed))
            return
        try:
            with open_video(path, threads=1) as opened:
                before = b""
                for images, times in self._chunks(opened.frames(self.rate, self.fit)):
                    pixels = np.stack(images).tobytes()
                    yield _row(number, chunks, times=times.tobytes(), pixels=pixels, before=before)
                    before, chunks = images[-1].tobytes(), chunks + 1
                ending = Ending(chunks, opened.info, opened.problem)
        except FILE_PROBLEMS as problem:
            ending = Ending(chunks, failed=reason(problem, path))
        pieces.end(row["key"])
        yield _last(number, ending)

    def _chunks(self, frames: Iterator[Frame]) -> Iterator[tuple[list[Any], np.ndarray[Any, np.dtype[np.float64]]]]:
        kept: list[Frame] = []
        for frame in frames:
            kept.append(frame)
            if len(kept) == self.batch:
                yield [each.image for each in kept], np.array([each.time for each in kept])
                kept = []
        if kept:
            yield [each.image for each in kept], np.array([each.time for each in kept])


def _row(video: int, chunk: int, times: bytes = b"", pixels: bytes = b"", before: bytes = b"", end: str = "") -> Row:
    return {"video": video, "chunk": chunk, "times": times, "pixels": pixels, "before": before, "end": end}


def _last(video: int, ending: Ending) -> Row:
    return _row(video, ending.chunks, end=ending.to_json())


def _node() -> str:
    return socket.gethostname()
