"""``prvr export``: take moments away as clips, as one film, as a table, or as a timeline for editing programs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import tyro
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from prvr.cli.console import format_time
from prvr.cli.durations import EXPORT_DURATIONS, durations_in_seconds
from prvr.cli.errors import print_error
from prvr.cli.libraries import LibraryPath, default_library
from prvr.lake import open_library
from prvr.library import Filters, GroupBy
from prvr.media import EXPORT_SUFFIXES, ExportError, ExportFormat, ExportMoment, export_moments, is_gone, parse_moments
from prvr.terminal import Console

_LOG_SECONDS = 30.0  # between lines where no terminal shows a bar


@dataclass(frozen=True)
class ExportArguments:
    """Take moments away: the hits of a search, or those in a file.

    `prvr export --query "a red door" --limit 5 --out doors.mp4` joins the five best moments to one film. The suffix of
    --out says what is written: .zip holds one clip per moment, .mp4 is one film of all, .csv is a table, .edl an edit
    decision list (CMX 3600) and .otio an OpenTimelineIO document, for editing programs.

    With --moments the moments come from a file, or from - for standard input: what `prvr search … --json` prints, or a
    CSV table with the columns video, start, end and label. A table that was exported can be edited and exported again:

    `prvr search "a red door" --json | prvr export --moments - --out doors.zip`

    Timelines need `pip install "prvr[export]"`. The exit status is 1 if a moment could not be read; the others are
    written.
    """

    library: tyro.conf.Positional[LibraryPath] = field(default_factory=default_library)
    """with --query: the library's folder, or the address of a lake [$PRVR_LIBRARY or library.prvr]"""
    query: str | None = None
    """what to look for, as a sentence"""
    moments: Annotated[str | None, tyro.conf.arg(metavar="FILE|-")] = None
    """a file with moments, instead of a search; - reads standard input"""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """the file to write"""
    format: ExportFormat | None = None
    """what to write [by the suffix of --out]"""
    limit: int = 10
    """with --query: number of hits"""
    group_by: GroupBy = "video"
    """with --query: the best moment of each video, or all moments"""
    filters: Annotated[Filters, tyro.conf.arg(name="")] = field(default_factory=Filters)
    margin: float = 0.0
    """time added before and after each moment: seconds, or 1m30s"""
    overwrite: bool = False
    """replace a file that exists"""


def export_command(argv: list[str]) -> int:
    arguments = tyro.cli(ExportArguments, prog="prvr export", args=durations_in_seconds(argv, *EXPORT_DURATIONS))
    if (arguments.query is None) == (arguments.moments is None):
        raise ExportError('give either --query "a red door" or --moments FILE')
    if arguments.moments is not None:
        _refuse_search_options(arguments)
    out, form = _target(arguments)
    moments = _found(arguments) if arguments.moments is None else _read(arguments.moments)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    with _cutting_progress(console, moments, arguments.margin) as progress:
        report = export_moments(moments, form, out, margin=arguments.margin, progress=progress)
    for moment, reason in report.failed:
        print_error(f"{moment.shown}: {reason}")
    count = f"{report.written} moment{'' if report.written == 1 else 's'}"
    console.print(f"wrote {report.out} ({count})")
    return 1 if report.failed else 0


def _refuse_search_options(arguments: ExportArguments) -> None:
    """Refuse options of a search: the moments of a file are exported as they are."""
    usual = ExportArguments()
    changed = [name for name in ("limit", "group_by") if getattr(arguments, name) != getattr(usual, name)]
    changed += [name for name, value in vars(arguments.filters).items() if value != getattr(usual.filters, name)]
    given = [f"--{name.replace('_', '-')}" for name in changed]
    if arguments.library != usual.library:
        given.insert(0, arguments.library)
    if given:
        raise ExportError(f"--moments exports a file without any search: leave out {', '.join(given)}")


def _target(arguments: ExportArguments) -> tuple[Path, ExportFormat]:
    """The file to write, and its format."""
    suffixes = {suffix: name for name, suffix in EXPORT_SUFFIXES.items()}
    listed = ", ".join(f"{suffix} ({name})" for suffix, name in suffixes.items())
    out, form = arguments.out, arguments.format
    if out is None:
        raise ExportError(f"give --out FILE; its suffix says what is written: {listed}")
    if form is None:
        if out.suffix.lower() not in suffixes:
            raise ExportError(f"--out {out}: the suffix says what is written, one of {listed}; or give --format")
        form = suffixes[out.suffix.lower()]
    elif not out.suffix:
        out = out.with_name(out.name + EXPORT_SUFFIXES[form])
    if out.is_dir():
        raise ExportError(f"--out {out} is a folder: give the name of a file in it")
    if out.exists() and not arguments.overwrite:
        raise ExportError(f"{out} exists: choose another --out, or add --overwrite to replace it")
    if not out.parent.is_dir():
        raise ExportError(f"--out {out}: there is no folder {out.parent}")
    return out, form


def _found(arguments: ExportArguments) -> list[ExportMoment]:
    """The hits of a search."""
    from prvr.cli.search import about_answer

    query = arguments.query or ""
    if not query.strip():
        raise ExportError('--query is empty: give a sentence, as in --query "a red door"')
    library = open_library(arguments.library)
    found = library.search(query, limit=arguments.limit, group_by=arguments.group_by, filters=arguments.filters)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    for line in about_answer(found):
        console.print(line, style="yellow")
    if not found.hits:
        raise ExportError("nothing was found, so there is nothing to export")
    return [
        ExportMoment(hit.video.path, hit.start, hit.end, query, fps=hit.video.fps, duration=hit.video.duration)
        for hit in found
    ]


def _read(source: str) -> list[ExportMoment]:
    """Moments from a file. Videos that it names relatively are beside it, or in the working folder for ``-``."""
    name = "standard input" if source == "-" else source
    try:
        content = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
        moments = parse_moments(content.decode("utf-8"))
    except UnicodeDecodeError:
        raise ExportError(f"{name} is not text in UTF-8: give a CSV table or JSON") from None
    except FileNotFoundError:
        raise ExportError(f"--moments {source}: there is no such file") from None
    except ExportError as problem:
        raise ExportError(f"{name}, {problem}") from None
    if not moments:
        raise ExportError(f"{name} holds no moments, so there is nothing to export")
    folder = Path() if source == "-" else Path(source).parent
    return [
        moment
        if not isinstance(moment.video, Path) or not is_gone(moment.video) or is_gone(folder / moment.video)
        else replace(moment, video=folder / moment.video)
        for moment in moments
    ]


@contextmanager
def _cutting_progress(
    console: Console, moments: Sequence[ExportMoment], margin: float
) -> Iterator[Callable[[float], None]]:
    """A bar over the seconds that are written; a line from time to time where there is no terminal."""
    total = sum(moment.with_margin(margin).seconds for moment in moments)
    columns = (TextColumn("{task.fields[note]}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task, last = bar.add_task("cut", total=total, note="cutting"), time.monotonic()

        def show(seconds: float) -> None:
            nonlocal last
            note = f"cutting {format_time(seconds)} of {format_time(total)}"
            bar.update(task, completed=seconds, note=note)
            if not console.is_terminal and time.monotonic() - last > _LOG_SECONDS:
                last = time.monotonic()
                console.print(note)

        yield show
