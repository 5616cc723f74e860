"""``prvr library``: index your own videos, so that `prvr search` finds moments in them."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import tyro
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from prvr.cli.group import explain
from prvr.cli.places import Place, Where, changing, default_library, open_or_create, opened, refuse_addresses
from prvr.library import AddProgress, AddReport, Library, LibraryError, LibrarySettings, Video
from prvr.library.ingest.add import Work
from prvr.library.ingest.files import VIDEO_SUFFIXES, find_videos
from prvr.library.search.candidates import FEWEST, IndexSettings
from prvr.library.search.candidates import FOLDER as CANDIDATES
from prvr.library.store.settings import FILE
from prvr.objects import is_address, published_problems

if TYPE_CHECKING:
    from prvr.cluster import ClusterIndexing

_LOG_SECONDS = 30.0  # between lines of progress where no terminal shows a bar
_SHOWN = 20  # failures that are listed one by one


@dataclass(frozen=True)
class Add:
    """Add files, or all videos in folders. Unchanged ones are skipped; interrupt it and run it again as you like.

    The library is made if it is not there; how videos are looked at is decided then, and cannot be changed later.
    One on object storage (s3://BUCKET/films.prvr, gs://…, file:///…) is added to in a local copy, and published
    every half minute and at the end.
    """

    paths: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """video files and folders"""
    library: Where = field(default_factory=default_library)
    """the library's folder, or its address on object storage [$PRVR_LIBRARY or library.prvr]"""
    tags: tuple[str, ...] = ()
    """words to attach to these videos"""
    retry: bool = False
    """try files again that failed before; without paths, all of them"""
    cluster: Annotated[str | None, tyro.conf.arg(metavar="ADDRESS")] = None
    """decode and encode on a Ray cluster: auto (of this machine), host:port, or local (a new one, here alone). Videos
    must lie on storage that all nodes share, and the library too unless it is on object storage"""
    cluster_encoders: int | None = None
    """processes that encode on the cluster [one for each GPU, or one for three CPUs]"""
    settings: Annotated[LibrarySettings, tyro.conf.arg(name="")] = field(default_factory=LibrarySettings)

    def run(self) -> int:
        if not self.paths and not self.retry:
            raise LibraryError("no files were named: give video files or folders, or --retry")
        refuse_addresses(self.paths)
        work = self._work()
        with changing(self.library) as place:
            if not (place.folder / FILE).exists():  # before a library is made of nothing
                self._require_videos()
            lib = open_or_create(place.folder, self.settings)
            place.publish()  # others see an empty library, and how videos are looked at
            self._require_videos()
            report = self._add(place, lib, work if work is None else replace(work, copy=place.copy))
        _show_report(report, self.library)
        return 0 if not report.failed else 1

    def _add(self, place: Place, lib: Library, work: Work | None) -> AddReport:
        with _bar() as bar:
            task = bar.add_task("looking for videos", total=None, said="")
            told = time.monotonic()

            def show(now: AddProgress) -> None:
                nonlocal told
                place.check()
                left = "" if now.left is None else f" · {clock(now.left)} left"
                said = f"{now.files_done + 1}/{now.files} · {now.speed:.0f} × real time{left}"
                if not bar.console.is_terminal and time.monotonic() - told > _LOG_SECONDS:
                    told = time.monotonic()
                    bar.console.print(f"{now.path.name}: {said}", highlight=False, markup=False, soft_wrap=True)
                bar.update(task, description=now.path.name, total=now.bytes, completed=now.bytes_done, said=said)

            try:
                return lib.add(self.paths, tags=self.tags, retry=self.retry, progress=show, work=work)
            except KeyboardInterrupt:
                bar.console.print("stopped; what was finished is kept, and the same command goes on from here")
                raise

    def _require_videos(self) -> None:
        if self.paths and not find_videos(self.paths):
            endings = " ".join(sorted(VIDEO_SUFFIXES))
            raise LibraryError(f"no video was found in what was named; in folders these are looked for: {endings}")

    def _work(self) -> ClusterIndexing | None:
        if self.cluster is None:
            return None
        from prvr.cluster import ClusterIndexing  # Ray is an extra

        return ClusterIndexing(self.cluster, self.cluster_encoders)


@dataclass(frozen=True)
class List:
    """List the videos of a library."""

    library: Where = field(default_factory=default_library)
    """the library's folder, or its address on object storage"""
    failed: bool = False
    """only those that could not be read, with the reason"""
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False
    """print JSON"""

    def run(self) -> int:
        videos = opened(self.library).videos("failed" if self.failed else None)
        if self.as_json:
            print(json.dumps([{**asdict(video), "path": str(video.path)} for video in videos], indent=1))
            return 0
        table = Table(box=None, pad_edge=False)
        for name in ("length", "size", "state", "tags", "path"):
            table.add_column(name, overflow="fold")
        for video in videos:
            table.add_row(*_row(video))
        Console(soft_wrap=True).print(table if videos else "no videos")
        return 0


@dataclass(frozen=True)
class Remove:
    """Take videos out of a library and free their space. The video files themselves are left alone."""

    paths: Annotated[tuple[Path, ...], tyro.conf.Positional] = ()
    """files, or folders: everything in them"""
    library: Where = field(default_factory=default_library)
    """the library's folder, or its address on object storage"""
    missing: bool = False
    """also those whose files are gone"""

    def run(self) -> int:
        if not self.paths and not self.missing:
            raise LibraryError("nothing was named: give files or folders, or --missing")
        with changing(self.library) as place:
            gone = place.open().remove(self.paths, missing=self.missing)
        Console().print(f"removed {len(gone)} video{'' if len(gone) == 1 else 's'}", highlight=False)
        return 0


@dataclass(frozen=True)
class Status:
    """Say how much a library holds and how large it is."""

    library: Where = field(default_factory=default_library)
    """the library's folder, or its address on object storage"""
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False
    """print JSON"""

    def run(self) -> int:
        lib = opened(self.library)
        status, model = lib.status(), lib.about.model
        if self.as_json:
            print(
                json.dumps({**asdict(status), "settings": asdict(lib.settings), "recipes": lib.about.recipes}, indent=1)
            )
            return 0
        each = f", {status.bytes_per_frame:.0f} bytes per frame" if status.frames else ""
        lines = [
            f"{status.videos} videos, {clock(status.seconds)} in all, {status.failed} files that could not be read",
            f"{status.frames} frames looked at ({lib.settings.rate:g} per second), {status.tokens} vectors, "
            f"{status.lines} lines of subtitles",
            f"{size(status.bytes)} on disk{each}; {size(status.free)} free",
            f"encoder {lib.settings.encoder}, subtitles {lib.settings.text_encoder or 'not searched'}",
            *([f"model {model.method}, {model.weights} weights of {model.run}"] if model is not None else []),
        ]
        Console().print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)
        return 0


@dataclass(frozen=True)
class Index:
    """Index a very large library, for `prvr search --approximate`.

    The index names videos that may hold the answer; those are then scored exactly, with TRACE. What is added later
    is searched as well; build it anew now and then. Needs faiss: pip install "prvr[candidates]".
    """

    library: Where = field(default_factory=default_library)
    """the library's folder, or its address on object storage"""
    settings: Annotated[IndexSettings, tyro.conf.arg(name="")] = field(default_factory=IndexSettings)

    def run(self) -> int:
        console = Console(highlight=False)
        with changing(self.library) as place:
            lib = place.open()
            made = lib.index(self.settings, lambda text: console.print(text, markup=False))
        for name, recall in lib.recall().items() if made else ():
            console.print(f"{name}: {made[name].about.probes} lists looked at find {recall}")
        if not made:
            console.print(f"nothing to index: fewer than {FEWEST:,} stretches are as fast to search exactly")
        return 0


@dataclass(frozen=True)
class Verify:
    """Compare the catalogue with the files it speaks of; where candidates are indexed, with exact search too."""

    library: Where = field(default_factory=default_library)
    """the library's folder, or its address on object storage"""

    def run(self) -> int:
        lib, console = opened(self.library), Console()
        found = lib.verify()
        if is_address(self.library):
            found.problems += published_problems(self.library)
        for problem in found.problems:
            console.print(Text.assemble(("wrong ", "red"), problem), soft_wrap=True)
        for path in found.missing:
            console.print(Text.assemble(("gone  ", "yellow"), str(path)), soft_wrap=True)
        if found.missing:
            console.print("moved files are recognised when they are added again; --missing of remove forgets them")
        if found.ok:
            place = "their vectors are in their place" if found.missing else "everything is in its place"
            console.print(f"{found.checked} files checked, {place}", highlight=False)
        if found.ok and any((lib.folder / CANDIDATES).glob("*.json")):
            for name, recall in lib.recall().items():
                console.print(f"approximate search, {name}: finds {recall}", highlight=False)
        return 0 if found.ok else 1


Command: TypeAlias = Add | List | Remove | Status | Verify | Index
_COMMANDS: dict[str, type[Command]] = {
    "add": Add,
    "list": List,
    "remove": Remove,
    "status": Status,
    "verify": Verify,
    "index": Index,
}


def main(argv: list[str]) -> int:
    """Run ``prvr library`` with what follows on the command line; returns the exit status."""
    name = argv[0] if argv else ""
    if name not in _COMMANDS:
        return explain("prvr library", f"{__doc__}", _COMMANDS, name)
    return tyro.cli(_COMMANDS[name], args=argv[1:], prog=f"prvr library {name}").run()


def _show_report(report: AddReport, where: str) -> None:
    console = Console()
    parts = [f"{len(report.added)} added"]
    parts += [f"{len(report.unchanged)} unchanged"] if report.unchanged else []
    parts += [f"{len(report.moved)} moved"] if report.moved else []
    parts += [f"{len(report.failed)} could not be read"] if report.failed else []
    pace = f" ({clock(report.video_seconds)} of video in {clock(report.elapsed)})" if report.added else ""
    console.print(f"{', '.join(parts)}{pace}: {where}", highlight=False, markup=False, soft_wrap=True)
    for mark, some in (("damaged", report.damaged), ("failed", report.failed)):
        for path, reason in list(some.items())[:_SHOWN]:
            console.print(Text.assemble((f"{mark} ", "yellow"), f"{path}: {reason}"), soft_wrap=True)
        if len(some) > _SHOWN:
            console.print(f"… and {len(some) - _SHOWN} more: prvr library list", highlight=False)


def _row(video: Video) -> list[str | Text]:
    state = "ok" if video.state == "ok" and video.problem is None else f"{video.state}: {video.problem}"
    length = "" if video.duration is None else clock(video.duration)
    return [length, size(video.size), Text(state), Text(", ".join(video.tags)), Text(str(video.path))]


def _bar() -> Progress:
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.fields[said]}"))
    return Progress(*columns, console=Console(stderr=True), transient=True)


def clock(seconds: float, digits: int = 0) -> str:
    """
    >>> clock(75.4), clock(7322), clock(59.97, 1)
    ('1:15', '2:02:02', '1:00.0')
    """
    minutes, second = divmod(round(seconds, digits), 60)
    hours, minute = divmod(int(minutes), 60)
    told = f"{second:0{3 + digits if digits else 2}.{digits}f}"
    return f"{hours}:{minute:02d}:{told}" if hours else f"{minute}:{told}"


def size(number: float) -> str:
    """
    >>> size(1_234_567)
    '1.23 MB'
    """
    for unit in ("B", "kB", "MB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.1f} GB"
