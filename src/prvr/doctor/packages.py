"""Packages that ``prvr`` needs: versions, who requires them, and their licences, all from installed metadata."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import TypeAlias

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

_OURSELVES = "prvr"
_LONGEST = 80  # characters of a licence field that is a name; longer ones are the text

Requirements: TypeAlias = Mapping[str, Sequence[Requirement]]  # by purpose: "core", or the name of an extra


@dataclass(frozen=True)
class Package:
    """A package that ``prvr`` needs, itself or through another."""

    name: str
    version: str | None  # None: not installed
    licence: str
    needed_by: tuple[str, ...]  # the purposes that need it: "core", or names of extras
    direct: bool  # required by prvr itself
    problem: str = ""


@dataclass(frozen=True)
class UninstalledExtra:
    """An extra of which some packages are not installed."""

    extra: str
    packages: tuple[str, ...]

    @property
    def install(self) -> str:
        return f'pip install "prvr[{self.extra}]"'


def installed_packages(requirements: Requirements) -> list[Package]:
    """Every package under ``prvr`` and its extras. Optional packages that are not installed are left out."""
    purposes: dict[str, set[str]] = {}
    direct: set[str] = set()
    problems: dict[str, str] = {}
    for purpose in ("core", *_extras(requirements)):
        for requirement in _applicable(requirements, purpose):
            direct.add(canonicalize_name(requirement.name))
            _walk(requirement, purpose, purposes, problems)
    packages = [_package(name, tuple(sorted(needed)), name in direct, problems) for name, needed in purposes.items()]
    return sorted(packages, key=lambda package: package.name)


def uninstalled_extras(requirements: Requirements) -> list[UninstalledExtra]:
    """Extras of which something is not installed; those that only collect other extras are left out."""
    extras = []
    for extra in _extras(requirements):
        names = [requirement.name for requirement in _applicable(requirements, extra)]
        absent = [name for name in names if name != _OURSELVES and _installed(name) is None]
        if absent:
            extras.append(UninstalledExtra(extra, tuple(absent)))
    return extras


def read_requirements() -> Requirements:
    """What ``prvr`` itself requires, by purpose.

    In a source tree, pyproject.toml counts: the installed metadata is as old as the last `pip install -e`.
    """
    source = Path(__file__).parents[3] / "pyproject.toml"
    if source.is_file():
        project = tomllib.loads(source.read_text("utf-8"))["project"]
        lists: dict[str, list[str]] = {"core": project["dependencies"], **project["optional-dependencies"]}
        return {name: tuple(map(Requirement, lines)) for name, lines in lists.items()}
    ours = _installed(_OURSELVES)
    extras = (ours.metadata.get_all("Provides-Extra") or []) if ours is not None else []
    return {
        purpose: tuple(requirement for requirement in _requirements(ours) if _is_for(requirement, purpose))
        for purpose in ("core", *extras)
    }


def licence_of(package: Distribution) -> str:
    """A package's licence in a few words, as its metadata states it."""
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


def _extras(requirements: Requirements) -> list[str]:
    return sorted(requirements.keys() - {"core"})


def _applicable(requirements: Requirements, purpose: str) -> list[Requirement]:
    """What a purpose requires on this machine."""
    return [
        requirement
        for requirement in requirements.get(purpose, ())
        if requirement.marker is None or requirement.marker.evaluate({"extra": purpose})
    ]


def _is_for(requirement: Requirement, purpose: str) -> bool:
    always = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
    if purpose == "core" or requirement.marker is None:
        return always and purpose == "core"
    return not always and requirement.marker.evaluate({"extra": purpose})


def _walk(requirement: Requirement, purpose: str, purposes: dict[str, set[str]], problems: dict[str, str]) -> None:
    """Note a requirement and everything under it."""
    name = canonicalize_name(requirement.name)
    package = _installed(name)
    if name == _OURSELVES:
        return
    if package is None:
        if purpose == "core":
            purposes.setdefault(name, set()).add(purpose)
            problems[name] = f"is needed ({requirement.name}{requirement.specifier}) and not installed"
        return
    if requirement.specifier and not requirement.specifier.contains(package.version, prereleases=True):
        problems[name] = f"is {package.version}, but {requirement.specifier} is needed"
    if purpose in purposes.setdefault(name, set()):
        return
    purposes[name].add(purpose)
    for below in _requirements(package):
        if below.marker is None or any(below.marker.evaluate({"extra": extra}) for extra in ("", *requirement.extras)):
            _walk(below, purpose, purposes, problems)


def _package(name: str, purposes: tuple[str, ...], direct: bool, problems: dict[str, str]) -> Package:
    package = _installed(name)
    if package is None:
        return Package(name, None, "", purposes, direct, problems.get(name, ""))
    return Package(name, package.version, licence_of(package), purposes, direct, problems.get(name, ""))


def _requirements(package: Distribution | None) -> Iterator[Requirement]:
    for line in (package.requires if package is not None else None) or []:
        try:
            yield Requirement(line)
        except InvalidRequirement:  # in the metadata of another package
            continue


def _installed(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None
