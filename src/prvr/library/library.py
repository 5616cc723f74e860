"""A user's indexed videos.

    library = Library.create("films.prvr", encoder="plain", rate=1.0)
    library.add(["holiday.mp4", "archive/"])
    for hit in library.search("a red car turns left"):
        print(hit.video.path, hit.start, hit.end, hit.confidence)

A library is a folder: ``library.json`` (its settings), ``catalogue.sqlite`` (its videos) and ``shards/`` (vectors,
mapped into memory). To make a backup, copy the folder while nothing is being added. ``prvr.lake`` opens libraries that
many machines share.

The work happens in three folders: ``store/`` (what is on disk), ``ingest/`` (from files to vectors) and ``search/``
(from a query to hits).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prvr.library.activity import ActivityKind, Announcement, LibraryActivity, announce, read_activities, shared_folder
from prvr.library.examples import find_examples
from prvr.library.folder import FolderStore
from prvr.library.ingest.add import Adder
from prvr.library.ingest.files import absolute_path, find_videos
from prvr.library.ingest.progress import AddProgress, AddReport
from prvr.library.ingest.setup import EncoderOverrides, LibraryPlan, plan_with_encoders
from prvr.library.ingest.tracks import FRAMES, TEXT, Track
from prvr.library.reindex import ReindexReport, reindex_videos
from prvr.library.repair import RepairReport, repair_library
from prvr.library.search.candidate_build import CandidateRecall, measure_recall
from prvr.library.search.candidates import IndexSettings
from prvr.library.search.damage import search_undamaged
from prvr.library.search.filters import Filters
from prvr.library.search.knowledge import Knowledge
from prvr.library.search.moments import MomentOptions
from prvr.library.search.one_video import VideoExplanation, explain_video
from prvr.library.search.pipeline import run_search
from prvr.library.search.query import encode_queries
from prvr.library.search.request import GroupBy, QueryInput, SearchRequest
from prvr.library.search.results import SearchResult, empty_result
from prvr.library.search.score import SectionScorer
from prvr.library.state import LibraryState
from prvr.library.store.background import Floats
from prvr.library.store.catalogue import Video
from prvr.library.store.listing import LibrarySummary, ListRequest, VideoList, can_be_stored
from prvr.library.store.model import require_model
from prvr.library.store.settings import LibraryRecord, LibrarySettings, read_record, require_empty, write_record
from prvr.library.store.snapshot import Snapshot
from prvr.library.store.verify import LibraryStatus, Verification
from prvr.library.stores import Store
from prvr.media import BucketPath, Encoder, TextEncoder, Transcriber, VideoFile

if TYPE_CHECKING:
    from prvr.library.ingest.witness import SentenceWords


class Library:
    """An open library. Any number of threads and processes may search and add at the same time."""

    def __init__(self, store: Store, encoders: EncoderOverrides | None = None):
        self._state = LibraryState(store, encoders or {})
        self.scorer = SectionScorer()

    # -- opening ------------------------------------------------------------------------------------------------------

    @staticmethod
    def create(
        path: str | Path,
        *,
        encoder: str | Encoder | None = None,
        text_encoder: str | TextEncoder | None = None,
        model: str | Path | None = None,
        **settings: Any,
    ) -> Library:
        """Create an empty library.

        Args:
            path: a folder that is empty or does not exist.
            encoder: of frames and sentences: a name, a folder, or an open encoder. Without one, the image–text encoder
                that ``prvr prepare`` has fetched is taken; where there is none, that is an error.
            text_encoder: of subtitles; without one, they are searched by their words only.
            model: a trained run to search with. The library keeps a copy of its weights.
            settings: the other fields of ``LibrarySettings``.
        """
        require_empty(Path(path))
        plan = plan_with_encoders(encoder, text_encoder, model=None if model is None else str(model), **settings)
        return Library.create_planned(Path(path), plan)

    @staticmethod
    def create_planned(folder: Path, plan: LibraryPlan) -> Library:
        """Create an empty library from settings that were checked. If another process was first, open its library."""
        require_empty(folder)
        plan.keep_model(folder)
        write_record(folder, plan.record)
        return Library(FolderStore(folder, read_record(folder)), plan.encoders)

    @staticmethod
    def open(path: str | Path, *, encoder: Encoder | None = None, text_encoder: TextEncoder | None = None) -> Library:
        """Open a library. Encoders that are not given here are loaded when they are first needed."""
        folder = Path(path)
        return Library(FolderStore(folder, read_record(folder)), {FRAMES: encoder, TEXT: text_encoder})

    @property
    def store(self) -> Store:
        """Where the library keeps its videos and vectors."""
        return self._state.store

    @property
    def record(self) -> LibraryRecord:
        """How its vectors are made."""
        return self._state.record

    @property
    def address(self) -> str:
        """The folder or the address of the library, as a person writes it."""
        return self.store.address

    @property
    def folder(self) -> Path:
        """The folder of a library on this machine."""
        assert isinstance(self.store, FolderStore)
        return self.store.folder

    @property
    def settings(self) -> LibrarySettings:
        return self.record.settings

    @property
    def tracks(self) -> dict[str, Track]:
        """The tracks by name, with encoders and model loaded."""
        return self._state.tracks(self.record)

    def prepare(self) -> None:
        """Load encoders, model and vectors in a process that stays open, so that a problem shows before a search."""
        _ = self.tracks
        self.store.prepare()
        self.scorer.prepare(self.snapshot().tracks.values())

    @property
    def knowledge(self) -> Knowledge:
        """How far answers can be trusted."""
        return self._state.knowledge(self.record)

    def require_model(self, run: str | Path) -> None:
        """Refuse a run that is not the model this library was created with."""
        from prvr.library.ingest.trained import open_run

        require_model(self.record.model, open_run(run), self.address)

    # -- changing -----------------------------------------------------------------------------------------------------

    def add(
        self,
        paths: Sequence[str | VideoFile] = (),
        *,
        tags: Sequence[str] = (),
        retry: bool = False,
        speech: str | Transcriber | None = None,
        processes: int | None = None,
        progress: Callable[[AddProgress], None] | None = None,
    ) -> AddReport:
        """Add files, or all videos in folders. You can interrupt it and run it again.

        Args:
            paths: video files and folders, or their addresses in a bucket. Unchanged files are skipped.
            tags: attached to all of them.
            retry: try files again that failed before; all of them, if no path is given.
            speech: a speech model that writes the lines of videos without subtitles, such as ``whisper-base``.
            processes: that decode; None: one for each core; 1: this process alone.
            progress: called while files are encoded.
        """
        if isinstance(paths, str | Path | BucketPath):
            paths = [paths]
        found = find_videos(paths)
        return self.add_files(found, tags=tags, retry=retry, speech=speech, processes=processes, progress=progress)

    def add_files(
        self,
        files: Sequence[VideoFile],
        *,
        tags: Sequence[str] = (),
        retry: bool = False,
        speech: str | Transcriber | None = None,
        processes: int | None = None,
        progress: Callable[[AddProgress], None] | None = None,
    ) -> AddReport:
        """Add files that ``find_videos`` has found. See ``add``."""
        if not files and retry:
            files = [video.path for video in self.videos(state="failed")]
        with self.announce("add", shared_folder(files)) as announcement:
            progress = announcement.follow(progress)
            adder = self.adder(tags=tags, retry=retry, speech=speech, processes=processes, progress=progress)
            report = adder.run(files)
            self.store.clean()
        return report

    def adder(
        self,
        *,
        tags: Sequence[str] = (),
        retry: bool = False,
        speech: str | Transcriber | None = None,
        processes: int | None = None,
        progress: Callable[[AddProgress], None] | None = None,
        again: Iterable[VideoFile] = (),
    ) -> Adder:
        """What adds files to this library: plans, indexes and commits them, and keeps the report.

        ``again``: files to index although they have not changed.
        """
        record = self.record
        return Adder(
            store=self.store,
            tracks=lambda: self._state.tracks(record),
            rate=self.settings.rate,
            tags=tuple(tags),
            retry=retry,
            speech=speech,
            processes=processes,
            progress=progress,
            again=frozenset(again),
        )

    def remove(self, paths: Iterable[str | VideoFile] = (), *, missing: bool = False) -> list[Video]:
        """Remove videos and free their space. The video files themselves are not touched.

        Args:
            paths: files, or folders with everything in them.
            missing: also remove all videos whose files are gone.

        Returns:
            The removed videos.
        """
        if isinstance(paths, str | Path | BucketPath):
            paths = [paths]
        removed = self.store.remove([absolute_path(path) for path in paths], missing=missing)
        self.store.clean()
        return removed

    def change_tags(self, video: int, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> None:
        """Attach tags to a video and take others off."""
        self.store.change_tags(video, add, remove)

    def reindex(
        self,
        *,
        encoder: str | Encoder | None = None,
        rate: float | None = None,
        repeats: float | None = None,
        progress: Callable[[AddProgress], None] | None = None,
    ) -> ReindexReport:
        """Encode the pictures of all videos anew. You can interrupt it and run it again.

        The library answers with its old vectors until all new ones are there. Tags, numbers and subtitles stay.

        Args:
            encoder: another encoder; by default the one that the library has.
            rate: other frames per second.
            repeats: another difference up to which a frame is not encoded again; 0: encode every frame.
            progress: called while files are decoded.
        """
        with self.announce("reindex") as announcement:
            report, opened = reindex_videos(self.store, encoder, rate, repeats, announcement.follow(progress))
        if report.record is not None:
            self._state.renew(report.record, opened)
        return report

    def repair(self, *, progress: Callable[[AddProgress], None] | None = None) -> RepairReport:
        """Index damaged videos again, and put right what can be without their files. See ``verify``.

        Args:
            progress: called while files are decoded.
        """
        with self.announce("add") as announcement:
            report = repair_library(self, announcement.follow(progress))
        self._state.renew()
        return report

    def index(self, settings: IndexSettings | None = None, report: Callable[[str], None] = lambda _: None) -> list[str]:
        """Build the index for approximate searches. Returns the tracks that have one; small ones need none."""
        backgrounds = {name: track.background for name, track in self.tracks.items()}
        return self.store.index(self.snapshot(), backgrounds, settings or IndexSettings(), report)

    def announce(self, what: ActivityKind, folders: Sequence[str] = ()) -> AbstractContextManager[Announcement]:
        """Say what this process does to the library, for the length of a block; see ``activities``."""
        return announce(self.address, self.store.activity_folder, LibraryActivity(what, tuple(folders)))

    # -- looking ------------------------------------------------------------------------------------------------------

    def activities(self) -> list[LibraryActivity]:
        """What is being done to the library now, by any process; for a lake, by this one."""
        return read_activities(self.address, self.store.activity_folder)

    def videos(self, state: str | None = None) -> list[Video]:
        """All files that the library knows, or only those whose state is "ok" or "failed"."""
        return self.store.videos(state)

    def video(self, number: int) -> Video | None:
        """The file with this number, whatever its state; None if there is none."""
        return self.store.video(number)

    def listing(self, request: ListRequest) -> VideoList:
        """A part of the list of videos: by folder, tag and state, in several orders."""
        if request.folder is not None and not can_be_stored(request.folder):
            return VideoList([], 0)
        return self.store.listing(request)

    def folders(self, folder: VideoFile) -> dict[str, int]:
        """Names of the folders directly in a folder, each with the number of videos in it and below."""
        return self.store.folders(folder) if can_be_stored(folder) else {}

    def summary(self) -> LibrarySummary:
        """How many videos there are, how long, in which folders and with which tags."""
        return self.store.summary()

    def snapshot(self) -> Snapshot:
        """The library as it is now. Later changes do not affect it."""
        return self._state.snapshot()

    def damage(self) -> str:
        """A sentence about what searches leave out because it is damaged; "" if nothing is known to be.

        It names no files. Of a lake it says only what searches have met.
        """
        return self._state.damage()

    def status(self) -> LibraryStatus:
        """Counts and sizes."""
        return self.store.status()

    def verify(self) -> Verification:
        """Compare catalogue, arrays and video files. The result says what is wrong and what to do."""
        return self.store.verify()

    def lines(self, video: int, start: float, end: float) -> list[str]:
        """The subtitle lines of a video between two times."""
        return [line.text for line in self.store.lines(video, start, end)]

    # -- searching ----------------------------------------------------------------------------------------------------

    def search(
        self,
        query: QueryInput,
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
        """Find moments by a sentence, a picture (a ``Path`` or an array (H, W, 3)) or a ``MomentQuery``.

        See ``SearchRequest``. Confidence, presence and understood words are known for sentences only.
        """
        request = SearchRequest(
            query=query,
            limit=limit,
            offset=offset,
            group_by=group_by,
            filters=filters or Filters(),
            min_confidence=min_confidence,
            trace=trace,
            moments=moments or MomentOptions(),
            approximate=approximate,
        )
        return self.search_many([request])[0]

    def search_many(
        self,
        requests: Sequence[SearchRequest],
        snapshot: Snapshot | None = None,
    ) -> list[SearchResult]:
        """Answer several requests in one pass over the vectors.

        Args:
            requests: each with its own query and options.
            snapshot: the state to search; by default the library as it is now.
        """
        began = time.perf_counter()
        snapshot = snapshot or self.snapshot()
        if not snapshot.videos:
            return [empty_result(request, "The library holds no videos yet.") for request in requests]
        results = search_undamaged(
            snapshot,
            search=lambda sound: self._search(requests, sound),
            changed_rows=self.store.changed_rows,
            leave_out=self._state.leave_out,
        )
        seconds = time.perf_counter() - began
        return [replace(result, seconds=seconds) for result in results]

    def _search(self, requests: Sequence[SearchRequest], snapshot: Snapshot) -> list[SearchResult]:
        approximate = any(request.uses_candidates for request in requests)
        return run_search(
            requests,
            snapshot,
            encode=lambda name, queries: encode_queries(queries, self._state.tracks(snapshot.record)[name]),
            words_of=lambda texts: self._words_of(texts, snapshot),
            candidates=self.store.candidates(snapshot) if approximate else {},
            knowledge=self._state.knowledge(snapshot.record),
            words=lambda: self.store.words(snapshot),
            lines=self.lines,
            scorer=self.scorer,
        )

    def _words_of(self, texts: Sequence[str], snapshot: Snapshot) -> dict[str, SentenceWords]:
        """The words of sentences as the model's witness reads them; empty without one."""
        return self._state.tracks(snapshot.record)[FRAMES].embedding.words_of(texts)

    def examples(self, most: int = 5) -> list[str]:
        """A few sentences that this library answers well; none if it is large and has no index of candidates.

        Takes about as long as twenty searches.
        """
        return find_examples(self, most)

    def encode(self, track: str, queries: Sequence[QueryInput]) -> Floats:
        """Encode queries as one track's vectors (Q, D). A row is zero if the track cannot use that query."""
        return encode_queries(queries, self.tracks[track])

    def explain(
        self,
        query: QueryInput,
        video: int,
        *,
        track: str | None = None,
        trace: bool = True,
        moments: MomentOptions | None = None,
    ) -> VideoExplanation:
        """Explain how one video answers a query, without ranking the others.

        Args:
            query: a sentence, a picture or a moment.
            video: the number of the video.
            track: frames or text; by default frames, if the video has them.
            trace: cut moments out of the routed evidence; off: out of the direct evidence.
            moments: how moments are cut out.
        """
        snapshot = self.snapshot()

        return explain_video(
            query,
            video,
            snapshot,
            encode=lambda name, queries: encode_queries(queries, self._state.tracks(snapshot.record)[name]),
            words_of=lambda texts: self._words_of(texts, snapshot),
            knowledge=self._state.knowledge(snapshot.record),
            scorer=self.scorer,
            track=track,
            trace=trace,
            options=moments or MomentOptions(),
        )

    def recall(self, best: int = 10) -> dict[str, CandidateRecall]:
        """By track, the share of the exact best videos of background sentences that approximate search finds."""
        candidates = self.store.candidates(self.snapshot())
        return {name: measure_recall(each, self.tracks[name].background, best) for name, each in candidates.items()}
