"""How the demo shows answers: with the truth beside them, and with what a search says about whether it is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from prvr.cli.console import print_table
from prvr.library import Hit, Library, SearchResult
from prvr.worlds import FilmQuery, RenderedWorld, matching_events


@dataclass(frozen=True)
class Answer:
    """The first answer to a sentence, and when the sentence is true in the film that was found."""

    sentence: str
    hit: Hit
    truth: tuple[float, float] | None  # seconds; None: it is not true of that film


def first_answers(
    library: Library, world: RenderedWorld, queries: Sequence[FilmQuery], console: Console
) -> list[Answer]:
    """Search a few sentences about the test films, and print each first answer with the truth beside it."""
    table = Table("sentence", "found", "moment", "sure", "true", box=None, pad_edge=False)
    answers = []
    for query in queries:
        right = {
            name: (events[0].start, events[0].end)
            for name, events in matching_events(world.scripts["test"], query).items()
        }
        for hit in library.search(query.sentence, limit=1):
            truth = right.get(hit.video.path.stem)
            answers.append(Answer(query.sentence, hit, truth))
            name = query.video if truth is None else hit.video.path.stem
            others = f" (and in {len(right) - 1} more)" if len(right) > 1 else ""
            start, end = right[name]
            found = f"{hit.video.path.stem} {'✗' if truth is None else '✓'}"
            sure = "" if hit.confidence is None else f"{hit.confidence:.0%}"
            moment = f"{hit.start:.1f}–{hit.end:.1f} s"
            table.add_row(query.sentence, found, moment, sure, f"{name} {start:.1f}–{end:.1f} s{others}")
    print_table(console, table, width=120)
    return answers


def is_refused(found: SearchResult) -> bool:
    """Whether a search says that what was searched is not there."""
    presence: Any = getattr(found, "presence", None)
    if presence is not None and presence.probability is not None:
        return bool(presence.probability < 0.5)
    if presence is not None and presence.word is not None:
        return bool(presence.word == "nothing stands out")
    return not found.confident


def describe_presence(found: SearchResult) -> str:
    """What a search says about whether it is there at all, in a few words."""
    presence: Any = getattr(found, "presence", None)
    words = [] if presence is None or presence.word is None else [presence.word]
    if presence is not None and presence.probability is not None:
        words.append(f"there with {presence.probability:.0%}")
    return ", ".join(words) or found.message or "a confident match"
