"""A few searches that a library answers well, to show people what they may ask.

Sentences are tried, not made up: of many common ones, those are taken whose best video stands out, and lines that are
said in a video and lead to it.
"""

from __future__ import annotations

import random
import re
import sqlite3
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from prvr.library.errors import NoCandidates
from prvr.library.ingest.sentences import BACKGROUND_SENTENCES
from prvr.library.ingest.tracks import FRAMES
from prvr.library.search.request import SearchRequest
from prvr.library.search.results import SearchResult
from prvr.library.search.score import score_sections
from prvr.library.store.snapshot import Snapshot

if TYPE_CHECKING:
    from prvr.library.library import Library
    from prvr.library.store.sections import TrackSections

_MOST_SECTIONS = 50_000  # of a library without an index of candidates; larger ones would be read whole
_SECTIONS = 4000  # that sentences are tried on, before the best are searched for
_TRIED = 4  # times as many sentences are searched for as are shown
_SAID = 2  # of the examples are lines of subtitles, at most
_LINES = 60  # that are looked at
_WORDS, _LETTERS = (3, 8), 48  # of a line that can be an example
_SIMPLE = "something red moves left"  # of the kind that an encoder with few words understands best


def find_examples(library: Library, most: int) -> list[str]:
    """Sentences that the library answers well, each with another best video; fewer than ``most`` if there are none.

    None if finding them would take long: in a large library without an index of candidates.
    """
    snapshot = library.snapshot()
    narrow = _has_candidates(library, snapshot)
    large = sum(map(len, snapshot.tracks.values())) > _MOST_SECTIONS
    if not snapshot.videos or (large and not narrow):
        return []
    with library.store.words(snapshot) as db:
        said = _spoken_lines(db)
    seen = _promising(library, snapshot.tracks[FRAMES]) if FRAMES in snapshot.tracks else []
    lines = [found for found in _search(library, said[: _TRIED * _SAID], narrow) if _is_said(found)][:_SAID]
    pictures = [found for found in _search(library, seen[: _TRIED * most], narrow) if _stands_out(found)]
    examples: dict[int, str] = {}
    for result in [*lines, *pictures]:
        examples.setdefault(result[0].video.id, result.query)
    return list(examples.values())[:most]


def _has_candidates(library: Library, snapshot: Snapshot) -> bool:
    """Whether an index of candidates was built and can be used."""
    try:
        return bool(library.store.candidates(snapshot))
    except NoCandidates:
        return False


def _search(library: Library, sentences: Sequence[str], narrow: bool) -> list[SearchResult]:
    requests = [SearchRequest(sentence, limit=1, approximate=narrow) for sentence in sentences]
    try:
        return [found for found in library.search_many(requests) if len(found)] if requests else []
    except NoCandidates:  # a damaged index: searches say so
        return []


def _stands_out(result: SearchResult) -> bool:
    return result.confident and (result.understood is None or not result.understood.ignored)


def _is_said(result: SearchResult) -> bool:
    return result[0].matched is not None and result[0].matched.where == "subtitles"


def _promising(library: Library, sections: TrackSections) -> list[str]:
    """Common sentences that describe a section best of all, first those that lead most over other sections."""
    numbers = np.unique(np.linspace(0, len(sections) - 1, min(len(sections), _SECTIONS)).astype(np.int64))
    vary = library.knowledge.vary
    if vary is None:
        sentences: Sequence[str] = BACKGROUND_SENTENCES
        stored = sections.background_scores(numbers)  # (n, B, 2)
        scores = (stored[..., 0] + sections.fusion_weight * stored[..., 1]).T
    else:
        every = {_SIMPLE: None}
        for _ in range(2):  # colour and direction
            every |= {varied: None for sentence in [*every] for varied in vary(sentence)}
        sentences = [re.sub(r"\ba(?= [aeiou])", "an", sentence) for sentence in every]
        vectors = library.encode(FRAMES, sentences)
        scores = score_sections(vectors, sections, library.scorer, numbers).fused(sections.fusion_weight)
    leading = np.argsort(-_lead(scores), kind="stable")
    described = dict.fromkeys(scores[leading].argmax(1).tolist())  # the sections that they find
    return [sentences[place] for place in dict.fromkeys(scores[:, [*described]].argmax(0).tolist())]


def _lead(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """How far the best section of each sentence is above its mean, in standard deviations: (S, n) → (S,)."""
    lead: NDArray[np.float32] = (scores.max(1) - scores.mean(1)) / (scores.std(1) + 1e-6)
    return lead


def _spoken_lines(db: sqlite3.Connection) -> list[str]:
    """Some short lines of subtitles, the same ones whenever they are asked for."""
    return [text for text in _sample_lines(db) if _WORDS[0] <= len(text.split()) <= _WORDS[1]]


def _sample_lines(db: sqlite3.Connection) -> Iterator[str]:
    (last,) = db.execute("SELECT MAX(rowid) FROM lines").fetchone()
    draw = random.Random(0)
    rows = [draw.randint(1, last) for _ in range(_LINES)] if last else []
    for row in rows:
        for (text,) in db.execute("SELECT text FROM lines WHERE rowid >= ? ORDER BY rowid LIMIT 1", (row,)):
            sentence = " ".join(text.split()).strip(" -–—…\"“”'.,;:!?")
            if len(sentence) <= _LETTERS and re.fullmatch(r"[^\W\d_][\w’' ,-]*", sentence):
                yield sentence
