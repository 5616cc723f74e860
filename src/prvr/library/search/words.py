"""Find the words of a query in subtitle lines, file names, folders and tags. No encoder and no weights take part.

A query is cut into terms: its words without stop words ("the", "is"), and phrases in quotation marks. A term matches by
its stem. A term that occurs nowhere, or that ends with ``*``, matches the beginnings of words.

One common word of a sentence says little about a video. So each term weighs as much as it is rare (its inverse document
frequency), and a text matches if it holds most of the query's weight. Terms that occur nowhere weigh the most.
"""

from __future__ import annotations

import math
import re
import sqlite3
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from prvr.library.store.words import (
    NAME_COLUMNS,
    FoundLine,
    found_names,
    match_counts,
    matching_lines,
    matching_names,
    text_counts,
)

WORDS = "words"  # the name of this search beside the tracks
LEAST_SHARE = 0.7  # of a query's weight that a text must hold to match
_MOST_TERMS = 32  # of a query; further ones are ignored
_MOST_VIDEOS = 1000  # that one query finds by its words
_MOST_LINES = 5  # of one video
_MANY_LINES = 200  # that hold a term; more are read only where a rarer term is too
_PAUSE = 3.0  # seconds between two lines that are read as one
_SHORTEST_PREFIX = 3  # letters
_QUOTES = str.maketrans(dict.fromkeys("“”„‟«»″", '"'))
_TERM = re.compile(r'"([^"]*)"|([^\W_]+)(\*?)')

_STOP_WORDS = """
    a about after again all also am an and any are as at be been before being but by can could did do does doing down
    for from had has have having he her here hers him his how i if in into is it its just me more most my no nor not of
    off on once only or other our out over own please s same she should so some such t than that the their them then
    there these they this those through to too under until up very was we were what when where which while who whom why
    will with would you your find show video clip scene moment somebody someone something"""
STOP_WORDS = frozenset(_STOP_WORDS.split())


@dataclass(frozen=True)
class Term:
    """A word or phrase of a query. A text without a required one does not match."""

    text: str
    prefix: bool = False
    required: bool = False

    @property
    def match(self) -> str:
        """As FTS5 reads it. In quotation marks, nothing is an operator."""
        return f'"{self.text}"{" *" if self.prefix else ""}'


def query_terms(query: str) -> list[Term]:
    """The terms of a query, each once.

    >>> [term.match for term in query_terms('The birth* of "a red door", NOT a wall')]
    ['"birth" *', '"a red door"', '"wall"']
    """
    readable = query.encode("utf-8", "ignore").decode().replace("\x00", " ")
    text = unicodedata.normalize("NFC", readable).translate(_QUOTES)
    terms: dict[Term, None] = {}
    for phrase, word, star in _TERM.findall(text):
        if phrase:
            words = re.findall(r"[^\W_]+", phrase)
            if words:
                terms[Term(" ".join(words), required=True)] = None
        elif word and (star or word.lower() not in STOP_WORDS):
            terms[Term(word.lower(), prefix=bool(star))] = None
    return list(terms)[:_MOST_TERMS]


@dataclass(frozen=True)
class TextMatch:
    """Where the words of a query were found, and the text there; with its time if it is a subtitle line."""

    where: Literal["subtitles", "name", "folder", "tags"]
    text: str
    start: float | None = None  # seconds
    end: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"where": self.where, "text": self.text}


@dataclass(frozen=True)
class VideoMatch:
    """A video that holds the words of a query."""

    place: int  # from 0; videos that match equally well share a place
    counted: int  # the place that counts in a fusion with the pictures
    matches: tuple[TextMatch, ...]  # the best first: some lines, or one name, folder or list of tags

    @property
    def best(self) -> TextMatch:
        return self.matches[0]


WordMatches = Mapping[int, VideoMatch]  # by the video's number, best first


@dataclass(slots=True)
class _Held:
    """What a text holds of a query: its terms, a bit for each, and how well they match (BM25)."""

    terms: int = 0
    score: float = 0.0

    def add(self, terms: int, score: float) -> None:
        self.terms |= terms
        self.score += score

    def __or__(self, other: _Held) -> _Held:
        return _Held(self.terms | other.terms, self.score + other.score)


@dataclass(slots=True)
class _Line:
    """A subtitle line, or two neighbours, and what it holds."""

    line: FoundLine
    held: _Held


class _Query:
    """Terms that are compared with texts, and how much each weighs. Several terms are a number with a bit for each."""

    def __init__(self, terms: Sequence[Term], weights: Sequence[float], counts: Sequence[int]):
        self.terms, self.weights, self.counts = terms, weights, counts  # counts: lines that hold each term
        self.required = sum(1 << number for number, term in enumerate(terms) if term.required)
        self._shares: dict[int, float] = {}

    def share(self, terms: int) -> float:
        """How much of the query's weight these terms have."""
        if terms not in self._shares:
            held = sum(weight for number, weight in enumerate(self.weights) if terms >> number & 1)
            self._shares[terms] = round(held / sum(self.weights), 3)
        return self._shares[terms]

    def accepts(self, terms: int) -> bool:
        return terms & self.required == self.required and self.share(terms) >= LEAST_SHARE

    @property
    def rarest(self) -> list[int]:
        """Numbers of the rarest terms: a text without any of them does not match, whatever else it holds."""
        order = sorted(range(len(self.terms)), key=lambda number: -self.weights[number])
        others, count = (1 << len(order)) - 1, 0
        while self.share(others) >= LEAST_SHARE:
            others &= ~(1 << order[count])
            count += 1
        return order[:count]


def find_words(db: sqlite3.Connection, text: str, choose: Callable[[Iterable[int]], set[int]] = set) -> WordMatches:
    """Find the videos that hold most of a query's words. Those that hold more of its weight come first.

    Args:
        db: a database with tables of words.
        text: the query.
        choose: of the videos that were found, those that may be shown.
    """
    sizes = text_counts(db)
    query = _weigh(db, query_terms(text), sizes)
    if query is None:
        return {}
    names: dict[int, dict[str, _Held]] = defaultdict(lambda: defaultdict(_Held))  # by video and column
    lines: dict[int, _Line] = {}  # by row
    rarest = query.rarest
    within = " OR ".join(query.terms[number].match for number in rarest)
    for number, term in enumerate(query.terms):
        for column in NAME_COLUMNS:
            rows = list(matching_names(db, term.match, column))
            if column == "folder" and len(rows) == sizes[1]:  # a folder that all videos are in says nothing
                continue
            for video, score in rows:
                names[video][column].add(1 << number, score)
        narrow = number not in rarest and query.counts[number] > _MANY_LINES
        for row, line, score in matching_lines(db, term.match, within if narrow else None):
            lines.setdefault(row, _Line(line, _Held())).held.add(1 << number, score)
    found = _best_texts(query, names, [*lines.values(), *_neighbours(query, lines)])
    order = sorted(choose(found), key=lambda video: (found[video].order, video))[:_MOST_VIDEOS]
    texts = found_names(db, [video for video in order if found[video].column])
    places, middles = dict[tuple[float, float], int](), _middles([found[video].order[0] for video in order])
    matches = {}
    for number, video in enumerate(order):
        column = found[video].column
        if column:
            shown: tuple[TextMatch, ...] = (TextMatch(column, texts.get(video, {}).get(column) or ""),)  # type: ignore[arg-type]
        else:
            shown = _apart(found[video].lines)
        place = places.setdefault(found[video].order, number)
        matches[video] = VideoMatch(place, max(place, middles[number]), shown)
    return matches


def _middles(shares: Sequence[float]) -> list[int]:
    """For each place, the middle of all that hold as much of the query.

    No video counts before this middle: a word that few videos hold moves them to the front, and a word that hundreds
    hold changes little.

    >>> _middles([1.0, 0.8, 0.8, 0.8])
    [0, 2, 2, 2]
    """
    first = {share: number for number, share in reversed([*enumerate(shares)])}
    sizes = Counter(shares)
    return [first[share] + (sizes[share] - 1) // 2 for share in shares]


def _neighbours(query: _Query, lines: Mapping[int, _Line]) -> Iterator[_Line]:
    """Two lines that match only together: a sentence often goes on in the next line."""
    for row, one in lines.items():
        other = lines.get(row + 1)  # the lines of a video are stored in order of time
        if other is None or one.line.video != other.line.video or other.line.start - one.line.end > _PAUSE:
            continue
        both = one.held | other.held
        if query.accepts(both.terms) and both.terms not in (one.held.terms, other.held.terms):
            text, end = f"{one.line.text} {other.line.text}", max(one.line.end, other.line.end)
            yield _Line(FoundLine(one.line.video, one.line.start, end, text), both)


def _weigh(db: sqlite3.Connection, terms: Sequence[Term], sizes: tuple[int, int]) -> _Query | None:
    """Weigh terms by how rare they are; None if no term occurs anywhere."""
    read, weights, lines, any_found = list[Term](), list[float](), list[int](), False
    for term in terms:
        counts = match_counts(db, term.match)
        if not any(counts) and not term.required and len(term.text) >= _SHORTEST_PREFIX:
            term = Term(term.text, prefix=True)
            counts = match_counts(db, term.match)
        any_found |= any(counts)
        read.append(term)
        lines.append(counts[0])
        rarity = [_rarity(size, count) for size, count in zip(sizes, counts, strict=True) if count]
        weights.append(min(rarity, default=_rarity(max(sizes), 0)))  # common in lines or in names is common
    return _Query(read, weights, lines) if any_found else None


def _rarity(texts: int, count: int) -> float:
    """Inverse document frequency of a term that ``count`` of ``texts`` hold, as in BM25 but above zero."""
    return math.log(1 + (texts - count + 0.5) / (count + 0.5))


@dataclass
class _Found:
    """The best texts of a video."""

    order: tuple[float, float]  # ascending is better
    lines: list[FoundLine]  # the best first; none if names alone match
    column: str = ""  # of names; "" if lines match


def _best_texts(query: _Query, names: Mapping[int, Mapping[str, _Held]], lines: Iterable[_Line]) -> dict[int, _Found]:
    """The videos that match, each with its best lines or its best column. A line counts together with the names."""
    found, of_names = {}, dict[int, _Held]()
    for video, columns in names.items():
        held = of_names[video] = _Held()
        for each in columns.values():
            held.add(each.terms, each.score)
        if query.accepts(held.terms):
            column = max(NAME_COLUMNS, key=lambda name: query.share(columns[name].terms) if name in columns else 0.0)
            found[video] = _Found(_order(query, held), [], column)
    by_video: dict[int, list[tuple[tuple[float, float], FoundLine]]] = defaultdict(list)
    for line in lines:
        named = of_names.get(line.line.video, _Held())
        both = line.held | named
        adds = line.held.terms & ~named.terms or query.share(line.held.terms) >= LEAST_SHARE
        if adds and query.accepts(both.terms):
            by_video[line.line.video].append((_order(query, both), line.line))
    for video, texts in by_video.items():
        texts.sort()
        first, _ = texts[0]
        if video not in found or first <= found[video].order:
            as_much = [line for order, line in texts if order[0] == first[0]]  # of the query
            found[video] = _Found(first, as_much[:_MOST_LINES])
    return found


def _order(query: _Query, held: _Held) -> tuple[float, float]:
    """Sorts texts: the share of the query that they hold, then BM25. Rounded, so that what matches equally is equal."""
    return -query.share(held.terms), -round(held.score, 3)


def _apart(lines: Iterable[FoundLine]) -> tuple[TextMatch, ...]:
    """Lines that do not overlap a better one, for example of another language."""
    apart: list[FoundLine] = []
    for line in lines:
        if not any(line.start < each.end and each.start < line.end for each in apart):
            apart.append(line)
    return tuple(TextMatch("subtitles", line.text, line.start, line.end) for line in apart)
