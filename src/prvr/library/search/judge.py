"""How well a library answers sentences whose videos and moments are known.

judgement = judge(library, known_queries)
judgement.recall[1], judgement.recall.sum_r, judgement.overlaps.mean()
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prvr.library.errors import LibraryError
from prvr.library.ingest.files import absolute_path
from prvr.library.ingest.tracks import FRAMES
from prvr.library.search.confidence import Presence
from prvr.library.search.explain import EvidenceRequest, evidence_in_videos, moments_of
from prvr.library.search.moments import MomentOptions
from prvr.library.search.query import TrackQuery
from prvr.library.search.score import score_sections
from prvr.library.search.track_rank import TrackRanking, rank_track
from prvr.media import VideoFile
from prvr.scoring import CalibrationQuality, Recall, recalls
from prvr.trace import temporal_iou

if TYPE_CHECKING:
    from prvr.library.library import Library
    from prvr.worlds import RenderedWorld


@dataclass(frozen=True)
class KnownQuery:
    """A sentence, the videos it is true of, and its moment in the video that it was written about."""

    sentence: str
    correct: frozenset[VideoFile]
    video: VideoFile
    start: float  # seconds
    end: float


@dataclass(frozen=True)
class Judgement:
    """What a library found for each sentence."""

    ranks: NDArray[np.int64]  # (Q,) best place of a correct video; past the last one if nothing was understood
    overlaps: NDArray[np.float64]  # (Q,) temporal IoU of the best moment in the sentence's own video with the true one
    confident: float  # share of sentences that are said to stand out, or to be there for sure
    confident_and_right: float  # the same, and the best video is a correct one
    confident_without: float  # the share, if the library held no video that the sentence is true of
    quality: CalibrationQuality | None  # of the probabilities; None if the library states none

    @cached_property
    def recall(self) -> Recall:
        import torch

        return recalls(torch.from_numpy(self.ranks))


def rendered_queries(world: RenderedWorld, split: str = "test") -> list[KnownQuery]:
    """The sentences of a rendered world's split, with the videos and moments they describe."""
    return [
        KnownQuery(
            query.sentence,
            frozenset(absolute_path(world.videos[name]) for name in world.positives(split, query)),
            absolute_path(world.videos[query.video]),
            query.event.start,
            query.event.end,
        )
        for query in world.queries[split]
    ]


def judge(
    library: Library, known: Sequence[KnownQuery], *, trace: bool = True, moments: MomentOptions | None = None
) -> Judgement:
    """Rank all videos by their pictures for every sentence, and cut a moment out of the sentence's own video."""
    snapshot = library.snapshot()
    sections = snapshot.tracks[FRAMES]
    number_of = {video.path: number for number, video in snapshot.videos.items()}
    _require_videos(library, known, number_of)
    weight, knowledge = sections.fusion_weight if trace else 0.0, library.knowledge
    vectors = library.encode(FRAMES, [query.sentence for query in known])
    scores = score_sections(vectors, sections, library.scorer).fused(weight)
    understood = [row for row in range(len(known)) if bool(vectors[row].any())]

    @lru_cache(1)
    def variations(row: int) -> NDArray[np.float32] | None:
        """Scores of the variations of a sentence on all sections (n, S); None if the encoder reads every word."""
        if knowledge.vary is None or knowledge.calibrations:
            return None
        texts = knowledge.vary(known[row].sentence)
        if not texts:
            return np.zeros((0, len(sections)), np.float32)
        return score_sections(library.encode(FRAMES, texts), sections, library.scorer).fused(weight)

    def rank_without(row: int, left_out: set[int]) -> TrackRanking:
        videos = np.array(sorted(set(sections.by_video.videos.tolist()) - left_out), np.int64)
        some = sections.by_video.of_videos(videos) if left_out else sections.by_video
        query = TrackQuery(vectors[row], weight, some, some)
        varied = variations(row)
        best = None if varied is None else varied[:, some.numbers].max(1, initial=-np.inf)
        return rank_track([query], [scores[row][some.numbers]], sections, knowledge, [best])[0]

    own = [number_of[known[row].video] for row in understood]
    requests = [
        EvidenceRequest(vectors[row], sections.by_video.of_video(video), weight)
        for row, video in zip(understood, own, strict=True)
    ]
    evidence = dict(zip(understood, evidence_in_videos(sections, requests, library.scorer), strict=True))
    ranks, overlaps, present, absent = [], [], [], []
    for row, query in enumerate(known):
        if row not in evidence:
            ranks.append(len(number_of) + 1)
            overlaps.append(0.0)
            continue
        correct = {number_of[path] for path in query.correct if path in number_of}
        ranking = rank_without(row, set())
        places = [ranking.place(number) for number in correct]
        ranks.append(1 + min(place for place in places if place is not None))
        present.append(_said(ranking, right=ranks[-1] == 1))
        if len(without := rank_without(row, correct)):
            absent.append(_said(without, right=False))
        duration = snapshot.videos[number_of[query.video]].duration
        best = moments_of(evidence[row], duration, moments or MomentOptions(), trace=trace)[0]
        overlaps.append(float(temporal_iou(best.start, best.end, query.start, query.end)))
    return Judgement(
        ranks=np.array(ranks),
        overlaps=np.array(overlaps),
        confident=_share(said.presence.confident for said in present),
        confident_and_right=_share(said.presence.confident and said.right for said in present),
        confident_without=_share(said.presence.confident for said in absent),
        quality=_quality(present, absent),
    )


class _Said(NamedTuple):
    """What a search says about itself, and whether its first answer is right."""

    presence: Presence
    first: float | None  # probability that the first answer is right
    right: bool


def _said(ranking: TrackRanking, *, right: bool) -> _Said:
    return _Said(ranking.presence(ranking.top(1)[0]), ranking.standing.confidence(float(ranking.scores.max())), right)


def _share(values: Iterable[bool]) -> float:
    found = list(values)
    return float(np.mean(found)) if found else 0.0


def _quality(present: Sequence[_Said], absent: Sequence[_Said]) -> CalibrationQuality | None:
    """How true the stated probabilities are; None if none are stated."""
    said = [*present, *absent]
    presence, first = ([each.presence.probability for each in said], [each.first for each in said])
    if not said or None in presence or None in first:
        return None
    is_there = np.arange(len(said)) < len(present)
    right = np.array([each.right for each in said])
    return CalibrationQuality.of(np.array(presence, float), is_there, np.array(first, float), right)


def _require_videos(library: Library, known: Sequence[KnownQuery], number_of: Mapping[VideoFile, int]) -> None:
    """Refuse sentences whose own video is not in the library."""
    absent = sorted({query.video for query in known} - set(number_of))
    if absent:
        raise LibraryError(
            f"{library.address} does not hold {absent[0]}"
            + (f" and {len(absent) - 1} more" if len(absent) > 1 else "")
            + ", which the known sentences are about: add them, or judge by sentences about videos that it holds"
        )
    wrong = next((query for query in known if query.video not in query.correct), None)
    if wrong is not None:
        raise LibraryError(f"{wrong.sentence!r} is about {wrong.video}, but that is not among its correct videos")
