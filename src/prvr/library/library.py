"""A user's indexed videos on disk.

    lib = Library.create("films.prvr", encoder="plain", rate=1.0)
    lib.add(["holiday.mp4", "archive/"])
    for hit in lib.search("a red car turns left"):
        print(hit.video.path, hit.start, hit.end, hit.confidence)

A library is a folder: ``library.json`` (what it was made with), ``catalogue.sqlite`` (what it holds), ``shards/``
(vectors, mapped into memory). Copy the folder while nothing is being added, and you have a backup.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import torch

from prvr.library.errors import LibraryError
from prvr.library.ingest.add import Adder, AddProgress, AddReport, Work
from prvr.library.ingest.files import absolute, find_videos
from prvr.library.ingest.setup import Given, open_tracks, plan_library, require_encoder
from prvr.library.ingest.tracks import FRAMES, TEXT, Track
from prvr.library.search.answering import answer, nothing
from prvr.library.search.asking import Here
from prvr.library.search.candidates import CandidateIndex, IndexSettings
from prvr.library.search.filters import Filters
from prvr.library.search.moments import MomentOptions
from prvr.library.search.narrowing import CandidateRecall, OpenIndexes, build_indexes, measured
from prvr.library.search.query import Ranker, encode_queries, question_of, rank
from prvr.library.search.results import Hit, SearchResult
from prvr.library.search.searching import GroupBy, SearchOptions
from prvr.library.store.catalogue import Catalogue, Video, read_videos
from prvr.library.store.model import require_model
from prvr.library.store.remove import free_space, remove_videos
from prvr.library.store.settings import FILE, About, LibrarySettings, read_about, unfinished, write_about
from prvr.library.store.snapshot import Snapshot, take_snapshot
from prvr.library.store.verify import LibraryStatus, Verification, library_status, verify_library
from prvr.media.encoders import Encoder, TextEncoder
from prvr.media.frames import Image

_Encoder = TypeVar("_Encoder", bound=TextEncoder)


class Library:
    """An open library. Any number of threads and processes may search and add at the same time."""

    def __init__(self, folder: Path, about: About, given: Given):
        self.folder, self.about = folder, about
        self.catalogue = Catalogue(folder)
        self._given = given
        self._snapshot: Snapshot | None = None
        self._indexes = OpenIndexes(folder)
        self._lock = threading.Lock()
        for name, encoder in given.items():
            if encoder is not None:
                require_encoder(about, name, encoder, folder)

    # -- opening ------------------------------------------------------------------------------------------------------

    @staticmethod
    def create(
        path: str | Path,
        *,
        encoder: str | Encoder = "plain",
        text_encoder: str | TextEncoder | None = None,
        model: str | Path | None = None,
        **settings: Any,
    ) -> Library:
        """Make an empty library; ``settings`` are those of ``LibrarySettings``. Refuses a folder that holds one.

        ``model``: a trained run to search with. The library keeps a copy of its weights.
        """
        folder = Path(path)
        if (folder / FILE).exists():
            raise LibraryError(f"{folder} holds a library already: open it, or choose another folder")
        if folder.exists() and (not folder.is_dir() or not all(map(unfinished, folder.iterdir()))):
            raise LibraryError(f"{folder} holds something else: choose a folder that is empty or does not exist")
        made = LibrarySettings(
            encoder=encoder if isinstance(encoder, str) else encoder.name,
            text_encoder=text_encoder if text_encoder is None or isinstance(text_encoder, str) else text_encoder.name,
            model=None if model is None else str(model),
            **settings,
        )
        plan = plan_library(made, {FRAMES: _if_opened(encoder), TEXT: _if_opened(text_encoder)})
        plan.keep_model(folder)
        write_about(folder, plan.about)  # another process may have been first: then its library is opened
        return Library(folder, read_about(folder), plan.encoders)

    @staticmethod
    def open(path: str | Path, *, encoder: Encoder | None = None, text_encoder: TextEncoder | None = None) -> Library:
        """Open a library. Its encoders are loaded when they are first needed, unless they are given here."""
        folder = Path(path)
        return Library(folder, read_about(folder), {FRAMES: encoder, TEXT: text_encoder})

    @property
    def settings(self) -> LibrarySettings:
        return self.about.settings

    @cached_property
    def tracks(self) -> dict[str, Track]:
        """What is searched, with its encoders and its model loaded."""
        return open_tracks(self.folder, self.about, self._given)

    def require_model(self, run: str | Path) -> None:
        """Refuse a run that is not the model this library was made with."""
        from prvr.library.ingest.trained import open_run

        require_model(self.about.model, open_run(run), self.folder)

    # -- changing -----------------------------------------------------------------------------------------------------

    def add(
        self,
        paths: Sequence[str | Path] = (),
        *,
        tags: Sequence[str] = (),
        retry: bool = False,
        progress: Callable[[AddProgress], None] | None = None,
        work: Work | None = None,
    ) -> AddReport:
        """Add files, or all videos in folders. Unchanged files are skipped; with ``retry``, files that failed before
        are tried again (all of them, where no path is given). Interrupt it as you like and run it again.
        ``work``: who decodes and encodes, where it is not this process (``prvr.cluster.ClusterIndexing``)."""
        if isinstance(paths, str | Path):
            paths = [paths]
        wanted = find_videos(paths)
        if not paths and retry:
            wanted = [video.path for video in self.videos(state="failed")]
        adder = Adder(
            catalogue=self.catalogue,
            folder=self.folder,
            tracks=lambda: self.tracks,
            rate=self.settings.rate,
            tags=tuple(tags),
            retry=retry,
            progress=progress,
            with_text=self.settings.text_encoder is not None,
            work=work,
        )
        report = adder.run(wanted)
        free_space(self.catalogue, self.folder)
        return report

    def remove(self, paths: Iterable[str | Path] = (), *, missing: bool = False) -> list[Video]:
        """Take videos out, by file or by folder (or all whose files are ``missing``), and free their space.

        The video files themselves are left alone. Returns what was taken out.
        """
        if isinstance(paths, str | Path):
            paths = [paths]
        gone = remove_videos(self.catalogue, [absolute(path) for path in paths], missing=missing)
        free_space(self.catalogue, self.folder)
        return gone

    # -- looking ------------------------------------------------------------------------------------------------------

    def videos(self, state: str | None = None) -> list[Video]:
        """All files the library knows; ``state``: only those that are "ok" or "failed"."""
        with self.catalogue.reading() as db:
            return read_videos(db) if state is None else read_videos(db, "state = ?", (state,))

    def snapshot(self) -> Snapshot:
        """The library as it is now, mapped into memory."""
        with self._lock:
            self._snapshot = take_snapshot(self.catalogue, self.folder, self._snapshot, self._projection)
            return self._snapshot

    def _projection(self, track: str) -> torch.Tensor | None:
        trained = self.about.model is not None and track == FRAMES
        return self.tracks[track].embedding.query_projection if trained else None

    def status(self) -> LibraryStatus:
        """Counts and sizes."""
        return library_status(self.folder, self.catalogue)

    def verify(self) -> Verification:
        """Compare catalogue, array files and video files; says what is wrong and what to do."""
        return verify_library(self.folder, self.catalogue, self.about.model)

    def lines(self, video: int, start: float, end: float) -> list[str]:
        """What is said in a video between two times."""
        with self.catalogue.reading() as db:
            found = db.execute(
                "SELECT text FROM lines WHERE video = ? AND start < ? AND end > ? ORDER BY start", (video, end, start)
            )
            return [str(text) for (text,) in found]

    # -- searching ----------------------------------------------------------------------------------------------------

    def search(
        self,
        query: str | Path | Image,
        *,
        limit: int = 10,
        offset: int = 0,
        group_by: GroupBy = "video",
        filters: Filters | None = None,
        min_confidence: float = 0.0,
        trace: bool = True,
        moments: MomentOptions | None = None,
        approximate: bool = False,
    ) -> SearchResult:
        """Find moments for a sentence, or for a picture (a ``Path`` or an array (H, W, 3))."""
        options = SearchOptions(
            limit=limit,
            offset=offset,
            group_by=group_by,
            filters=filters or Filters(),
            min_confidence=min_confidence,
            trace=trace,
            moments=moments or MomentOptions(),
            approximate=approximate,
        )
        return self.search_many([query], options)[0]

    def search_many(
        self,
        queries: Sequence[str | Path | Image],
        options: SearchOptions | Sequence[SearchOptions],
        ranker: Ranker | None = None,
    ) -> list[SearchResult]:
        """Several queries, with the same options or each with its own, in one pass over the vectors.

        ``ranker``: who scores, where it is not this process (``prvr.cluster.ClusterSearcher``)."""
        began = time.perf_counter()
        ranker = ranker or Here(self.snapshot())
        snapshot = ranker.snapshot
        names = [str(query) if isinstance(query, str | Path) else "a picture" for query in queries]
        if not snapshot.videos:
            return [nothing(name, "the library holds no video yet", began) for name in names]
        wanted = [options] * len(queries) if isinstance(options, SearchOptions) else list(options)
        named = self._indexes.beside(snapshot) if any(one.narrows for one in wanted) else {}
        question = question_of({name: self.encode(name, queries) for name in snapshot.tracks}, wanted, named)
        return [
            answer(name, ranking, began, self._with_line)
            if ranking is not None
            else nothing(name, self._not_understood(query), began)
            for query, name, ranking in zip(queries, names, rank(ranker, question, wanted), strict=True)
        ]

    def index(
        self, settings: IndexSettings | None = None, said: Callable[[str], None] = lambda _: None
    ) -> dict[str, CandidateIndex]:
        """Build the index that approximate searches take candidates from; a track too small for one gets none."""
        banks = {name: track.bank for name, track in self.tracks.items()}
        return build_indexes(self.folder, self.snapshot(), banks, settings or IndexSettings(), said)

    def recall(self, best: int = 10) -> dict[str, CandidateRecall]:
        """By track: how many of the exact best videos of background sentences an approximate search finds."""
        named = self._indexes.beside(self.snapshot())
        return {name: measured(each, self.tracks[name].bank, best) for name, each in named.items()}

    def encode(self, track: str, queries: Sequence[str | Path | Image]) -> torch.Tensor:
        """(Q, D); a row is zero where the track has nothing to say to a query."""
        return encode_queries(self.tracks[track], queries)

    def _not_understood(self, query: str | Path | Image) -> str:
        if isinstance(query, str) or self.about.model is None:
            return "the encoder understands nothing of this: use other words"
        return "a trained model reads sentences, and no pictures: ask in words"

    def _with_line(self, hit: Hit) -> Hit:
        if hit.track != TEXT:
            return hit
        start, end = hit.evidence.spans[hit.moments[0].peak]
        return replace(hit, line=" ".join(self.lines(hit.video.id, float(start), float(end))) or None)


def _if_opened(encoder: str | _Encoder | None) -> _Encoder | None:
    return None if isinstance(encoder, str) else encoder
