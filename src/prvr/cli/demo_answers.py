"""How the demo shows answers: with the truth beside them, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table

from prvr.cli.console import print_table
from prvr.library import Hit, Library, SearchRequest, SearchResult
from prvr.terminal import Console
from prvr.worlds import FilmQuery, RenderedWorld, matching_events


@dataclass(frozen=True)
class Answer:
    """The first answer to a sentence, and when the sentence is true in the film that was found."""

    sentence: str
    hit: Hit
    truth: tuple[float, float] | None  # seconds; None: it is not true of that film


def show_first_answers(
    library: Library, world: RenderedWorld, queries: Sequence[FilmQuery], console: Console
) -> list[Answer]:
    """Search a few sentences about the test films, and print each first answer with the truth beside it."""
    table = Table("sentence", "there", "found", "moment", "right", "true", box=None, pad_edge=False)
    answers = []
    for query in queries:
        right = {
            name: (events[0].start, events[0].end)
            for name, events in matching_events(world.scripts["test"], query).items()
        }
        result = library.search(query.sentence, limit=1)
        for hit in result:
            truth = right.get(hit.video.path.stem)
            answers.append(Answer(query.sentence, hit, truth))
            name = query.video if truth is None else hit.video.path.stem
            others = f" (and in {len(right) - 1} more)" if len(right) > 1 else ""
            start, end = right[name]
            found = f"{hit.video.path.stem} {'✗' if truth is None else '✓'}"
            sure = "" if hit.confidence is None else f"{100 * hit.confidence:.0f} %"
            there = result.presence.percent or result.presence.word or ""
            moment = f"{hit.start:.1f}–{hit.end:.1f} s"
            table.add_row(query.sentence, there, found, moment, sure, f"{name} {start:.1f}–{end:.1f} s{others}")
    print_table(console, table, width=120)
    return answers


def is_refused(found: SearchResult) -> bool:
    """Whether a search says that what was asked for is not there."""
    presence = found.presence
    if found.understood is not None and found.understood.ignored:  # it says that it answers another sentence
        return False
    return presence.word == "nothing stands out" if presence.probability is None else presence.probability < 0.5


def search_all(library: Library, queries: Sequence[FilmQuery]) -> list[SearchResult]:
    return library.search_many([SearchRequest(query.sentence, limit=1) for query in queries])
