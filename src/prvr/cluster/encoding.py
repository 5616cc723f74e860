"""The other stages: a pool of actors that encode pictures, and a pool that finishes videos.

Whoever encodes opens the library itself, from the folder that all nodes see or from object storage: its encoders, and
the refusal of ones whose vectors cannot be compared with those already there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from prvr.cluster.connecting import ClusterError, same_version
from prvr.cluster.decoding import Ending, Row
from prvr.cluster.object_pieces import pieces_at
from prvr.library import Library
from prvr.library.ingest.index import FILE_PROBLEMS, index_parts, reason
from prvr.library.ingest.tracks import FRAMES
from prvr.library.store.catalogue import NewVideo
from prvr.library.store.settings import FILE
from prvr.media.encoders.base import Encoder
from prvr.media.features import FeaturePart
from prvr.media.frames import VideoInfo
from prvr.objects import described, is_address


@dataclass(frozen=True)
class Chunk:
    """Encoded pictures, as they travel to whoever puts a video together."""

    times: bytes
    vectors: bytes

    @property
    def last(self) -> float:
        """Seconds at which the last of them stands."""
        return float(np.frombuffer(self.times)[-1])

    def part(self, width: int) -> FeaturePart:
        vectors = np.frombuffer(self.vectors, np.float32).reshape(-1, width)
        return FeaturePart(np.frombuffer(self.times).copy(), vectors.copy())  # what arrives cannot be written to


def opened_library(folder: str, version: str) -> Library:
    """The library, as a node sees it; of one on object storage, what encoding needs."""
    same_version(version)
    if is_address(folder):
        return Library.open(described(folder))
    if not (Path(folder) / FILE).exists():
        raise ClusterError(
            f"a node of the cluster does not see the library {folder}: put it on storage that all nodes share, under "
            "the same name"
        )
    return Library.open(folder)


class EncodeFrames:
    """An actor of Ray Data's pool: chunks of pictures to chunks of vectors."""

    def __init__(self, folder: str, version: str):
        encoder = opened_library(folder, version).tracks[FRAMES].encoder
        assert isinstance(encoder, Encoder)
        self.encoder = encoder

    def __call__(self, row: Row) -> Row:
        told = {"video": row["video"], "chunk": row["chunk"], "times": row["times"], "end": row["end"]}
        if row["end"]:
            return {**told, "vectors": b"", "failed": ""}
        size = (self.encoder.fit.height, self.encoder.fit.width, 3)
        images = np.frombuffer(row["pixels"], np.uint8).reshape(-1, *size).copy()
        before = np.frombuffer(row["before"], np.uint8).reshape(size).copy() if row["before"] else None
        try:
            vectors = self.encoder.encode_frames(list(images), before)
        except (ValueError, ArithmeticError) as problem:
            return {**told, "vectors": b"", "failed": str(problem)}
        return {**told, "vectors": np.ascontiguousarray(vectors, np.float32).tobytes(), "failed": ""}


@dataclass(frozen=True)
class _Seen:
    info: VideoInfo
    problem: str | None


class Finish:
    """An actor: subtitles, sections, background scores; then the piece that is committed."""

    def __init__(self, folder: str, version: str):
        self.folder, self.version = folder, version
        self.pieces = pieces_at(folder)

    @cached_property
    def library(self) -> Library:
        return opened_library(self.folder, self.version)

    def open(self) -> None:
        """See that the library and its encoders can be had here: what is wrong is said before the work begins."""
        self.library.tracks  # noqa: B018

    def finish(self, key: str, video: NewVideo, ending: Ending, chunks: Sequence[Chunk]) -> str | None:
        """Write a video's piece; returns what is wrong with the file where there is none."""
        assert ending.info is not None
        tracks = self.library.tracks
        width = tracks[FRAMES].encoder.width
        parts = (chunk.part(width) for chunk in chunks)
        seen = _Seen(ending.info, ending.problem)
        try:
            rate = self.library.settings.rate
            item = index_parts(self.library.folder, video, seen, parts, tracks, rate, lambda at, of: None)
        except FILE_PROBLEMS as problem:
            return reason(problem, video.path)
        self.pieces.write(key, item)
        return None
