"""Approximate candidates for libraries too large to read for every query.

An inverted-file index (faiss) over the stored stretches names the sections that may hold the answer; those alone are
then scored exactly, with TRACE. Sections that were added after the index was built are scored too, and removed ones
are no candidates, so an old index costs time or recall but never shows what is not there.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from prvr.files import sync_folder, write_whole
from prvr.library.errors import LibraryError, NoCandidates
from prvr.library.search.confidence import FEWEST_VIDEOS
from prvr.library.store.sections import Ids
from prvr.library.store.snapshot import Mapped, TrackView

FOLDER = "candidates"
FORMAT = 1
FEWEST = 20_000  # stretches below which reading them all is as fast
_SHARD_BITS = 40  # a stretch's number is its shard's, then its slot in it
_SAMPLE = 40  # training vectors for each list: faiss wants 39 at least
_ROUNDS = 6  # of learning the lists; how well they fit is a matter of speed alone, as probes are tuned to them
_BLOCK = 2048  # pages at a time
SAMPLE = 64  # videos at most that are scored whatever the query
_SAMPLE_TOKENS = 1 << 16  # and about so many stretches

_ANEW = "run `prvr library index` anew, or search exactly"

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class IndexSettings:
    """How candidates are found."""

    every: int = 2
    """of how many neighbouring stretches one is indexed; they overlap"""
    neighbours: int = 2000
    """stretches that are asked for; a video has many that are alike, so ask for far more than the videos wanted"""
    videos: int = 200
    """videos that are then scored exactly: those of the best stretches"""
    lists: int = 0
    """lists of the inverted file; 0: four times the square root of the stretches"""
    probes: int = 0
    """lists that are looked at; 0: as few as find 99 % of the exact best ten of the background sentences"""

    def __post_init__(self) -> None:
        if min(self.every, self.neighbours, self.videos) < 1 or min(self.lists, self.probes) < 0:
            raise LibraryError("every, neighbours and videos are at least 1, lists and probes at least 0")


@dataclass(frozen=True)
class IndexAbout:
    """What stands beside an index: ``candidates/TRACK.json``."""

    file: str
    pages: dict[str, int]  # by shard: how many of its pages are indexed
    stretches: int
    probes: int
    settings: IndexSettings = field(default_factory=IndexSettings)
    recall: float | None = None  # of the exact best ten, measured when it was built
    format: int = FORMAT


class CandidateIndex:
    """An index of one track on disk, mapped into memory."""

    def __init__(self, about: IndexAbout, index: Any):
        self.about, self.index = about, index

    @staticmethod
    def open(library: Path, track: str) -> CandidateIndex | None:
        """The index of a track, or None where none was built."""
        place = library / FOLDER / f"{track}.json"
        try:
            told = json.loads(place.read_text("utf-8"))
            if told["format"] > FORMAT:
                raise NoCandidates(library, "has an index of candidates by a newer prvr", f"update prvr, or {_ANEW}")
            about = IndexAbout(**{**told, "settings": IndexSettings(**told["settings"])})
            faiss = require_faiss()
            index = faiss.read_index(str(place.parent / about.file), faiss.IO_FLAG_MMAP)
        except FileNotFoundError:
            return None
        except RuntimeError:
            raise NoCandidates(library, f"has a damaged index ({about.file})", _ANEW) from None
        except (ValueError, TypeError, KeyError) as problem:
            raise NoCandidates(library, f"has an index that cannot be used ({place.name}: {problem})", _ANEW) from None
        return CandidateIndex(about, index)

    def near(self, queries: Tensor, probes: int | None = None) -> Rows:
        """Numbers of the stretches nearest to each query, (Q, D) → (Q, neighbours), best first; −1 behind the last."""
        faiss = require_faiss()
        units = np.array(queries.float().numpy(), np.float32, order="C")
        faiss.normalize_L2(units)
        parameters = faiss.SearchParametersIVF(nprobe=probes or self.about.probes)
        wanted = min(self.about.settings.neighbours, self.about.stretches)
        _, found = self.index.search(units, wanted, params=parameters)
        numbers: Rows = found
        return numbers


class Candidates:
    """An index beside one state of a track: what it names, and what came after it."""

    def __init__(self, index: CandidateIndex, view: TrackView):
        self.index, self.view = index, view

    def of(self, queries: Tensor, probes: int | None = None) -> list[Ids]:
        """For each query (Q, D) the videos that may answer it, and all that the index does not know yet."""
        return [np.union1d(self._named(near[near >= 0]), self.unindexed) for near in self.index.near(queries, probes)]

    def _named(self, stretches: Rows) -> Ids:
        """Videos of the best stretches."""
        owners, places = np.unique(self.view.owners[_sections(self.view, stretches)], return_index=True)
        named: Ids = owners[np.argsort(places)][: self.index.about.settings.videos]
        return named

    @cached_property
    def unindexed(self) -> Ids:
        """Videos that the index does not know yet."""
        missing = [np.zeros(0, np.int64)]
        for place, shard in enumerate(self.view.shards):
            known = np.searchsorted(_ends(shard), self.index.about.pages.get(str(shard.id), 0), side="right")
            missing.append(self.view.starts[place] + np.flatnonzero(shard.rows >= known))
        return np.unique(self.view.owners[np.concatenate(missing)])

    @cached_property
    def drawn(self) -> Ids:
        """Videos that are scored whatever the query, to know how it scores anywhere: the same few every time."""
        sections = self.view.by_video
        tokens = np.array([tokens for _, _, tokens in self.view.places])[sections.numbers]
        order = np.random.default_rng(0).permutation(len(sections.ids))[:SAMPLE]
        few = np.add.reduceat(tokens, sections.starts[:-1])[order].cumsum() <= _SAMPLE_TOKENS
        few[: 2 * FEWEST_VIDEOS] = True
        return np.sort(sections.ids[order[few]])


def _sections(view: TrackView, stretches: Rows) -> Rows:
    """The section of each stretch, in their order; those of removed videos are left out."""
    found = np.full(len(stretches), -1, np.int64)
    for place, shard in enumerate(view.shards):
        here = np.flatnonzero(stretches >> _SHARD_BITS == shard.id)
        slots = stretches[here] & ((1 << _SHARD_BITS) - 1)
        rows = np.searchsorted(_ends(shard), slots // shard.gallery.page, side="right")
        numbers = np.searchsorted(shard.rows, rows).clip(max=len(shard.rows) - 1)
        found[here] = np.where(shard.rows[numbers] == rows, view.starts[place] + numbers, -1)
    return found[found >= 0]


def build_index(
    library: Path,
    track: str,
    view: TrackView,
    settings: IndexSettings,
    recall_of: Callable[[CandidateIndex, int], float],
    said: Callable[[str], None] = lambda _: None,
) -> CandidateIndex | None:
    """Build, tune and keep an index of a track; None where the track is too small to need one.

    ``recall_of`` says which share of the exact best an index finds with so many probes.
    """
    faiss = require_faiss()
    stretches = sum(len(numbers) for _, numbers in _stretches(view, settings.every, read=False))
    if stretches < FEWEST:
        discard(library, track)
        return None
    width = view.shards[0].gallery.width
    lists = settings.lists or max(1, min(4 * round(stretches**0.5), stretches // 39))
    quantiser = faiss.IndexFlatIP(width)
    index = faiss.IndexIVFScalarQuantizer(
        quantiser, width, lists, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
    )
    index.cp.niter = _ROUNDS
    said(f"{stretches:,} stretches in {lists:,} lists: learning the lists")
    index.train(_sample(view, settings.every, stretches, lists * _SAMPLE))
    said("filling them")
    for vectors, numbers in _stretches(view, settings.every):
        index.add_with_ids(vectors, numbers)
    pages = {str(shard.id): int(shard.gallery.first_page[-1]) for shard in view.shards}
    name = f"{track}-{uuid.uuid4().hex}.faiss"  # never one that another process has mapped
    about = IndexAbout(name, pages, stretches, settings.probes or 1, settings)
    made = CandidateIndex(about, index)
    probes, recall = _tuned(made, settings, lists, recall_of)
    about = IndexAbout(name, pages, stretches, probes, settings, recall)
    (library / FOLDER).mkdir(exist_ok=True)
    faiss.write_index(index, str(library / FOLDER / name))
    sync_folder(library / FOLDER / name)
    write_whole(library / FOLDER / f"{track}.json", json.dumps(asdict(about), indent=1))
    for old in (library / FOLDER).glob(f"{track}-*.faiss"):
        if old.name != name:
            old.unlink(missing_ok=True)
    return CandidateIndex.open(library, track)


def discard(library: Path, track: str) -> None:
    """Forget the index of a track."""
    for path in [library / FOLDER / f"{track}.json", *(library / FOLDER).glob(f"{track}-*.faiss")]:
        path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        (library / FOLDER).rmdir()


def _tuned(
    index: CandidateIndex, settings: IndexSettings, lists: int, recall_of: Callable[[CandidateIndex, int], float]
) -> tuple[int, float]:
    """As few probes as give the recall that is wanted, by doubling; or the number that was asked for."""
    probes = settings.probes or 4
    while True:
        recall = recall_of(index, probes)
        if settings.probes or recall >= 0.99 or probes >= lists:
            return probes, recall
        probes = min(2 * probes, lists)


def _stretches(view: TrackView, every: int, *, read: bool = True) -> Iterator[tuple[NDArray[np.float32], Rows]]:
    """Unit vectors (n, D) of living stretches and their numbers, a block at a time."""
    for place, shard in enumerate(view.shards):
        gallery, page = shard.gallery, shard.gallery.page
        first = gallery.first_page.numpy()
        living = view.places[view.starts[place] : view.starts[place + 1]]
        slots = [first[row] * page + np.arange(0, tokens, every) for _, row, tokens in living]
        numbers = np.concatenate(slots) if slots else np.zeros(0, np.int64)
        if not read:
            yield np.zeros((0, gallery.width), np.float32), numbers
            continue
        for start in range(0, int(first[-1]), _BLOCK):
            inside = numbers[(numbers >= start * page) & (numbers < (start + _BLOCK) * page)]
            vectors = gallery.local[start : start + _BLOCK].restore().flatten(0, 1).numpy()[inside - start * page]
            yield np.ascontiguousarray(vectors), inside | (shard.id << _SHARD_BITS)


def _sample(view: TrackView, every: int, stretches: int, wanted: int) -> NDArray[np.float32]:
    """About so many stretches, spread evenly."""
    step = max(1, stretches // wanted)
    return np.concatenate([vectors[::step] for vectors, _ in _stretches(view, every)])


def _ends(shard: Mapped) -> Rows:
    """The page at which each row of a shard ends."""
    ends: Rows = shard.gallery.first_page[1:].numpy()
    return ends


def require_faiss() -> Any:
    try:
        import faiss
    except ImportError:
        raise NoCandidates(
            None, "approximate candidates need faiss", 'pip install "prvr[candidates]", or search exactly'
        ) from None
    return faiss
