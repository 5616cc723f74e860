"""The other stages of adding on a cluster: actors that encode frames, and actors that finish videos.

Each actor opens the library itself, from the folder that all nodes share or from object storage. So a node whose
encoder differs from the library's is refused as on one machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from prvr.cluster.connection import ClusterError, require_same_version
from prvr.cluster.decode import Ending, Row
from prvr.cluster.object_pieces import pieces_at
from prvr.library import FILE_PROBLEMS, FRAMES, RECORD_FILE, Library, NewVideo, failure_reason, index_parts
from prvr.media import Encoder, FeaturePart, VideoInfo
from prvr.objects import fetch_description, is_address


@dataclass(frozen=True)
class Chunk:
    """Encoded frames, as they are sent between processes."""

    times: bytes
    vectors: bytes

    @property
    def last(self) -> float:
        """The time of the last frame, in seconds."""
        return float(np.frombuffer(self.times)[-1])

    def part(self, width: int) -> FeaturePart:
        vectors = np.frombuffer(self.vectors, np.float32).reshape(-1, width)
        return FeaturePart(np.frombuffer(self.times).copy(), vectors.copy())  # arrays that arrive cannot be written to


def open_library(folder: str, version: str) -> Library:
    """Open a library on a node. Of one on object storage, only what encoding needs is fetched."""
    require_same_version(version)
    if is_address(folder):
        return Library.open(fetch_description(folder))
    if not (Path(folder) / RECORD_FILE).exists():
        raise ClusterError(
            f"a node of the cluster does not see the library {folder}: put it on storage that all nodes share, under "
            "the same path"
        )
    return Library.open(folder)


class EncodeFrames:
    """An actor in Ray Data's pool that turns chunks of frames into chunks of vectors."""

    def __init__(self, folder: str, version: str):
        encoder = open_library(folder, version).tracks[FRAMES].encoder
        assert isinstance(encoder, Encoder)
        self.encoder = encoder

    def __call__(self, row: Row) -> Row:
        fields = {"video": row["video"], "chunk": row["chunk"], "times": row["times"], "end": row["end"]}
        if row["end"]:
            return {**fields, "vectors": b"", "failed": ""}
        size = (self.encoder.fit.height, self.encoder.fit.width, 3)
        images = np.frombuffer(row["pixels"], np.uint8).reshape(-1, *size).copy()
        before = np.frombuffer(row["before"], np.uint8).reshape(size).copy() if row["before"] else None
        try:
            vectors = self.encoder.encode_frames(list(images), before)
        except (ValueError, ArithmeticError) as problem:
            return {**fields, "vectors": b"", "failed": str(problem)}
        return {**fields, "vectors": np.ascontiguousarray(vectors, np.float32).tobytes(), "failed": ""}


@dataclass(frozen=True)
class _DecodedFile:
    info: VideoInfo
    problem: str | None


class SectionWriter:
    """An actor that cuts encoded frames and subtitles into sections and writes the piece that is then committed."""

    def __init__(self, folder: str, version: str):
        self.folder, self.version = folder, version
        self.pieces = pieces_at(folder)

    @cached_property
    def library(self) -> Library:
        return open_library(self.folder, self.version)

    def open(self) -> None:
        """Open the library and its encoders, so that problems show before the work starts."""
        self.library.tracks  # noqa: B018

    def finish(self, key: str, video: NewVideo, ending: Ending, chunks: Sequence[Chunk]) -> str | None:
        """Write a video's piece. Returns None, or what is wrong with the file."""
        assert ending.info is not None
        tracks = self.library.tracks
        width = tracks[FRAMES].encoder.width
        parts = (chunk.part(width) for chunk in chunks)
        opened = _DecodedFile(ending.info, ending.problem)
        try:
            rate = self.library.settings.rate
            item = index_parts(self.library.folder, video, opened, parts, tracks, rate, lambda at, of: None)
        except FILE_PROBLEMS as problem:
            return failure_reason(problem, video.path)
        self.pieces.write(key, item)
        return None
