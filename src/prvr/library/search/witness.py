"""After a track is ranked: the witness of a trained model looks at the best videos again, word by word.

Only the order of the best few changes: of as many as the witness was fitted with, fifty by default. Probabilities, and
what is said of a search, are those of the scores before: they were fitted without a witness.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prvr.library.search.query import TrackQuery
from prvr.library.search.track_rank import TrackRanking
from prvr.library.store.background import Floats
from prvr.library.store.blocks import Ids, KeptFrames
from prvr.library.store.sections import TrackSections

if TYPE_CHECKING:
    from prvr.library.ingest.witness import SeenWords, SentenceWords


class WitnessedRanking(NamedTuple):
    """The ranking of one sentence, and what its witness needs to look again."""

    ranking: TrackRanking
    scores: Floats  # (S',) of the sections that its query reads
    said: SentenceWords | None  # the sentence; None: nobody looks again


def rank_again(before: Sequence[WitnessedRanking], sections: TrackSections) -> list[TrackRanking]:
    """For each sentence, the best videos in the order of ``S − μ·h + λ·S_words``; all others below them as they were.

    Args:
        before: rankings of the pictures.
        sections: of the track. Where some have nothing for a witness, a ranking stays.
    """
    begun = [_look_again(each, sections) for each in before]  # all of them, before the first is waited for
    return [each.ranking if look is None else look() for each, look in zip(before, begun, strict=True)]


def _look_again(one: WitnessedRanking, sections: TrackSections) -> Callable[[], TrackRanking] | None:
    """Begin to look at the best videos of a ranking again; what it returns waits for the new ranking."""
    ranking, said = one.ranking, one.said
    best = ranking.top(said.fitted.candidates) if said is not None else []
    kept = sections.kept_frames(_best_sections(ranking.query, one.scores, best)) if best else None
    if said is None or kept is None:
        return None
    hubs = np.array([each.hub for each in kept], np.float32)
    return partial(_ranked_again, ranking, said, best, hubs, said.look_into([each.frames for each in kept]))


def _ranked_again(
    ranking: TrackRanking, said: SentenceWords, best: Sequence[int], hubs: Floats, seen: Future[SeenWords]
) -> TrackRanking:
    columns = np.searchsorted(ranking.query.sections.videos, best)
    before = ranking.scores[columns]
    after = before - said.fitted.hubs * hubs + said.fitted.words * seen.result().score
    lift = np.zeros_like(ranking.scores)
    lift[columns] = after - after.min() + before.min() - before
    return replace(ranking, scores=ranking.scores + lift, lift=lift, said=said)


def _best_sections(query: TrackQuery, scores: Floats, videos: Sequence[int]) -> Ids:
    """The numbers of the best section of each video."""
    read = query.read
    places = np.searchsorted(read.videos, videos)
    first = read.starts[places]
    return read.numbers[
        [begin + scores[begin:end].argmax() for begin, end in zip(first, read.starts[places + 1], strict=True)]
    ]


@dataclass(frozen=True, eq=False)
class WordCurve:
    """What one word sees over time."""

    word: str
    weight: float  # α; those of a sentence sum to 1
    explained: float  # how well the video explains it, 1 at best
    evidence: Floats  # (n,)


@dataclass(frozen=True, eq=False)
class WordsOverTime:
    """What each word of a sentence sees in the frames of one video. It is computed when somebody looks at it."""

    said: SentenceWords
    frames: tuple[NDArray[np.float16], ...]  # of each section, (m, D)
    bounds: tuple[tuple[float, float], ...]  # start and end of each section in seconds

    @cached_property
    def _parts(self) -> list[tuple[Floats, NDArray[np.bool_]]]:
        """Of each section the spans of its frames (m, 2), and which are not told by the section before, (m,)."""
        parts, told = [], -np.inf
        for (start, end), frames in zip(self.bounds, self.frames, strict=True):
            edges = np.linspace(start, end, len(frames) + 1, dtype=np.float32)
            parts.append((np.stack([edges[:-1], edges[1:]], 1), edges[:-1] > told - 1e-3))
            told = end
        return parts

    @cached_property
    def spans(self) -> Floats:
        """(n, 2): start and end of each frame in seconds."""
        return np.concatenate([spans[new] for spans, new in self._parts])

    @cached_property
    def words(self) -> tuple[WordCurve, ...]:
        """In the order of the sentence."""
        seen = self.said.seen_in(self.frames)
        evidence = np.concatenate([part[:, new] for part, (_, new) in zip(seen.evidence, self._parts, strict=True)], 1)
        explained = seen.explained[seen.score.argmax()]
        columns = zip(self.said.names, self.said.weights[0].tolist(), explained.tolist(), evidence, strict=True)
        return tuple(WordCurve(*column) for column in columns)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "spans": self.spans.astype(np.float64).round(3).tolist(),
            "words": [
                {
                    "word": each.word,
                    "weight": round(each.weight, 4),
                    "explained": round(each.explained, 4),
                    "evidence": each.evidence.astype(np.float64).round(4).tolist(),
                }
                for each in self.words
            ],
        }


def words_over_time(said: SentenceWords, parts: Sequence[tuple[KeptFrames, Floats]]) -> WordsOverTime:
    """What the words see in a video.

    Args:
        said: the sentence.
        parts: of each section, in order of time: what a witness reads of it, and the spans of its tokens (m, 2).
    """
    frames = tuple(kept.frames.copy() for kept, _ in parts)  # so that what was read with them need not stay in memory
    bounds = tuple((float(spans[:, 0].min()), float(spans[:, 1].max())) for _, spans in parts)
    return WordsOverTime(said, frames, bounds)
