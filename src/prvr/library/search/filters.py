"""Which videos a search may find."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from prvr.library.errors import LibraryError
from prvr.library.ingest.files import absolute_path
from prvr.library.store.catalogue import Video
from prvr.media import VideoFile


@dataclass(frozen=True)
class Filters:
    """Conditions on videos. All that are given must hold."""

    folder: VideoFile | None = None
    """only videos in this folder, or at this address of a bucket, and the folders in it"""
    after: str | None = None
    """only files changed on this day or later: 2024-05-31 or 2024-05-31T18:00"""
    before: str | None = None
    """only files changed before this day"""
    min_duration: float | None = None
    """at least this long, in seconds; on the command line also 90s, 1m30s, 1h or 1:30:00"""
    max_duration: float | None = None
    """at most this long, in the same way"""
    tags: tuple[str, ...] = ()
    """only videos with all of these tags"""

    def __post_init__(self) -> None:
        for seconds in (self.min_duration, self.max_duration):
            if seconds is not None and not math.isfinite(seconds):
                raise LibraryError(f"a duration must be a number of seconds, not {seconds}")

    @property
    def any(self) -> bool:
        """Whether there is any condition."""
        return self != Filters()

    @property
    def dates(self) -> tuple[float | None, float | None]:
        """``after`` and ``before`` in seconds since 1970."""
        after, before = (None if day is None else _seconds(day) for day in (self.after, self.before))
        return after, before

    def choose(self, videos: Iterable[Video]) -> set[int]:
        """Numbers of the videos that pass."""
        folder = None if self.folder is None else absolute_path(self.folder)
        after, before = self.dates
        chosen = set()
        for video in videos:
            length = video.duration
            holds = (
                (folder is None or video.path.is_relative_to(folder))
                and (after is None or video.date >= after)
                and (before is None or video.date < before)
                and (self.min_duration is None or (length is not None and length >= self.min_duration))
                and (self.max_duration is None or (length is not None and length <= self.max_duration))
                and set(self.tags) <= set(video.tags)
            )
            if holds:
                chosen.add(video.id)
        return chosen


def _seconds(day: str) -> float:
    try:
        return datetime.fromisoformat(day).timestamp()
    except ValueError:
        raise LibraryError(f"{day!r} is not a date: write it like 2024-05-31 or 2024-05-31T18:00") from None
