"""``prvr doctor``: what this machine has, and whether it works."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.table import Table
from rich.text import Text

from prvr.cli.console import count, format_bytes, print_table
from prvr.cli.libraries import LibraryPath
from prvr.doctor import Diagnosis, EncoderHealth, Package, examine
from prvr.terminal import Console

_SHOWN = ("torch", "numpy", "av", "h5py", "safetensors", "transformers", "simsimd", "fastapi")


@dataclass(frozen=True)
class DoctorArguments:
    """Show versions, devices, encoders, disks and licences, and report problems. Nothing is changed.

    The exit status is 1 if there is a problem: a package that is too old, weights that differ from those that were
    downloaded, a damaged library. A package that is not installed is not a problem; the command that installs it is
    shown.
    """

    library: LibraryPath | None = None
    """a library to check as well, as `prvr library verify` does"""
    data: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="DIR")] = ()
    """other folders whose disk space matters, such as datasets or runs"""
    licences: bool = False
    """list every package that prvr depends on, with its licence"""
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False
    """print everything as JSON, including licences"""


def doctor_command(argv: list[str]) -> int:
    arguments = tyro.cli(DoctorArguments, prog="prvr doctor", args=argv)
    found = examine(arguments.library, arguments.data or (Path(),))
    if arguments.as_json:
        print(json.dumps(found.to_dict(), indent=1))
    else:
        _show(found, Console(highlight=False, soft_wrap=True), licences=arguments.licences)
    return 1 if found.problems else 0


def _show(found: Diagnosis, console: Console, licences: bool) -> None:
    print_table(console, _table(_facts(found)))
    console.print("\nencoders", style="bold")
    print_table(console, _table(map(_encoder, found.encoders)))
    if found.missing_extras:
        console.print("\nnot installed", style="bold")
        print_table(console, _table([(", ".join(each.packages), each.install) for each in found.missing_extras]))
    if licences:
        console.print("\nlicences, as the packages state them", style="bold")
        print_table(console, _table(map(_licence, found.packages)))
    for problem in found.problems:
        console.print(Text.assemble(("wrong ", "red"), problem))
    if not found.problems:
        hint = "" if licences else f" ({len(found.packages)} packages; --licences lists them)"
        console.print(f"\neverything that was checked is in order{hint}")


def _facts(found: Diagnosis) -> Iterable[tuple[str, str]]:
    versions = {package.name: package.version for package in found.packages}
    yield "prvr", f"{found.versions['prvr']}, Python {found.versions['python']}, {found.machine.system}"
    yield "packages", ", ".join(f"{name} {versions[name]}" for name in _SHOWN if versions.get(name))
    yield "FFmpeg inside", found.libraries["ffmpeg"]
    memory = "" if found.machine.memory is None else f", {format_bytes(found.machine.memory)} memory"
    yield "processor", f"{found.machine.processor}, {found.machine.cores} cores{memory}"
    yield "", "; ".join(found.machine.instructions)
    yield "GPU", "; ".join(found.machine.gpus) or "none"
    yield "triton", found.libraries["triton"] or "not installed (only useful on a GPU)"
    yield "scoring", found.engine
    for number, line in enumerate(found.encoding):
        yield "" if number else "pictures", line
    for disk in found.disks:
        yield "disk", f"{format_bytes(disk.free)} free: {disk.place}{'' if disk.writable else ' (may not be written)'}"
    if (health := found.library) is not None:
        gone = f", {len(health.missing)} files are gone" if health.missing else ""
        failed = f"{count(health.failed, 'file')} could not be read"
        counts = f"{count(health.videos, 'video')}, {failed}, {format_bytes(health.bytes)}"
        yield "library", f"{health.folder}: {counts}, {health.checked} checked{gone}"


def _encoder(found: EncoderHealth) -> tuple[str, ...]:
    note = {"ready": found.verified, "missing": found.remedy, "damaged": "see below"}[found.state]
    return found.name, found.state, found.weights[:12], note


def _licence(package: Package) -> tuple[str, ...]:
    return package.name, package.version or "–", package.licence, ", ".join(package.needed_by)


def _table(rows: Iterable[tuple[str, ...]]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    for row in rows:
        table.add_row(*map(Text, row))
    return table
