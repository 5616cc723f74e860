"""Features of finished videos, kept in one file each, so that a long extraction that was stopped can continue."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from prvr.media.encoders.base import Array, Encoder, WindowEncoder
from prvr.media.features import video_features
from prvr.media.reader import Backend, decoder_name
from prvr.media.recipe import Recipe
from prvr.media.windows import window_features


class ExtractedVideo(NamedTuple):
    """What a dataset stores of a video."""

    vectors: Array  # (n, D)
    recipe: Recipe
    problem: str | None  # what is missing of a damaged file


@dataclass(frozen=True)
class Extraction:
    """How videos become features, and where those of finished videos are kept (nowhere if ``keep`` is None)."""

    encoder: Encoder | WindowEncoder
    rate: float  # frames per second; a window encoder makes one row of several
    backend: Backend = "pyav"
    keep: Path | None = None
    repeats: float = 0.0  # as ``feature_parts`` takes it
    pool: int = 1  # samples whose mean is one row

    def features(self, path: Path) -> ExtractedVideo:
        """The features of a video: those that were kept, if the file has not changed since.

        Raises:
            MediaError: the file is not a video, or none of it can be decoded.
        """
        kept = self._kept_file(path)
        found = None if kept is None else _read(kept)
        if found is None:
            if isinstance(self.encoder, WindowEncoder):
                made = window_features(path, self.encoder, self.rate, self.backend)
            else:
                made = video_features(path, self.encoder, self.rate, self.backend, self.repeats)
            found = ExtractedVideo(made.vectors, made.recipe, made.problem)
            if kept is not None:
                _write(kept, found)
        return found if self.pool == 1 else _pooled(found, self.pool)

    def _kept_file(self, path: Path) -> Path | None:
        """Named after everything that the features depend on."""
        if self.keep is None or not path.is_file():
            return None
        status = path.stat()
        recipe = self.encoder.recipe(self.rate, decoder_name(self.backend), self.repeats).to_json()
        facts = json.dumps([str(path.resolve()), status.st_size, status.st_mtime_ns, recipe])
        return self.keep / f"{hashlib.sha256(facts.encode()).hexdigest()[:32]}.npz"


def _pooled(video: ExtractedVideo, count: int) -> ExtractedVideo:
    """The mean of every ``count`` rows; the last row may be of fewer."""
    starts = np.arange(0, len(video.vectors), count)
    sizes = np.diff([*starts, len(video.vectors)])[:, None]
    means = (np.add.reduceat(video.vectors, starts, axis=0) / sizes).astype(np.float32)
    how = "; ".join(filter(None, (f"mean of {count}", video.recipe.preprocessing)))
    return ExtractedVideo(means, replace(video.recipe, preprocessing=how), video.problem)


def _read(path: Path) -> ExtractedVideo | None:
    try:
        with np.load(path, allow_pickle=False) as stored:
            about = json.loads(str(stored["about"]))
            return ExtractedVideo(stored["vectors"], Recipe.from_dict(about["recipe"]), about["problem"])
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):  # not there, or damaged: made again
        return None


def _write(path: Path, video: ExtractedVideo) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    about = json.dumps({"recipe": json.loads(video.recipe.to_json()), "problem": video.problem})
    beside = path.with_name(f".{path.stem}.{os.getpid()}.npz")
    try:
        np.savez(beside, vectors=video.vectors, about=np.array(about))
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
