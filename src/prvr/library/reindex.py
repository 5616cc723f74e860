"""Encode the pictures of a library anew: with another encoder, at another rate, or more or fewer of them.

The old vectors are searched until every video has new ones; then one step replaces them. However the process ends,
running the same command again continues.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from prvr.library.errors import LibraryError
from prvr.library.ingest.frozen import FrozenEmbedding
from prvr.library.ingest.index import Decoding, index_files
from prvr.library.ingest.progress import AddProgress, AddReport, ProgressClock
from prvr.library.ingest.setup import plan_library
from prvr.library.ingest.tracks import FRAMES, Track
from prvr.library.store.buffer import IndexedVideo
from prvr.library.store.catalogue import NewVideo, Video
from prvr.library.store.rebuild import Rebuild
from prvr.library.store.settings import LibraryRecord, LibrarySettings
from prvr.library.stores import Store
from prvr.media import Encoder

_SHOWN = 3  # files that an error names


@dataclass(frozen=True)
class ReindexReport:
    """What happened."""

    record: LibraryRecord | None  # how vectors are made now; None if they were made like that before
    videos: int = 0  # encoded by this call
    elapsed: float = 0.0
    index_dropped: bool = False  # the candidate index was of the old vectors: build it again
    abandoned: bool = False  # others were begun before, and their vectors are deleted now


def reindex_videos(
    store: Store,
    encoder: str | Encoder | None,
    rate: float | None,
    repeats: float | None,
    progress: Callable[[AddProgress], None] | None,
) -> tuple[ReindexReport, Encoder | None]:
    """Replace the vectors of all pictures. See ``Library.reindex``; returns the opened encoder with the report.

    Raises:
        LibraryError: files could not be read, so that the old vectors stay in use; or the library has a trained model.
    """
    began = time.perf_counter()
    settings = _new_settings(store, encoder, rate, repeats)
    plan = plan_library(
        replace(settings, text_encoder=None), {FRAMES: encoder if isinstance(encoder, Encoder) else None}
    )
    opened = plan.encoders[FRAMES]
    assert isinstance(opened, Encoder)
    recipes = {**store.record.recipes, FRAMES: plan.record.recipes[FRAMES]}
    if recipes == store.record.recipes and settings == store.record.settings:
        return ReindexReport(None, abandoned=store.abandon_rebuild()), None
    target = LibraryRecord(settings, recipes)
    track = Track(
        FRAMES, FrozenEmbedding.of_frames(opened, settings), settings.storage, settings.repeats, settings.decoder
    )
    rebuild, videos = store.rebuild(target), 0
    try:
        while missing := rebuild.missing():  # again if videos were added meanwhile
            videos += len(missing)
            _encode(store.scratch, rebuild, missing, track, settings.rate, progress, began)
        dropped = store.has_index()
        if dropped:
            store.drop_index()
        while not rebuild.switch():
            _encode(store.scratch, rebuild, rebuild.missing(), track, settings.rate, progress, began)
    finally:
        rebuild.close()
    return ReindexReport(target, videos, time.perf_counter() - began, dropped), opened


def _new_settings(
    store: Store, encoder: str | Encoder | None, rate: float | None, repeats: float | None
) -> LibrarySettings:
    settings = store.record.settings
    if encoder is None and rate is None and repeats is None:
        raise LibraryError("nothing to change was given: name another --encoder, --rate or --repeats")
    if store.record.model is not None:
        raise LibraryError(
            f"{store.address} searches with a trained {store.record.model.method}, which fixes its encoder and rate: "
            "create another library to use another encoder"
        )
    name = settings.encoder if encoder is None else encoder if isinstance(encoder, str) else encoder.name
    return replace(
        settings,
        encoder=name,
        rate=settings.rate if rate is None else rate,
        repeats=settings.repeats if repeats is None else repeats,
    )


def _encode(
    scratch: Path | None,
    rebuild: Rebuild,
    videos: list[Video],
    track: Track,
    rate: float,
    progress: Callable[[AddProgress], None] | None,
    began: float,
) -> None:
    """Build the new vectors of these videos. Files that cannot be read are an error, after all others are done."""
    failed: dict[Video, str] = {}
    clock = ProgressClock(videos, AddReport(), began, progress)
    numbers = iter(videos)
    indexing = index_files(
        scratch,
        map(_known, videos),
        {FRAMES: track},
        rate,
        lambda _: clock.start(next(numbers)),
        decoding=Decoding(files=len(videos), bytes=sum(video.size for video in videos)),
        lines=False,
    )
    with closing(indexing):
        for video, indexed in zip(videos, indexing, strict=True):
            clock.finish(video)
            if indexed.video.state == "ok":
                rebuild.put(video, _with_text_problem(video, indexed))
            else:
                failed[video] = str(indexed.video.problem)
    if failed:
        named = "; ".join(f"{video.path}: {reason}" for video, reason in list(failed.items())[:_SHOWN])
        others = f"; and {len(failed) - _SHOWN} more" if len(failed) > _SHOWN else ""
        raise LibraryError(
            f"{len(failed)} of {len(videos)} files could not be read, so the old vectors stay in use "
            f"({named}{others}). Put the files back, or take them out of the library (`prvr library remove "
            "--missing`, or remove FILE), and run the command again: what is done stays done"
        )


def _known(video: Video) -> NewVideo:
    return NewVideo(**{name: value for name, value in vars(video).items() if name not in ("id", "problem")})


def _with_text_problem(video: Video, indexed: IndexedVideo) -> IndexedVideo:
    """Subtitles, and what is wrong with them, stay as they are."""
    if indexed.video.problem is None and video.problem is not None and video.problem.startswith("subtitles:"):
        indexed.video = replace(indexed.video, problem=video.problem)
    return indexed
