"""Which type of numbers a model's pictures are encoded in on this machine: measured once, and remembered.

The first pictures of real work are encoded in float32. The other types that the machine has then encode the same
pictures. The fastest wins if its vectors can be compared with those of float32. The result is kept in the user's cache
for each model, processor and set of versions, so that later runs do not measure again. ``PRVR_ENGINE`` overrides it.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import numpy as np

from prvr.errors import did_you_mean
from prvr.files import NotAnObject, read_json_object, write_whole
from prvr.media.encoders.base import Array
from prvr.media.errors import EncoderError

EngineName: TypeAlias = Literal["auto", "fp32", "bf16", "int8"]
ENGINE_SETTING = "PRVR_ENGINE"  # environment variable
LEAST_COSINE = 0.995  # to float32, of vectors that may stand in one library with float32's
_FASTER = 1.1  # times float32's rate, to be worth another type
_KEPT = 50  # remembered choices
_INT8_PACKAGES = ("onnxruntime", "onnx", "transformers")


@dataclass(frozen=True)
class EngineChoice:
    """What was measured for a model on this machine."""

    model: str
    processor: str
    cores: int
    rates: Mapping[str, float]  # pictures a second, by type
    cosines: Mapping[str, float] = field(default_factory=dict)  # the least to float32
    failed: Mapping[str, str] = field(default_factory=dict)  # types that could not be tried, and why

    @property
    def chosen(self) -> str:
        """The fastest type whose vectors agree with float32's, if it is a tenth faster than float32."""
        close = [name for name, cosine in self.cosines.items() if cosine >= LEAST_COSINE]
        fastest = max(close, key=lambda name: self.rates[name], default="fp32")
        return fastest if self.rates[fastest] >= _FASTER * self.rates["fp32"] else "fp32"

    def __str__(self) -> str:
        parts = []
        for name, rate in self.rates.items():
            cosine = f" (cosine to fp32 at least {self.cosines[name]:.4f})" if name in self.cosines else ""
            parts.append(f"{name} {rate:.1f}{cosine}")
        failed = [f"; {name} could not be tried: {why}" for name, why in self.failed.items()]
        return f"{self.chosen}: pictures a second: {', '.join(parts)}{''.join(failed)}"


def engine_setting(given: str | None = None) -> EngineName:
    """The type of numbers that was asked for, else the one in the environment, else ``auto``.

    Raises:
        EncoderError: there is no such type.
    """
    name = given or os.environ.get(ENGINE_SETTING) or "auto"
    if name not in get_args(EngineName):
        names = ", ".join(get_args(EngineName))
        hint = did_you_mean(name, get_args(EngineName))
        raise EncoderError(f"{ENGINE_SETTING} is {name!r}, but must be one of {names}.{hint}")
    return name  # type: ignore[return-value]


def int8_versions() -> tuple[str, ...]:
    """Versions of the packages that make and run int8 models; empty where one is not installed."""
    try:
        return tuple(version(name) for name in _INT8_PACKAGES)
    except PackageNotFoundError:
        return ()


def processor_types() -> tuple[EngineName, ...]:
    """The types that this processor multiplies fast in torch; bfloat16 only where it has instructions for it."""
    import torch  # imported here: whoever only asks for the setting does without

    bf16 = torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()  # type: ignore[no-untyped-call]
    return ("fp32", "bf16") if bf16 else ("fp32",)


def has_vnni() -> bool:
    """Whether this processor adds products of 8 bits in 32, which makes int8 fast and keeps it exact."""
    import torch

    return not is_x86() or torch.cpu._is_vnni_supported()


def is_x86() -> bool:
    """Whether this is a processor of Intel's family; only of those some lack VNNI."""
    return platform.machine().lower() in ("x86_64", "amd64")


def int8_installed() -> bool:
    """Whether the packages of the extra ``int8`` are there. Nothing is imported."""
    return bool(int8_versions())


def recall_choice(weights: str, names: tuple[str, ...]) -> EngineChoice | None:
    """What was chosen among these types for a model with these weights, on this machine; None where nothing was."""
    return _read_choice(_choice_file(weights, names))


def remember_choice(weights: str, names: tuple[str, ...], choice: EngineChoice) -> None:
    """Keep a choice for later runs. Raises ``OSError`` where the cache cannot be written."""
    file = _choice_file(weights, names)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, json.dumps(asdict(choice), indent=1) + "\n")
    for old in sorted(file.parent.glob("*.json"), key=lambda each: each.stat().st_mtime, reverse=True)[_KEPT:]:
        old.unlink(missing_ok=True)


def remembered_choices() -> list[EngineChoice]:
    """Every choice that was made on this machine, the latest first."""
    files = sorted(user_cache("engines").glob("*.json"), key=lambda each: each.stat().st_mtime, reverse=True)
    return [choice for file in files if (choice := _read_choice(file)) is not None]


def _choice_file(weights: str, names: tuple[str, ...]) -> Path:
    facts = [weights, names, cpu_name(), core_count(), version("torch"), int8_versions()]
    return user_cache("engines") / f"{hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:24]}.json"


def _read_choice(file: Path) -> EngineChoice | None:
    try:
        choice = EngineChoice(**read_json_object(file))
        return choice if choice.chosen else None
    except (NotAnObject, TypeError, KeyError, AttributeError):  # none, damaged, or of another version: measure again
        return None


def least_cosine(found: Array, expected: Array) -> float:
    """The least cosine between rows of two arrays, (N, D) each; 0 where a number is not finite.

    >>> least_cosine(np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([[1.0, 0.0], [1.0, 1.0]])).__round__(3)
    0.707
    """
    lengths = np.linalg.norm(found, axis=1) * np.linalg.norm(expected, axis=1)
    cosines = (found * expected).sum(1) / np.maximum(lengths, 1e-12)
    return float(cosines.min()) if np.isfinite(cosines).all() else 0.0


def cpu_name() -> str:
    """The processor, as the system names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def core_count() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def user_cache(part: str) -> Path:
    """A folder of the user's cache, which may not exist yet."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "prvr" / part
