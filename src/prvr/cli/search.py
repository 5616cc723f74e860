"""``prvr search``: find the moment in your videos that a sentence describes, or that looks like a picture."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import tyro
from rich.table import Table
from rich.text import Text

from prvr.cli.console import count, format_time, print_table, shown_name
from prvr.cli.durations import SEARCH_DURATIONS, durations_in_seconds
from prvr.cli.errors import guarded, print_error
from prvr.cli.libraries import LibraryPath, default_library, print_limits
from prvr.cli.like import moment_query
from prvr.cli.search_shell import run_shell
from prvr.errors import UserError
from prvr.lake import open_library
from prvr.library import (
    SCORES_NOTE,
    Filters,
    GroupBy,
    Hit,
    Library,
    LibraryError,
    MomentEvidence,
    MomentOptions,
    QueryInput,
    SearchResult,
    TextMatch,
)
from prvr.terminal import Console

if TYPE_CHECKING:
    from prvr.media import VideoFile

_BLOCKS = "▁▂▃▄▅▆▇█"
_COLUMNS = 24  # of an evidence curve
_SHORT = 10.0  # seconds: shorter moments are shown to the tenth


@dataclass(frozen=True)
class SearchArguments:
    """Find moments by a sentence, by a picture, or by another moment.

    `prvr search a man opens a red door` prints the best videos, each with the moment that matches best.
    `prvr search --picture still.jpg` finds what looks like a picture, and `prvr search --like film.mp4@12.5-18` what
    looks like that moment in other videos.
    A library made with a calibrated model says how probable it is that the moment is there at all, and "right" is the
    probability that a hit is it. Other libraries say in words whether anything stands out. Scores can be compared
    within one search only. The curve shows the evidence over the length of the video.

    The words of the sentence are also looked up in subtitles, file names, folders and tags. Put a phrase in quotation
    marks, or a * behind the beginning of a word.

    The exit status is 1 if nothing was found.
    """

    query: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="SENTENCE")] = ()
    """what to look for, as a sentence; quotation marks around it are not needed"""
    library: LibraryPath = field(default_factory=default_library)
    """the library's folder, or its address on object storage [$PRVR_LIBRARY or library.prvr]"""
    picture: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """a picture to look for instead of a sentence"""
    like: Annotated[str | None, tyro.conf.arg(metavar="VIDEO@TIME")] = None
    """a moment to look for instead: VIDEO@12.5, VIDEO@12.5-18 or VIDEO@1:02-1:08; VIDEO is the path, file name or
    number of a video in the library, and is itself left out"""
    shell: bool = False
    """stay open and answer one line after another; faster, because the encoder is loaded once"""
    limit: int = 10
    """number of hits to show"""
    offset: int = 0
    """number of hits to skip, to see the next page"""
    group_by: GroupBy = "video"
    """one hit per video, or one per moment"""
    min_confidence: float = 0.0
    """leave out hits that are less probably right (0 to 1); needs a calibrated model"""
    trace: bool = True
    """score with TRACE; --no-trace takes the plain maximum over time"""
    approximate: bool = False
    """score only the candidates that the index of `prvr library index` finds; for very large libraries"""
    filters: Annotated[Filters, tyro.conf.arg(name="")] = field(default_factory=Filters)
    moments: MomentOptions = field(default_factory=MomentOptions)
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False
    """print JSON, including the evidence curves"""
    export: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """save the moments that are shown as .mp4 files in this folder"""
    overwrite: bool = False
    """with --export: replace files that exist"""


def search_command(argv: list[str]) -> int:
    arguments = _parse(argv)
    if not arguments.shell:
        _require_query(arguments)
        lib = open_library(arguments.library)
        code = _answer(lib, arguments)
        if not arguments.as_json:
            print_limits(lib)
        return code
    lib, usual = open_library(arguments.library), replace(arguments, query=(), picture=None, like=None, shell=False)

    def answer(words: list[str]) -> int:
        return _answer(lib, _require_query(_parse(words, usual)))

    print_limits(lib)
    if arguments != replace(usual, shell=True):  # a query was given as well
        guarded(lambda _: _answer(lib, _require_query(arguments)), [])
    threading.Thread(target=_load, args=(lib,), daemon=True).start()  # while the first line is typed
    return run_shell(answer)


def _parse(argv: list[str], usual: SearchArguments | None = None) -> SearchArguments:
    """Options may stand before, between and after the words of the sentence. ``usual``: the values of other options."""
    parse = partial(tyro.cli, SearchArguments, prog="prvr search", args=durations_in_seconds(argv, *SEARCH_DURATIONS))
    if usual is not None:
        parse = partial(parse, default=usual)
    found, more = parse(return_unknown_args=True)
    if any(word.startswith("-") for word in more):
        parse()  # says what is wrong, and ends
    return replace(found, query=(*found.query, *more))


def _load(lib: Library) -> None:
    """Load encoder and vectors. If that fails, the first search fails in the same way and says so."""
    with suppress(UserError):
        lib.prepare()


def _require_query(arguments: SearchArguments) -> SearchArguments:
    sentence = " ".join(arguments.query).strip()
    if sum((bool(sentence), arguments.picture is not None, arguments.like is not None)) != 1:
        raise LibraryError(
            "give one of: a sentence (prvr search a red car), a picture (--picture FILE), a moment (--like VIDEO@12.5)"
        )
    return arguments


def _query(lib: Library, arguments: SearchArguments) -> QueryInput:
    if arguments.like is not None:
        return moment_query(lib, arguments.like)
    return " ".join(arguments.query).strip() if arguments.picture is None else arguments.picture


def _answer(lib: Library, arguments: SearchArguments) -> int:
    found = lib.search(
        _query(lib, arguments),
        limit=arguments.limit,
        offset=arguments.offset,
        group_by=arguments.group_by,
        filters=arguments.filters,
        min_confidence=arguments.min_confidence,
        trace=arguments.trace,
        moments=arguments.moments,
        approximate=arguments.approximate,
    )
    if arguments.overwrite and arguments.export is None:
        raise LibraryError("--overwrite replaces clips: say with --export DIR where they are")
    clips = {} if arguments.export is None else export(found, arguments.export, overwrite=arguments.overwrite)
    if arguments.as_json:
        document = found.to_dict()
        for number, path in clips.items():
            document["hits"][number]["clip"] = str(path)
        print(json.dumps(document, indent=1))
    else:
        _show(found, arguments)
        for path in clips.values():
            Console().print(f"wrote {path}", highlight=False, soft_wrap=True)
    complete = arguments.export is None or len(clips) == len(found.hits)
    return 0 if found.hits and complete else 1


def export(found: SearchResult, folder: Path, *, overwrite: bool = False) -> dict[int, Path]:
    """Save each hit as a clip; a file that is missing or damaged is reported, and the others are still saved.

    Unless ``overwrite`` is set, nothing is cut if one of the clips exists.
    """
    from prvr.media import ExportMoment, MediaError, cut_clip

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise LibraryError(f"--export {folder} is a file: give a folder for the clips") from None
    targets = [
        folder / ExportMoment(hit.video.path, hit.start, hit.end).clip_name(number)
        for number, hit in enumerate(found, 1)
    ]
    if not overwrite and (existing := [target for target in targets if target.exists()]):
        raise LibraryError(f"{existing[0]} exists: choose another --export, or add --overwrite to replace it")
    clips = {}
    for number, (hit, target) in enumerate(zip(found, targets, strict=True)):
        try:
            clips[number] = cut_clip(hit.video.path, hit.start, hit.end, target)
        except MediaError as problem:
            print_error(str(problem))
    return clips


def _show(found: SearchResult, arguments: SearchArguments) -> None:
    console = Console()
    for line in about_answer(found):
        console.print(Text(line, "yellow"), soft_wrap=True)
    if not found.hits:
        return
    table = Table(box=None, pad_edge=False)
    # Two columns are there only if a calibrated model fills them.
    right, verdict = (any(getattr(hit, name) is not None for hit in found) for name in ("confidence", "verdict"))
    columns = ["", "moment", *["right"] * right, *["support"] * verdict, "score", "evidence"]
    for name in columns:
        table.add_column(name, justify="right" if name in ("", "right", "score") else "left", no_wrap=True)
    table.add_column("video", overflow="fold")
    for number, hit in enumerate(found, arguments.offset + 1):
        more = f" +{len(hit.moments) - 1}" if len(hit.moments) > 1 else ""
        cells = {
            "": str(number),
            "moment": time_range(hit) + more,
            "right": "" if hit.confidence is None else f"{100 * hit.confidence:.0f} %",
            "support": hit.verdict or "",
            "score": f"{hit.score:.3f}",
            "evidence": "" if hit.evidence is None else sparkline(hit.evidence, traced=arguments.trace),
        }
        table.add_row(*(cells[name] for name in columns), _name(hit))
        for path in hit.also_at:
            table.add_row(*[""] * len(columns), Text(f"also at {_shown(path)}", "dim"))
    print_table(console, table)
    searched = "" if found.total is None else f"{count(found.total, 'video')} in "
    notes = [f"{searched}{1000 * found.seconds:.0f} ms; {SCORES_NOTE}"]
    if found.next_offset is not None:
        notes.append(f"more: --offset {found.next_offset}")
    console.print("; ".join(notes), style="dim", highlight=False, soft_wrap=True)


def about_answer(found: SearchResult) -> list[str]:
    """What a search says about itself, in lines: which words it used, and whether it is there at all."""
    lines = []
    if found.understood is not None and found.understood.ignored:
        used, ignored = (", ".join(words) or "nothing" for words in (found.understood.used, found.understood.ignored))
        lines.append(f"understood: {used} · ignored: {ignored}")
    return [*lines, *([found.message] if found.message else [])]


def time_range(hit: Hit) -> str:
    """Start and end of a hit, to the second; to the tenth of a second if the moment is short."""
    if hit.end - hit.start < _SHORT:
        return f"{format_time(hit.start, 1)}–{format_time(hit.end, 1)}"
    return f"{format_time(hit.start)}–{format_time(hit.end)}"


def _name(hit: Hit) -> Text:
    return Text.assemble(_shown(hit.video.path), (f"  {note}", "italic") if (note := match_note(hit)) else "")


def _shown(path: VideoFile) -> str:
    """Folder and name, relative to the working folder if the file is in it."""
    return shown_name(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def match_note(hit: Hit) -> str:
    """Where the words of the query were found, or what is said at the moment."""
    match hit.matched:
        case None:
            return f"“{hit.line}”" if hit.line else ""
        case TextMatch("subtitles" | "tags" as where, text):
            return f"in the {where}: “{text}”"
        case TextMatch(where):
            return f"in the {where}"


def sparkline(evidence: MomentEvidence, columns: int = _COLUMNS, *, traced: bool = True) -> str:
    """The evidence over the length of a video, drawn with eight heights."""
    curve = evidence.routed if traced else evidence.direct
    ends = evidence.spans[:, 1]
    edges = np.linspace(float(evidence.spans[0, 0]), float(ends.max()), columns + 1)
    total, count = np.zeros(columns), np.zeros(columns)
    for (start, end), value in zip(evidence.spans, curve, strict=True):
        touched = (edges[1:] > start) & (edges[:-1] < end)
        total[touched] += value
        count[touched] += 1
    heights = np.where(count > 0, total / np.maximum(count, 1), float(curve.min()))  # the mean where spans overlap
    low, high = float(heights.min()), float(heights.max())
    scaled = (heights - low) / (high - low) if high > low else np.ones(columns)
    return "".join(_BLOCKS[min(7, int(8 * height))] for height in scaled)
