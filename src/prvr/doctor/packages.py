"""Packages that ``prvr`` stands on: versions, what asks for them, and their licences, all from installed metadata."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

OURSELVES = "prvr"
_LONGEST = 80  # characters of a licence field that is a name; longer ones are the text


@dataclass(frozen=True)
class Package:
    """A package that ``prvr`` needs, itself or through another."""

    name: str
    version: str | None  # None: not installed
    licence: str
    wanted: tuple[str, ...]  # "core", or names of extras
    direct: bool  # asked for by prvr itself
    problem: str = ""


@dataclass(frozen=True)
class MissingExtra:
    """Something optional that is not installed."""

    extra: str
    packages: tuple[str, ...]

    @property
    def install(self) -> str:
        return f'pip install "prvr[{self.extra}]"'


def installed_packages() -> list[Package]:
    """Every package in the tree under ``prvr`` and its extras; of optional ones, those that are there."""
    wanted: dict[str, set[str]] = {}
    direct: set[str] = set()
    problems: dict[str, str] = {}
    for purpose in ("core", *extras()):
        for requirement in _own(purpose):
            direct.add(canonicalize_name(requirement.name))
            _walk(requirement, purpose, wanted, problems)
    made = [_package(name, tuple(sorted(reasons)), name in direct, problems) for name, reasons in wanted.items()]
    return sorted(made, key=lambda package: package.name)


def missing_extras() -> list[MissingExtra]:
    """Extras of which something is not installed; those that only gather others are left out."""
    found = []
    for extra in extras():
        absent = [each.name for each in _own(extra) if each.name != OURSELVES and _installed(each.name) is None]
        if absent:
            found.append(MissingExtra(extra, tuple(absent)))
    return found


def extras() -> list[str]:
    """Names of what can be installed besides the core."""
    return sorted(own_requirements().keys() - {"core"})


@cache
def own_requirements() -> dict[str, tuple[Requirement, ...]]:
    """What ``prvr`` itself asks for: "core", and by extra.

    A source tree is believed before the metadata of its installation, which is as old as the last `pip install -e`.
    """
    source = Path(__file__).parents[3] / "pyproject.toml"
    if source.is_file():
        project = tomllib.loads(source.read_text("utf-8"))["project"]
        lists: dict[str, list[str]] = {"core": project["dependencies"], **project["optional-dependencies"]}
        return {name: tuple(map(Requirement, lines)) for name, lines in lists.items()}
    ours = _installed(OURSELVES)
    found: dict[str, tuple[Requirement, ...]] = {}
    for purpose in ("core", *((ours.metadata.get_all("Provides-Extra") or []) if ours is not None else [])):
        found[purpose] = tuple(each for each in _requirements(ours) if _is_for(each, purpose))
    return found


def _is_for(requirement: Requirement, purpose: str) -> bool:
    always = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
    if purpose == "core" or requirement.marker is None:
        return always and purpose == "core"
    return not always and requirement.marker.evaluate({"extra": purpose})


def licence_of(package: Distribution) -> str:
    """A package's licence in a few words, as it states it itself."""
    about = package.metadata
    if "License-Expression" in about:
        return about["License-Expression"]
    stated = "".join(about.get_all("License") or [])
    if stated and "\n" not in stated and len(stated) <= _LONGEST:
        return stated
    classified = [line.split(" :: ")[-1] for line in about.get_all("Classifier") or [] if line.startswith("License ::")]
    if classified:
        return ", ".join(classified)
    return stated.strip().splitlines()[0][:_LONGEST] if stated.strip() else "not stated"


def _own(purpose: str) -> list[Requirement]:
    """What ``prvr`` asks for on this machine, always ("core") or for an extra."""
    found = own_requirements().get(purpose, ())
    return [each for each in found if each.marker is None or each.marker.evaluate({"extra": purpose})]


def _walk(requirement: Requirement, purpose: str, wanted: dict[str, set[str]], problems: dict[str, str]) -> None:
    """Note a requirement and everything under it."""
    name = canonicalize_name(requirement.name)
    found = _installed(name)
    if name == OURSELVES:
        return
    if found is None:
        if purpose == "core":
            wanted.setdefault(name, set()).add(purpose)
            problems[name] = f"is needed ({requirement.name}{requirement.specifier}) and not installed"
        return
    if requirement.specifier and not requirement.specifier.contains(found.version, prereleases=True):
        problems[name] = f"is {found.version}, but {requirement.specifier} is needed"
    if purpose in wanted.setdefault(name, set()):
        return
    wanted[name].add(purpose)
    for below in _requirements(found):
        if below.marker is None or any(below.marker.evaluate({"extra": extra}) for extra in ("", *requirement.extras)):
            _walk(below, purpose, wanted, problems)


def _package(name: str, wanted: tuple[str, ...], direct: bool, problems: dict[str, str]) -> Package:
    found = _installed(name)
    if found is None:
        return Package(name, None, "", wanted, direct, problems.get(name, ""))
    return Package(name, found.version, licence_of(found), wanted, direct, problems.get(name, ""))


def _requirements(package: Distribution | None) -> Iterator[Requirement]:
    for line in (package.requires if package is not None else None) or []:
        try:
            yield Requirement(line)
        except InvalidRequirement:  # of somebody else's making
            continue


def _installed(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None
