"""Build candidate indexes, tune them, and measure how much of exact search they find."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from prvr.files import sync_folder, write_whole
from prvr.library.errors import LibraryError
from prvr.library.search import candidates
from prvr.library.search.candidates import (
    INDEX_FOLDER,
    SHARD_BITS,
    CandidateIndex,
    Candidates,
    IndexRecord,
    IndexSettings,
    TrackCandidates,
    require_faiss,
)
from prvr.library.store.background import best_by_video
from prvr.library.store.claims import claim
from prvr.library.store.sections import Ids, MappedSections, TrackSections
from prvr.library.store.snapshot import Snapshot

_TRAINING_TOKENS = 40  # for each list; faiss wants at least 39
_ROUNDS = 6  # of learning the lists; a worse fit only costs speed, because probes are tuned afterwards
_PAGES_AT_ONCE = 2048
_GOOD_RECALL = 0.99

Report = Callable[[str], None]


@dataclass(frozen=True)
class CandidateRecall:
    """The share of the exact best videos that an approximate search finds."""

    share: float
    best: int  # videos of each query
    queries: int

    def __str__(self) -> str:
        return f"{100 * self.share:.1f} % of the exact best {self.best} of {self.queries} sentences"


def measure_recall(candidates: Candidates, background: Tensor, best: int, probes: int | None = None) -> CandidateRecall:
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


def build_indexes(
    library: Path, snapshot: Snapshot, backgrounds: Mapping[str, Tensor], settings: IndexSettings, report: Report
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
            assert isinstance(sections, MappedSections)
            index = _build_index(library, name, sections, backgrounds[name], settings, report)
            if index is not None:
                built[name] = index
    finally:
        held.release()
    return built


def _build_index(
    library: Path, track: str, sections: MappedSections, background: Tensor, settings: IndexSettings, report: Report
) -> CandidateIndex | None:
    """Build, tune and save the index of a track; None if the track is too small to need one."""
    faiss = require_faiss()
    tokens = sum(len(numbers) for numbers in _token_slots(sections, settings.every))
    if tokens < candidates.FEWEST_TOKENS:
        _discard(library, track)
        return None
    width = sections.shards[0].gallery.width
    lists = settings.lists or max(1, min(4 * round(tokens**0.5), tokens // 39))
    index = faiss.IndexIVFScalarQuantizer(
        faiss.IndexFlatIP(width), width, lists, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
    )
    index.cp.niter = _ROUNDS
    report(f"{tokens:,} tokens in {lists:,} lists: learning the lists")
    step = max(1, tokens // (lists * _TRAINING_TOKENS))
    index.train(np.concatenate([vectors[::step] for vectors, _ in _token_vectors(sections, settings.every)]))
    report("filling the lists")
    for vectors, numbers in _token_vectors(sections, settings.every):
        index.add_with_ids(vectors, numbers)
    pages = {str(shard.id): int(shard.gallery.first_page[-1]) for shard in sections.shards}
    name = f"{track}-{uuid.uuid4().hex}.faiss"  # a new name: another process may have the old file mapped
    record = IndexRecord(name, pages, tokens, settings.probes or 1, settings)
    record = _tune(TrackCandidates(CandidateIndex(record, index), sections), background, lists)
    (library / INDEX_FOLDER).mkdir(exist_ok=True)
    faiss.write_index(index, str(library / INDEX_FOLDER / name))
    sync_folder(library / INDEX_FOLDER / name)
    write_whole(library / INDEX_FOLDER / f"{track}.json", record.to_json())
    for old in (library / INDEX_FOLDER).glob(f"{track}-*.faiss"):
        if old.name != name:
            old.unlink(missing_ok=True)
    return CandidateIndex.open(library, track)


def _tune(candidate_index: TrackCandidates, background: Tensor, lists: int) -> IndexRecord:
    """Double the probes until recall is good, or take the number that was asked for."""
    record = candidate_index.index.record
    probes = record.settings.probes or 4
    while True:
        recall = measure_recall(candidate_index, background, 10, probes).share
        if record.settings.probes or recall >= _GOOD_RECALL or probes >= lists:
            return replace(record, probes=probes, recall=recall)
        probes = min(2 * probes, lists)


def _discard(library: Path, track: str) -> None:
    """Delete the index of a track."""
    for path in [library / INDEX_FOLDER / f"{track}.json", *(library / INDEX_FOLDER).glob(f"{track}-*.faiss")]:
        path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        (library / INDEX_FOLDER).rmdir()


def _token_slots(sections: MappedSections, every: int) -> Iterator[NDArray[np.int64]]:
    """For each shard, the slots of the tokens to index."""
    for place, shard in enumerate(sections.shards):
        first = shard.gallery.first_page.numpy() * shard.gallery.page
        here = sections.shard == place
        rows = zip(sections.row[here], sections.tokens[here], strict=True)
        yield np.concatenate([np.zeros(0, np.int64), *(first[row] + np.arange(0, count, every) for row, count in rows)])


def _token_vectors(sections: MappedSections, every: int) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]:
    """Unit vectors (n, D) of the tokens to index and their numbers (n,), a block at a time."""
    for shard, slots in zip(sections.shards, _token_slots(sections, every), strict=True):
        gallery, page = shard.gallery, shard.gallery.page
        for start in range(0, int(gallery.first_page[-1]), _PAGES_AT_ONCE):
            inside = slots[(slots >= start * page) & (slots < (start + _PAGES_AT_ONCE) * page)]
            block = gallery.local[start : start + _PAGES_AT_ONCE].restore().flatten(0, 1).numpy()
            yield np.ascontiguousarray(block[inside - start * page]), inside | (shard.id << SHARD_BITS)
