"""What this machine computes with."""

from __future__ import annotations

import importlib
import importlib.util
import os
import platform
import shutil
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import torch

from prvr.scoring import fused_device_obstacle, has_simsimd


@dataclass(frozen=True)
class Machine:
    """Processor, memory and GPUs."""

    system: str
    processor: str
    cores: int  # that this process may use
    instructions: tuple[str, ...]  # the widest that torch and SimSIMD use here
    memory: int | None  # bytes
    gpus: tuple[str, ...]


@dataclass(frozen=True)
class Disk:
    """Room where data or a library lies."""

    place: str
    free: int
    total: int
    writable: bool


def this_machine() -> Machine:
    return Machine(
        system=f"{platform.system()} {platform.release()}",
        processor=_processor(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        instructions=_instructions(),
        memory=_memory(),
        gpus=tuple(_gpu(number) for number in range(torch.cuda.device_count())),
    )


def engine() -> str:
    """Which engine scores a gallery here, and why not a faster one."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    obstacle = fused_device_obstacle(device)
    if not obstacle:
        return "triton (fused) on the GPU for galleries kept in 16 or 8 bits, torch for others"
    if device.type == "cuda":
        return f"torch on the GPU: {obstacle}"
    few = "SimSIMD for one or two queries" if has_simsimd() else "without SimSIMD: pip install simsimd"
    return f"torch on the CPU, {few}"


def libraries() -> dict[str, str]:
    """FFmpeg inside PyAV, its parts and licence, and Triton; empty text where there is none."""
    found = {"triton": "" if importlib.util.find_spec("triton") is None else _version("triton")}
    try:
        av: Any = importlib.import_module("av")
        core: Any = importlib.import_module("av._core")
    except ImportError as problem:
        return found | {"ffmpeg": f"not there ({problem})"}
    parts = [f"{name} {'.'.join(map(str, version))}" for name, version in av.library_versions.items()]
    stated = {str(about.get("license", "")) for about in getattr(core, "library_meta", {}).values()} - {""}
    version = str(getattr(av, "ffmpeg_version_info", ""))
    carried = [f"carries {name} (GPL)" for name in _gpl_parts()]
    return found | {"ffmpeg": "; ".join([f"{version} ({', '.join(parts)})".strip(), *sorted(stated), *carried])}


def _gpl_parts() -> list[str]:
    """Encoders inside PyAV's wheel that stand under the GPL, whatever FFmpeg itself says."""
    names = {file.name.split("-")[0].split(".")[0] for file in distribution("av").files or []}
    return sorted(names & {"libx264", "libx265", "libxvidcore"})


def disk(place: Path) -> Disk:
    """Room at a place, or at the nearest folder above it that exists."""
    there = place.resolve()
    while not there.is_dir() and there != there.parent:
        there = there.parent
    usage = shutil.disk_usage(there)
    return Disk(str(place), usage.free, usage.total, os.access(there, os.W_OK))


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def _instructions() -> tuple[str, ...]:
    found = [f"torch: {torch.backends.cpu.get_cpu_capability()}"]
    if has_simsimd():
        import simsimd

        able = [name for name, has in simsimd.get_capabilities().items() if has and name != "serial"]
        found.append(f"SimSIMD: {', '.join(able) or 'plain'}")
    return tuple(found)


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
