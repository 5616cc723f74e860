"""All of it together."""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import prvr
from prvr.doctor.encoders import FoundEncoder, encoders, hub_cache
from prvr.doctor.machine import Disk, Machine, disk, engine, libraries, this_machine
from prvr.doctor.packages import MissingExtra, Package, installed_packages, missing_extras
from prvr.library import Library, LibraryError


@dataclass(frozen=True)
class LibraryHealth:
    """A library, looked at."""

    folder: str
    videos: int = 0
    failed: int = 0
    bytes: int = 0
    checked: int = 0
    missing: tuple[str, ...] = ()  # files that are gone
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Diagnosis:
    """What was found."""

    versions: dict[str, str]
    packages: list[Package]
    missing_extras: list[MissingExtra]
    libraries: dict[str, str]
    machine: Machine
    engine: str
    encoders: list[FoundEncoder]
    disks: list[Disk]
    library: LibraryHealth | None = None
    problems: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        told = asdict(self)
        told["missing_extras"] = [{**asdict(each), "install": each.install} for each in self.missing_extras]
        return told


def examine(library: Path | None = None, places: tuple[Path, ...] = ()) -> Diagnosis:
    """Look at everything; ``places`` are folders whose disks matter besides the library's."""
    packages, found = installed_packages(), encoders()
    problems = [f"{package.name} {package.problem}" for package in packages if package.problem]
    problems += [f"encoder {each.name}: {each.remedy}" for each in found if each.state == "damaged"]
    health = None if library is None else library_health(library)
    problems += [] if health is None else health.problems
    disks = [disk(place) for place in dict.fromkeys([*([library] if library else []), *places, hub_cache()])]
    return Diagnosis(
        versions={"prvr": prvr.__version__, "python": platform.python_version()},
        packages=packages,
        missing_extras=missing_extras(),
        libraries=libraries(),
        machine=this_machine(),
        engine=engine(),
        encoders=found,
        disks=disks,
        library=health,
        problems=problems,
    )


def library_health(folder: Path) -> LibraryHealth:
    """What ``prvr library verify`` finds; a library that cannot be opened is a problem like others."""
    try:
        lib = Library.open(folder)
        status, found = lib.status(), lib.verify()
    except (LibraryError, OSError) as problem:
        return LibraryHealth(str(folder), problems=(str(problem),))
    return LibraryHealth(
        str(folder),
        status.videos,
        status.failed,
        status.bytes,
        found.checked,
        tuple(map(str, found.missing)),
        tuple(found.problems),
    )
