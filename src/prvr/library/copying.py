"""Copy the videos of one library to another, and compare them there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict

import numpy as np

from prvr.errors import printable
from prvr.library.errors import DamagedVectors, LibraryError
from prvr.library.library import Library
from prvr.library.store.arrays import Section
from prvr.library.store.buffer import IndexedVideo, SectionBuffer
from prvr.library.store.catalogue import NewVideo, Video
from prvr.library.store.snapshot import Snapshot
from prvr.media import VideoFile

_REPORTED = 1000  # videos between two lines of progress
_NAMED = 100  # videos at most that only the copy holds


def copy_videos(origin: Library, copy: Library, report: Callable[[str], None]) -> tuple[int, int]:
    """Copy all videos that the copy does not hold yet, then read every video in both places and compare them.

    Files that were moved since the last copy get their new names in the copy. Videos of the copy that the source does
    not hold stay, and are reported.

    Returns:
        How many videos were copied, and how many were there already.
    """
    _require_alike(origin, copy)
    snapshot, videos = origin.snapshot(), origin.videos()
    if snapshot.problems:
        raise LibraryError(f"{origin.address} is damaged ({snapshot.problems[0]}): run `prvr library repair` first")
    _follow_moves(videos, copy, report)
    there = {video.path: video for video in copy.videos()}
    todo = [video for video in videos if not _is_copied(video, there.get(video.path))]
    committer = copy.store.committer(lambda _: None)
    try:
        for number, video in enumerate(todo):
            if number % _REPORTED == 0:
                report(f"{number} of {len(todo)} videos copied")
            claim = copy.store.claim(video.path, wait=True)
            assert claim is not None
            committer.put(read_indexed(origin, snapshot, video), claim)
    finally:
        committer.close()
    copy.store.clean()
    report(f"comparing {len(snapshot.videos)} videos")
    _compare(snapshot, copy)
    _report_others(sorted(there.keys() - {video.path for video in videos}, key=str), origin, copy, report)
    return len(todo), len(videos) - len(todo)


def _require_alike(origin: Library, copy: Library) -> None:
    """Refuse a target whose vectors are not made as those of the source."""
    for name, mine, theirs in (
        ("vectors", origin.record.recipes, copy.record.recipes),
        ("settings", asdict(origin.settings), asdict(copy.settings)),
        ("a model", origin.record.model, copy.record.model),
    ):
        if mine != theirs:
            raise LibraryError(
                f"{copy.address} holds a library with {name} of another kind than {origin.address}: choose another "
                "place for the copy"
            )


def _is_copied(video: Video, there: Video | None) -> bool:
    """Whether the copy holds a video already, with all its tags. It may have more of them."""
    if there is None or not {*video.tags} <= {*there.tags}:
        return False
    return all(
        getattr(video, name) == getattr(there, name) for name in ("size", "mtime", "digest", "subtitles", "state")
    )


def _follow_moves(videos: Sequence[Video], copy: Library, report: Callable[[str], None]) -> None:
    """Rename videos of the copy whose content the source now holds under a path that the copy does not know."""
    there = copy.videos()
    paths, known = {video.path for video in videos}, {video.path for video in there}
    left: dict[str, list[Video]] = {}
    for video in there:
        if video.path not in paths and video.digest:
            left.setdefault(video.digest, []).append(video)
    moves = [(left[v.digest].pop(), v) for v in videos if v.path not in known and left.get(v.digest)]
    for number, (before, video) in enumerate(moves):
        if number % _REPORTED == 0:
            report(f"{number} of {len(moves)} videos moved")
        claim = copy.store.claim(video.path, wait=True)
        assert claim is not None
        try:
            copy.store.rename(before, video.path, video.mtime)
        finally:
            claim.release()


def _report_others(others: Sequence[VideoFile], origin: Library, copy: Library, report: Callable[[str], None]) -> None:
    """Name videos that only the copy holds. It may have been given more than the source."""
    if not others:
        return
    report(f"{len(others)} only in {copy.address}, not in {origin.address} (`prvr library remove` forgets them):")
    for path in others[:_NAMED]:
        report(f"  {printable(str(path), one_line=True)}")
    if len(others) > _NAMED:
        report(f"  and {len(others) - _NAMED} more")


def read_indexed(library: Library, snapshot: Snapshot, video: Video) -> IndexedVideo:
    """What is stored of a video."""
    values = {name: value for name, value in vars(video).items() if name != "id"}
    indexed = IndexedVideo(NewVideo(**values), lines=tuple(library.store.lines(video.id)))
    for name, sections in snapshot.tracks.items():
        if sections.damaged([video.id]):  # a copy would look sound
            raise DamagedVectors([video.id])
        found = sections.sections_of(video.id)
        if found:
            indexed.tracks[name] = SectionBuffer(library.store.scratch)
            for section in found:
                indexed.tracks[name].add(section)
    return indexed


def _compare(snapshot: Snapshot, copy: Library) -> None:
    """Read every video in both places. Raises an error that names the first one that differs."""
    copied = copy.snapshot()
    numbers = {copied.videos[number].path: number for number in copied.videos}
    for video in snapshot.videos.values():
        number = numbers.get(video.path)
        same = number is not None and all(
            _equal(sections.sections_of(video.id), copied.tracks[name].sections_of(number))
            for name, sections in snapshot.tracks.items()
            if sections.by_video.of_video(video.id)
        )
        if not same:
            raise LibraryError(
                f"{video.path} in {copy.address} is not what was copied: remove it there and run the command again"
            )


def _equal(mine: list[Section], theirs: list[Section]) -> bool:
    """Whether sections hold the same numbers."""
    return len(mine) == len(theirs) and all(
        one.tokens == other.tokens
        and one.arrays.keys() == other.arrays.keys()
        and all(np.array_equal(array, other.arrays[name]) for name, array in one.arrays.items())
        for one, other in zip(mine, theirs, strict=True)
    )
