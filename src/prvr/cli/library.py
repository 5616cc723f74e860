"""``prvr library``: index your own videos, so that `prvr search` finds moments in them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, TypeAlias

import tyro
from rich.table import Table
from rich.text import Text

from prvr.cli.choice import choose_encoder
from prvr.cli.console import UNLIMITED, count, format_bytes, format_time, print_table, shown_name
from prvr.cli.durations import LIBRARY_DURATIONS, durations_in_seconds
from prvr.cli.group import print_group_help
from prvr.cli.hub_runs import with_loaded_runs
from prvr.cli.libraries import (
    GivenSettings,
    LibraryPath,
    default_library,
    given_settings,
    open_or_create,
    print_limits,
    shown_encoder,
)
from prvr.cli.progress import encoding_progress
from prvr.cli.reindex import Reindex
from prvr.cli.repair import Repair
from prvr.cli.watch import Watch
from prvr.lake import add_on_cluster, copy_library, create_library, library_exists, open_library
from prvr.library import (
    FEWEST_TOKENS,
    VIDEO_SUFFIXES,
    AddReport,
    IndexSettings,
    Library,
    LibraryError,
    LibrarySettings,
    Video,
    find_videos,
    library_limits,
    start_decoders,
)
from prvr.media import StorageError, VideoFile
from prvr.terminal import Console

_SHOWN = 20  # failures that are listed one by one


@dataclass(frozen=True)
class Add:
    """Add files, or all videos in folders. Unchanged files are skipped, so you can interrupt and repeat the command.

    `prvr library add FILMS` creates the library if there is none. The options on encoder, rate and model apply then;
    `prvr library reindex` changes encoder and rate later. Without --encoder, the image–text encoder that `prvr prepare`
    has fetched is used; where there is none, you are asked. A library for many machines is a lake: an address such as s3://BUCKET/films.lance,
    gs://…, az://…, or a folder on a disk whose name ends in .lance. Needs pip install "prvr[scale]".
    """

    paths: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """video files and folders, or their addresses in a bucket: s3://BUCKET/FILMS, gs://…, az://…"""
    library: LibraryPath = field(default_factory=default_library)
    """the library's folder, or the address of a lake [$PRVR_LIBRARY or library.prvr]"""
    tags: tuple[str, ...] = ()
    """words to attach to these videos, for `prvr search --tags`"""
    retry: bool = False
    """try again to read files that failed before; without paths, all of them"""
    speech: Annotated[str | None, tyro.conf.arg(metavar="MODEL")] = None
    """write down what is said in videos without subtitles, so that its words are found: whisper-tiny, whisper-base,
    whisper-small, … after `prvr prepare MODEL`, or a folder. Needs pip install "prvr[speech]". Videos that were added
    before without any lines are indexed again"""
    processes: int | None = None
    """without --cluster: number of processes that decode; 1 decodes in this one [one per core]"""
    cluster: Annotated[str | None, tyro.conf.arg(metavar="ADDRESS")] = None
    """decode and encode on a Ray cluster: auto (the one this machine is in), host:port, or local (a new one on this
    machine). The library must be a lake, and all nodes must reach it and the videos at the same address"""
    cluster_workers: int | None = None
    """with --cluster: number of processes that decode and encode on it [one per GPU, or one per CPU]"""
    every_frame: bool = False
    """encode frames as well that look like the last encoded one: the same as --repeats 0"""
    settings: Annotated[LibrarySettings, tyro.conf.arg(name="")] = field(default_factory=LibrarySettings)
    given: GivenSettings = ()

    def run(self) -> int:
        settings = replace(self.settings, repeats=0.0) if self.every_frame else self.settings
        if not self.paths and not self.retry:
            raise LibraryError("no files were given: name video files or folders, or use --retry")
        if self.processes is not None and self.processes < 1:
            raise LibraryError(f"--processes must be at least 1, not {self.processes}")
        if self.cluster is None and self.cluster_workers is not None:
            raise LibraryError("--cluster-workers applies only to a cluster: give its address with --cluster")
        if self.cluster is not None and self.processes is not None:
            raise LibraryError("--processes does not apply to a cluster: give --cluster-workers instead")
        exists = library_exists(self.library)
        if not self.paths and not exists:
            raise LibraryError(f"there is no library at {self.library}, so there is nothing to try again")
        if exists:
            lib, files = open_or_create(self.library, settings, self.given), self._find_videos()
        else:  # look for videos before an empty library is created
            files = self._find_videos()
            settings = choose_encoder(settings)
            if self.cluster is None:
                start_decoders(files, settings, self.processes)
            lib = create_library(self.library, settings, given=self.given)
        report = self._add(lib, files)
        _show_report(report, lib)
        print_limits(lib)
        return 0 if not report.failed else 1

    def _add(self, lib: Library, files: list[VideoFile]) -> AddReport:
        with encoding_progress() as (console, show):
            try:
                if self.cluster is not None:
                    adder = lib.adder(tags=self.tags, retry=self.retry, speech=self.speech, progress=show)
                    return add_on_cluster(lib, adder, files, self.cluster, self.cluster_workers)
                return lib.add_files(
                    files,
                    tags=self.tags,
                    retry=self.retry,
                    speech=self.speech,
                    processes=self.processes,
                    progress=show,
                )
            except (KeyboardInterrupt, StorageError):
                console.print("stopped; finished videos are kept, and the same command continues from here")
                raise

    def _find_videos(self) -> list[VideoFile]:
        files = find_videos(self.paths)
        if self.paths and not files:
            endings = " ".join(sorted(VIDEO_SUFFIXES))
            raise LibraryError(
                f"no video was found in the given paths; in folders, files with these endings are added: {endings}"
            )
        return files


@dataclass(frozen=True)
class List:
    """List the videos of a library."""

    library: LibraryPath = field(default_factory=default_library)
    """the library's folder, or the address of a lake"""
    failed: bool = False
    """only files that could not be read, with the reason"""
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False
    """print JSON"""

    def run(self) -> int:
        videos = open_library(self.library).videos("failed" if self.failed else None)
        if self.as_json:
            print(json.dumps([{**asdict(video), "path": str(video.path)} for video in videos], indent=1))
            return 0
        table = Table("length", "size", "state", "tags", "path", "", box=None, pad_edge=False)
        for video in videos:
            table.add_row(*_row(video))
        print_table(Console(), table if videos else "no videos", UNLIMITED)  # a path stays in one piece
        return 0


@dataclass(frozen=True)
class Remove:
    """Take videos out of a library and free their space. The video files themselves are not touched.

    On Windows the space is freed once no other process has the library open.
    """

    paths: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """files, or folders with everything in them; or their addresses in a bucket"""
    library: LibraryPath = field(default_factory=default_library)
    """the library's folder, or the address of a lake"""
    missing: bool = False
    """also videos whose files no longer exist"""

    def run(self) -> int:
        if not self.paths and not self.missing:
            raise LibraryError("no videos were given: name files or folders, or use --missing")
        removed = open_library(self.library).remove(self.paths, missing=self.missing)
        failed = sum(video.state == "failed" for video in removed)
        other = f", and {count(failed, 'file')} that could not be read" if failed else ""
        Console().print(f"removed {count(len(removed) - failed, 'video')}{other}", highlight=False, soft_wrap=True)
        return 0


@dataclass(frozen=True)
class Status:
    """Show how much a library holds and how large it is."""

    library: LibraryPath = field(default_factory=default_library)
    """the library's folder, or the address of a lake"""
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False
    """print JSON"""

    def run(self) -> int:
        lib = open_library(self.library)
        status, model = lib.status(), lib.record.model
        if self.as_json:
            activity = [asdict(each) for each in lib.activities()]
            settings = {"settings": asdict(lib.settings), "recipes": lib.record.recipes}
            print(json.dumps({**asdict(status), **settings, "activity": activity}, indent=1))
            return 0
        per_frame = f", {status.bytes_per_frame:.0f} bytes per frame" if status.frames else ""
        repeats = ", repeats encoded once" if lib.settings.repeats else ""
        free = "" if status.free is None else f"; {format_bytes(status.free)} free"
        lines = [
            f"{count(status.videos, 'video')}, {format_time(status.seconds)} in all; "
            f"{count(status.failed, 'file')} could not be read",
            f"{count(status.frames, 'frame')} ({lib.settings.rate:g} per second{repeats}), "
            f"{count(status.tokens, 'vector')}, {count(status.lines, 'line')} of subtitles",
            f"{format_bytes(status.bytes)} on disk{per_frame}{free}",
            f"encoder {shown_encoder(lib.settings.encoder)}, subtitles by their words"
            + (f" and by {lib.settings.text_encoder}" if lib.settings.text_encoder else ""),
            *([limits] if (limits := library_limits(lib.record)) is not None else []),
            *([f"model {model.method}, {model.weights} weights of {model.run}"] if model is not None else []),
            *(activity.describe() for activity in lib.activities()),
        ]
        Console().print("\n".join(lines), highlight=False, soft_wrap=True)
        return 0


@dataclass(frozen=True)
class Index:
    """Build an index of a very large library, for `prvr search --approximate`.

    The index finds videos that may hold the answer; those are then scored exactly, with TRACE. Videos added later are
    searched as well, but more slowly: build the index of a folder again from time to time. That of a lake takes them
    in by itself. Needs Lance: pip install "prvr[candidates]".
    """

    library: LibraryPath = field(default_factory=default_library)
    """the library's folder, or the address of a lake"""
    settings: Annotated[IndexSettings, tyro.conf.arg(name="")] = field(default_factory=IndexSettings)

    def run(self) -> int:
        console = Console(highlight=False)
        lib = open_library(self.library)
        indexed = lib.index(self.settings, lambda text: console.print(text))
        for name, recall in lib.recall().items() if indexed else ():
            console.print(f"{name}: the candidates hold {recall}")
        if not indexed:
            console.print(f"nothing to index: fewer than {FEWEST_TOKENS:,} tokens are as fast to search exactly")
        return 0


@dataclass(frozen=True)
class Verify:
    """Read everything that a library stores and compare it with its checksums; measure the recall of an index.

    Damaged videos are named: `prvr library repair` indexes them again.
    """

    library: LibraryPath = field(default_factory=default_library)
    """the library's folder, or the address of a lake"""

    def run(self) -> int:
        lib, console = open_library(self.library), Console()
        found = lib.verify()
        for problem in found.problems:
            console.print(Text.assemble(("wrong ", "red"), problem), soft_wrap=True)
        for path in found.missing:
            console.print(Text.assemble(("gone  ", "yellow"), shown_name(path)), soft_wrap=True)
        if found.missing:
            console.print(
                "moved files are recognised when you add them again; to forget them: prvr library remove --missing"
            )
        if found.damaged:
            console.print(f"{count(len(found.damaged), 'video')} damaged: prvr library repair", highlight=False)
        if found.unsealed:
            console.print(
                f"{count(found.unsealed, 'video')} have no checksums yet: prvr library repair adds them",
                highlight=False,
            )
        if found.ok:
            result = "their vectors are complete" if found.missing else "everything is complete"
            console.print(f"{found.checked} files checked, {result}", highlight=False)
        if found.ok and lib.store.has_index():
            for name, recall in lib.recall().items():
                console.print(f"approximate search, {name}: finds {recall}", highlight=False)
        return 0 if found.ok else 1


@dataclass(frozen=True)
class Copy:
    """Copy a library to another place: from a folder to a lake, back, or between two of a kind.

    You can interrupt it and run it again: videos that are there already are skipped. At the end, every vector is
    read in both places and compared.
    """

    source: Annotated[LibraryPath, tyro.conf.Positional]
    """the library's folder, or the address of a lake"""
    target: Annotated[LibraryPath, tyro.conf.Positional]
    """where the copy goes; it is created if there is nothing yet"""

    def run(self) -> int:
        console = Console(stderr=True, highlight=False)
        copied, unchanged = copy_library(self.source, self.target, lambda text: console.print(text))
        done = f"{copied} copied, {unchanged} unchanged: {self.target}"
        Console().print(done, highlight=False, soft_wrap=True)
        return 0


Command: TypeAlias = Add | List | Remove | Status | Verify | Repair | Index | Copy | Reindex | Watch
_COMMANDS: dict[str, type[Command]] = {
    "add": Add,
    "list": List,
    "remove": Remove,
    "status": Status,
    "verify": Verify,
    "repair": Repair,
    "index": Index,
    "copy": Copy,
    "reindex": Reindex,
    "watch": Watch,
}


def library_command(argv: list[str]) -> int:
    """Run ``prvr library`` with the words that follow it; returns the exit status."""
    name = argv[0] if argv else ""
    if name not in _COMMANDS:
        return print_group_help("prvr library", f"{__doc__}", _COMMANDS, name)
    words = with_loaded_runs(durations_in_seconds(argv[1:], *LIBRARY_DURATIONS), "--model")
    command = tyro.cli(_COMMANDS[name], args=words, prog=f"prvr library {name}")
    if isinstance(command, Add | Watch):
        command = replace(command, given=given_settings(words))
    return command.run()


def _show_report(report: AddReport, lib: Library) -> None:
    """What happened to the files, and what the library holds now, in the words and numbers of `status`."""
    console = Console()
    kept = {video.path for video in lib.videos("failed")}
    failed = {path: reason for path, reason in report.failed.items() if path in kept}
    skipped = {path: reason for path, reason in report.failed.items() if path not in kept}  # pipes, lost links
    parts = [f"{len(report.added)} added"]
    parts += [f"{len(report.unchanged)} unchanged"] if report.unchanged else []
    parts += [f"{len(report.moved)} moved"] if report.moved else []
    parts += [f"{len(failed)} could not be read"] if failed else []
    parts += [f"{len(skipped)} skipped"] if skipped else []
    pace = f" ({format_time(report.video_seconds)} of video in {format_time(report.elapsed)})" if report.added else ""
    holds = f"{lib.address} now holds {count(lib.status().videos, 'video')}"
    console.print(f"{', '.join(parts)}{pace}: {holds}", highlight=False, soft_wrap=True)
    if report.repeats:
        console.print(
            f"{100 * report.repeated:.0f} % of the frames look like the one before and were not encoded again "
            f"(repeats {lib.settings.repeats:g})",
            highlight=False,
            soft_wrap=True,
        )
    if report.transcribed:
        languages = sorted({text.rpartition(", ")[2] for text in report.transcribed.values() if ", " in text})
        spoken = f" ({', '.join(languages)})" if languages else ""
        console.print(f"speech was looked for in {len(report.transcribed)} of them{spoken}", highlight=False)
    for mark, files in (("damaged", report.damaged), ("failed", failed), ("skipped", skipped)):
        for path, reason in list(files.items())[:_SHOWN]:
            console.print(Text.assemble((f"{mark} ", "yellow"), f"{shown_name(path)}: {reason}"), soft_wrap=True)
        if len(files) > _SHOWN:
            console.print(f"… and {len(files) - _SHOWN} more: prvr library list", highlight=False)


def _row(video: Video) -> list[str | Text]:
    state = "damaged" if video.state == "ok" and video.problem is not None else video.state  # the words of `add`
    notes = [*([video.problem] if video.problem else []), *([f"speech: {video.speech}"] if video.speech else [])]
    length = "" if video.duration is None else format_time(video.duration)
    texts = state, ", ".join(video.tags), shown_name(video.path), ", ".join(notes)
    return [length, format_bytes(video.size), *map(Text, texts)]
