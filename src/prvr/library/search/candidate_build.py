"""Build candidate indexes, tune them, and measure how much of exact search they find."""

from __future__ import annotations

import contextlib
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from prvr.files import sync_folder, write_whole
from prvr.library.errors import LibraryError
from prvr.library.search import candidates
from prvr.library.search.candidates import (
    INDEX_FOLDER,
    ROW,
    SHARD_BITS,
    CandidateIndex,
    Candidates,
    IndexRecord,
    IndexSettings,
    TrackCandidates,
    lance_for_candidates,
)
from prvr.library.search.stretches import (
    STRETCHES,
    build_stretch_index,
    is_lance_error,
    stretch_column,
    stretch_type,
)
from prvr.library.store.background import Floats, best_by_video
from prvr.library.store.blocks import Ids
from prvr.library.store.claims import claim
from prvr.library.store.sections import ShardSections, TrackSections
from prvr.library.store.snapshot import Snapshot

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset

_FEWEST_PROBES = 8
_GOOD_RECALL = 0.99
_TOKENS_AT_ONCE = 1 << 15

Report = Callable[[str], None]


@dataclass(frozen=True)
class CandidateRecall:
    """The share of the exact best videos that an approximate search finds."""

    share: float
    best: int  # videos of each query
    queries: int

    def __str__(self) -> str:
        return f"{100 * self.share:.1f} % of the exact best {self.best} of {self.queries} sentences"


def measure_recall(candidates: Candidates, background: Floats, best: int, probes: int | None = None) -> CandidateRecall:
    """Recall on the background sentences (B, D). Their exact scores are stored, so no vector is read for it."""
    understood = np.flatnonzero(candidates.sections.understood)
    exact = _best_videos(candidates.sections, min(best, len(candidates.sections.by_video.videos)))  # (best, B)
    named = candidates.of(background[understood], probes) if len(understood) else []
    shares = [
        float(np.isin(exact[:, sentence], np.union1d(near, candidates.reference)).mean())
        for sentence, near in zip(understood, named, strict=True)
    ]
    return CandidateRecall(float(np.mean(shares)) if shares else 1.0, len(exact), len(shares))


def _best_videos(sections: TrackSections, count: int) -> Ids:
    """(count, B): for each background sentence the videos that score best."""
    videos: Ids = np.zeros((0, 0), np.int64)
    scores: NDArray[np.float32] = np.zeros((0, 0), np.float32)
    for of_part, part, starts in sections.background_parts(sections.by_video):
        found = best_by_video(part, starts, sections.fusion_weight)
        owners = np.broadcast_to(of_part[:, None], found.shape)
        scores = np.concatenate([scores, found]) if len(scores) else found
        videos = np.concatenate([videos, owners]) if len(videos) else owners
        order = np.argsort(-scores, axis=0, kind="stable")[:count]
        scores, videos = np.take_along_axis(scores, order, 0), np.take_along_axis(videos, order, 0)
    return videos


def choose_probes(candidates: Candidates, background: Floats, lists: int) -> int:
    """How many of an index's lists to look at: twice as many until recall is good."""
    probes = min(_FEWEST_PROBES, lists)
    while probes < lists and measure_recall(candidates, background, 10, probes).share < _GOOD_RECALL:
        probes = min(2 * probes, lists)
    return probes


def build_indexes(
    library: Path, snapshot: Snapshot, backgrounds: Mapping[str, Floats], settings: IndexSettings, report: Report
) -> dict[str, CandidateIndex]:
    """Build an index of every track that is large enough.

    Args:
        library: the library's folder.
        snapshot: its current state.
        backgrounds: by track, the background sentences as vectors (B, D).
        settings: how candidates are found.
        report: called with a line of text before each long step.
    """
    held = claim(library, Path(INDEX_FOLDER))
    if held is None:
        raise LibraryError(f"another process is indexing {library}: wait until it is done")
    built = {}
    try:
        for name, sections in snapshot.tracks.items():
            assert isinstance(sections, ShardSections)
            index = _build_index(library, name, sections, backgrounds[name], settings, report)
            if index is not None:
                built[name] = index
    finally:
        held.release()
    return built


def _build_index(
    library: Path, track: str, sections: ShardSections, background: Floats, settings: IndexSettings, report: Report
) -> CandidateIndex | None:
    """Build, tune and save the index of a track; None if the track is too small to need one."""
    tokens = int(sections.tokens.sum())
    if tokens < candidates.FEWEST_TOKENS:
        _delete_tables(library, track)
        with contextlib.suppress(OSError):
            (library / INDEX_FOLDER).rmdir()
        return None
    lists = settings.lists_for(tokens)
    report(f"{track}: {tokens:,} tokens in {lists:,} lists")
    name = f"{track}-{uuid.uuid4().hex}.lance"  # a new name: others search the old table meanwhile
    table = _write_table(library / INDEX_FOLDER / name, sections, lists)
    rows = {str(shard.id): len(shard) for shard in sections.shards}
    record = IndexRecord(name, rows, len(sections), settings.probes or lists, settings)
    if not settings.probes:
        report(f"{track}: choosing how many lists to look at")
        index = CandidateIndex(library, track, record, table)
        record = replace(record, probes=choose_probes(TrackCandidates(index, sections), background, lists))
    write_whole(library / INDEX_FOLDER / f"{track}.json", record.to_json())
    _delete_tables(library, track, keep=name)
    return CandidateIndex.open(library, track)


def _delete_tables(library: Path, track: str, keep: str | None = None) -> None:
    """Delete the tables of a track but one, and its record if none is kept. Older versions wrote files instead."""
    folder = library / INDEX_FOLDER
    if keep is None:
        (folder / f"{track}.json").unlink(missing_ok=True)
    for old in folder.glob(f"{track}-*"):
        if old.name != keep:
            shutil.rmtree(old, ignore_errors=True) if old.is_dir() else old.unlink(missing_ok=True)


def _write_table(place: Path, sections: ShardSections, lists: int) -> LanceDataset:
    """Write the stretches of all sections to a new table, and index them."""
    lance = lance_for_candidates()
    import pyarrow as pa

    _, width = sections.shards[0].page_shape
    schema = pa.schema([(ROW, pa.int64()), (STRETCHES, stretch_type(width))])
    place.parent.mkdir(exist_ok=True)
    try:
        rows = pa.RecordBatchReader.from_batches(schema, _row_batches(sections, schema))
        table = lance.write_dataset(rows, place, mode="create")
        build_stretch_index(table, lists)
        for path in (place.parent, place, *place.rglob("*")):
            sync_folder(path)
    except BaseException as problem:
        shutil.rmtree(place, ignore_errors=True)
        if not is_lance_error(problem):
            raise
        raise LibraryError(f"the candidate index could not be written to {place.parent}: {problem}") from problem
    return table


def _row_batches(sections: ShardSections, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of the table: each section's place and stretches."""
    import pyarrow as pa

    for place, shard in enumerate(sections.shards):
        numbers = np.arange(sections.starts[place], sections.starts[place + 1])
        cuts = np.flatnonzero(np.diff(sections.tokens[numbers].cumsum() // _TOKENS_AT_ONCE)) + 1
        for some in np.split(numbers, cuts):
            rows, counts = sections.row[some], sections.tokens[some]
            with sections.reading(place):
                gallery = shard.take(rows).numpy_gallery
            starts = gallery.first_page[:-1] * gallery.page  # of each section's tokens in the pages that were read
            slots = np.arange(counts.sum()) + np.repeat(starts - np.cumsum(counts) + counts, counts)
            tokens = gallery.floats("local", slice(None)).reshape(-1, gallery.width)[slots]
            yield pa.record_batch([pa.array(rows | shard.id << SHARD_BITS), stretch_column(tokens, counts)], schema)
