"""A library at one point in time. Later changes to the library do not affect it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from prvr.errors import UserError
from prvr.library.errors import LibraryError, TooFewFiles
from prvr.library.store.arrays import Shard, ShardMissing, is_new, read_shards
from prvr.library.store.blocks import Ids
from prvr.library.store.catalogue import Catalogue, Video, read_generation, read_videos
from prvr.library.store.rows import NO_CHECKSUM, SHARDS_FOLDER, SectionRow, read_rows
from prvr.library.store.seals import broken_seals, has_seals
from prvr.library.store.sections import ShardSections, TrackSections
from prvr.library.store.settings import LibraryRecord, kept_record
from prvr.library.store.shard_files import ShardFiles, UnreadableShard
from prvr.library.store.shards import StoredShard
from prvr.processes import allow_open_files

if TYPE_CHECKING:
    from prvr.library.search.filters import Filters

_TRIES = 20
_FEW_VIDEOS, _FEW_LINES = 64, 1 << 12  # all rows about which are compared with their checksums, and not only hits
_OTHER_FILES = 256  # that this process has open, beside those of shards
_UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, RuntimeError, ArithmeticError, MemoryError, OSError)

Stamps = dict[Path, tuple[int, int] | None]  # of files: size and time; None: gone
QueryProjection = Callable[[str], NDArray[np.float32] | None]  # track name -> TRACE's query projection (D, D)


@dataclass(frozen=True)
class Snapshot:
    """Videos and tracks of one generation of a library."""

    generation: Hashable  # differs between two states of the library
    videos: Mapping[int, Video]  # those that can be searched, by number
    tracks: Mapping[str, TrackSections]  # by name; a track without sections is absent
    record: LibraryRecord  # how its vectors were made
    problems: tuple[str, ...] = ()  # what cannot be read and is left out, for people
    damaged: frozenset[int] = frozenset()  # videos of which vectors are left out
    stamps: Mapping[int, Stamps] = field(default_factory=dict)  # by shard, when it was opened
    suspects: frozenset[int] = frozenset()  # shards in which something is damaged

    @property
    def damage_note(self) -> str:
        """A sentence about what is left out; "" if nothing is. It names no files, so that a server can show it."""
        if not self.problems:
            return ""
        count = len(self.damaged)
        what = f"{count} damaged video{'s were' if count > 1 else ' was'}" if count else "Damaged parts were"
        return f"{what} left out: `prvr library verify` names them, `prvr library repair` indexes them again."

    def without(self, videos: Iterable[int]) -> Snapshot:
        """The same without the vectors of some videos, which were found to be damaged."""
        left = {*videos}
        tracks = {name: sections.without(left) for name, sections in self.tracks.items()}
        problems = (*self.problems, f"the vectors of {len(left)} videos are not what was written")
        kept = {name: sections for name, sections in tracks.items() if sections is not None}
        stored = (sections for sections in self.tracks.values() if isinstance(sections, ShardSections))
        shards = {shard for sections in stored for shard in sections.shards_of(left)}
        return replace(
            self, tracks=kept, problems=problems, damaged=self.damaged | left, suspects=self.suspects | shards
        )

    def damaged_among(self, videos: Iterable[int]) -> set[int]:
        """Those of some videos of which something is not what was written, as far as that is cheap to know."""
        chosen = [*videos]
        return {video for sections in self.tracks.values() for video in sections.damaged(chosen)}

    def holds(self, videos: Iterable[int]) -> bool:
        """Whether there are vectors of any of these videos."""
        chosen = [*videos]
        return any(np.isin(sections.owners, chosen).any() for sections in self.tracks.values())

    @cached_property
    def copies(self) -> Mapping[int, tuple[int, ...]]:
        """For each video that is there more than once, the numbers of the other files with the same content."""
        return other_copies((video.digest, video.id) for video in self.videos.values())

    def choose(self, filters: Filters) -> Ids:
        """Numbers of the videos that pass the filters, ascending."""
        return np.array(sorted(filters.choose(self.videos.values())), np.int64)


def other_copies(digests: Iterable[tuple[str, int]]) -> dict[int, tuple[int, ...]]:
    """Numbers of videos with the same digest, for each video that has such.

    >>> other_copies([("a", 1), ("b", 2), ("a", 3)])
    {1: (3,), 3: (1,)}
    """
    groups: dict[str, list[int]] = {}
    for digest, number in digests:
        groups.setdefault(digest, []).append(number)
    found = (group for digest, group in groups.items() if digest and len(group) > 1)
    return {number: tuple(each for each in group if each != number) for group in found for number in group}


def take_snapshot(
    catalogue: Catalogue,
    folder: Path,
    previous: Snapshot | None,
    projection: QueryProjection,
    record: LibraryRecord,
) -> Snapshot:
    """The library as it is now. Returns ``previous`` itself if nothing has changed since.

    ``record`` is what is known of how vectors are made. The snapshot has another one if the library was reindexed.
    """
    lost: int | None = None  # the generation in which a file was missing
    for _ in range(_TRIES):
        with catalogue.reading() as db:
            now = read_generation(db)
            changed: set[int] = set() if previous is None else _changed(previous)
            if previous is not None and previous.generation == now and not changed and _is_whole(previous):
                return previous
            files = {number: files for number, files in _open_files(previous).items() if number not in changed}
            kept = kept_record(db, folder)
            current = record if kept is None or kept == record else kept
            try:
                return _open_tracks(db, folder, now, projection, current, files, lost == now)
            except ShardMissing:  # compacted by another process: then the catalogue has changed; else it is damage
                lost = now
    raise LibraryError(f"{folder} changes faster than it can be read. Try again.")


def _is_whole(snapshot: Snapshot) -> bool:
    return all(sections.is_whole() for sections in snapshot.tracks.values() if isinstance(sections, ShardSections))


def _changed(snapshot: Snapshot) -> set[int]:
    """Damaged shards whose files are not as they were when they were opened: perhaps they were restored."""
    known = {number: snapshot.stamps.get(number, {}) for number in snapshot.suspects}
    return {number for number, stamps in known.items() if _stamps(stamps) != stamps}


def _array_names(shard: Shard) -> list[str]:
    try:
        return [*shard.about["arrays"]]
    except (TypeError, LookupError):  # it is described wrongly
        return []


def _stamps(files: Iterable[Path]) -> Stamps:
    """What shows that files were changed."""
    found: Stamps = {}
    for file in files:
        try:
            about = file.stat()
            found[file] = about.st_size, about.st_mtime_ns
        except OSError:
            found[file] = None
    return found


def _open_files(snapshot: Snapshot | None) -> dict[int, ShardFiles]:
    """The files of each shard that are open, with what is kept of them in memory."""
    tracks = () if snapshot is None else snapshot.tracks.values()
    shards = (sections.shards for sections in tracks if isinstance(sections, ShardSections))
    return {shard.id: shard.files for of_track in shards for shard in of_track}


def _open_tracks(
    db: sqlite3.Connection,
    folder: Path,
    now: int,
    projection: QueryProjection,
    record: LibraryRecord,
    files: Mapping[int, ShardFiles],
    settled: bool,
) -> Snapshot:
    """Open all shards but those that are damaged; a missing one is left out if ``settled``: it does not come back."""
    videos = {video.id: video for video in read_videos(db, "state = 'ok'")}
    changed = {*broken_seals(db, "video")} if _says_little(db, len(videos)) else set()
    known = np.array([number for number in videos if number not in changed], np.int64)
    shards: dict[str, list[StoredShard]] = {}
    columns: dict[str, list[Ids]] = {}
    wrong: list[int] = []
    described = [shard for shard in read_shards(db, wrong) if not is_new(shard.track)]
    places = {shard.id: folder / SHARDS_FOLDER / str(shard.id) for shard in described}
    names = {shard.id: _array_names(shard) for shard in described}
    stamps = {
        number: _stamps([place, *(place / f"{name}.bin" for name in names[number])]) for number, place in places.items()
    }
    allow_open_files(_OTHER_FILES + 2 * sum(map(len, names.values())))  # those of the snapshot before are open as well
    suspects: set[int] = set()
    problems = [f"the catalogue does not describe shard {number} as it was written" for number in wrong]
    problems += [f"the catalogue does not say of {len(changed)} videos what was written"] if changed else []
    damaged = {*changed}
    for number in wrong:
        damaged |= {row.video for row in read_rows(db, number)}
    for shard in described:
        rows = [row for row in read_rows(db, shard.id) if row.video not in changed]
        if not rows:
            continue
        known_track = shard.track in record.recipes
        projected = projection(shard.track) if known_track else None  # a damaged model is no fault of the shard
        try:
            if not known_track:
                raise LibraryError(f"shard {shard.id} is of an unknown kind ({shard.track!r:.20})")
            stored = StoredShard.open(folder, shard, rows, projected, files.get(shard.id))
            stored, of_rows = _sound_rows(stored, rows, known)
        except TooFewFiles:
            raise
        except ShardMissing as gone:
            if not settled:
                raise
            problems.append(f"{gone} is missing: restore it, or run `prvr library repair`")
        except (UserError, UnreadableShard) as problem:
            problems.append(str(problem))
        except _UNREADABLE as problem:
            problems.append(f"shard {shard.id} is not as it was written ({problem})")
        else:
            if len(of_rows) < len(rows):
                problems.append(
                    f"some vectors in {places[shard.id]} are damaged: `prvr library verify` names the files"
                )
            if len(of_rows):
                shards.setdefault(shard.track, []).append(stored)
                columns.setdefault(shard.track, []).append(of_rows)
            whole = {*stored.rows.tolist()}
            rows = [row for row in rows if row.row not in whole]
        if rows:
            suspects.add(shard.id)
            damaged |= {row.video for row in rows}
    if problems and not shards:
        raise LibraryError(problems[0])
    tracks = {track: ShardSections(shards[track], columns[track]) for track in shards}
    left_out = frozenset(damaged & (videos.keys() | changed))
    return Snapshot(now, videos, tracks, record, tuple(problems), left_out, stamps, frozenset(suspects))


def _says_little(db: sqlite3.Connection, videos: int) -> bool:
    """Whether all rows of a catalogue are quickly compared with their checksums."""
    if videos > _FEW_VIDEOS or not has_seals(db):
        return False
    return len(db.execute("SELECT 1 FROM lines LIMIT ?", (_FEW_LINES + 1,)).fetchall()) <= _FEW_LINES


def _sound_rows(stored: StoredShard, rows: Sequence[SectionRow], videos: Ids) -> tuple[StoredShard, Ids]:
    """A shard without the rows that make no sense, and the owner, token count and checksum of each that is left."""
    page, _ = stored.page_shape
    owners, numbers, _, pages, tokens, checksums = np.array(rows, np.int64).T
    fits = np.isin(owners, videos) & (tokens >= 0) & (tokens <= pages * page) & (numbers < len(stored))
    stored = stored.holding(numbers[fits])
    try:
        block = stored.read_if_small()
    except UnreadableShard:
        fits &= ~np.isin(numbers, stored.unreadable())
        stored = stored.holding(numbers[fits])
        block = stored.read_if_small()
    if block is not None:  # it was read now, so looking at it once more costs little
        fits[fits] &= (checksums[fits] == NO_CHECKSUM) | (checksums[fits] == block.checksums[numbers[fits]])
        stored = stored.holding(numbers[fits])
        stored.read_if_small()
    return stored, np.stack([owners, tokens, checksums], 1)[fits]
