"""First stage of adding on a cluster: decode each video, in a separate task, into chunks of frames.

A chunk holds as many frames as the encoder takes at once, and the frame before them for encoders that look at motion.
So any node can encode it, with the same result as if one process had encoded the whole video.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from prvr.cluster.object_pieces import pieces_at
from prvr.library import FILE_PROBLEMS, failure_reason
from prvr.media import Fit, Frame, StreamInfo, VideoInfo, open_video

Row = dict[str, Any]  # video, chunk (numbers); times, pixels, before (bytes); end (JSON, in a video's last row)


@dataclass(frozen=True)
class Ending:
    """The outcome of decoding a file."""

    chunks: int
    info: VideoInfo | None = None
    problem: str | None = None  # why a part of it is missing
    failed: str | None = None  # why the file cannot be used
    unseen_by: str | None = None  # the node on which the file does not exist

    def to_json(self) -> str:
        return json.dumps({**asdict(self), "info": None if self.info is None else _info_fields(self.info)})

    @staticmethod
    def from_json(text: str) -> Ending:
        fields = json.loads(text)
        info = fields["info"]
        if info is not None:
            streams = tuple(StreamInfo(**stream) for stream in info["streams"])
            info = VideoInfo(**{**info, "path": Path(info["path"]), "streams": streams})
        return Ending(**{**fields, "info": info})


def _info_fields(info: VideoInfo) -> dict[str, Any]:
    return {**asdict(info), "path": str(info.path)}


@dataclass(frozen=True)
class Decode:
    """Ray Data calls it with a row (video, path, key) for each file."""

    library: str
    fit: Fit
    batch: int
    rate: float

    def __call__(self, row: Row) -> Iterator[Row]:
        number, path, pieces = int(row["video"]), Path(row["path"]), pieces_at(self.library)
        chunks = 0
        if not path.exists():
            yield _last(
                number,
                Ending(0, failed="does not exist (was it moved, renamed or deleted?)", unseen_by=socket.gethostname()),
            )
            return
        if not pieces.begin(row["key"]):
            crashed = "decoding started five times and never ended: the file may crash its decoder"
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
            ending = Ending(chunks, failed=failure_reason(problem, path))
        pieces.end(row["key"])
        yield _last(number, ending)

    def _chunks(self, frames: Iterator[Frame]) -> Iterator[tuple[list[Any], np.ndarray[Any, np.dtype[np.float64]]]]:
        while chunk := list(islice(frames, self.batch)):
            yield [frame.image for frame in chunk], np.array([frame.time for frame in chunk])


def _row(video: int, chunk: int, times: bytes = b"", pixels: bytes = b"", before: bytes = b"", end: str = "") -> Row:
    return {"video": video, "chunk": chunk, "times": times, "pixels": pixels, "before": before, "end": end}


def _last(video: int, ending: Ending) -> Row:
    return _row(video, ending.chunks, end=ending.to_json())
