"""Which engine a model's pictures are encoded with on this processor: measured once, and remembered.

An engine is a type of numbers and what computes in it: OpenVINO, where it is installed, else torch. The first pictures
of real work are encoded in float32 by torch. The other engines then encode the same pictures. The fastest wins if its
vectors can be compared with those of torch. The result is kept in the user's cache for each model, processor and set of
versions, so that later runs do not measure again. ``PRVR_ENGINE`` overrides it.
"""

from __future__ import annotations

import hashlib
import json
import os
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
from prvr.processes import usable_cores
from prvr.processor import cpu_name, has_bf16, has_vnni

EngineName: TypeAlias = Literal["auto", "torch", "fp32", "bf16", "int8", "int8-static"]
# torch: float32 without OpenVINO; int8-static: scales of activations are found before it runs, not while it does
ROUNDED: tuple[EngineName, ...] = ("int8", "int8-static")  # engines whose vectors may differ from float32's
ENGINE_SETTING = "PRVR_ENGINE"  # environment variable
_LEAST_COSINE = 0.995  # to float32, of vectors that may stand in one library with float32's
_LEAST_STATIC = 0.998  # the same of int8-static, as later pictures may reach beyond its scales
_FASTER = 1.1  # times torch's rate in float32, to be worth another engine
_KEPT = 50  # remembered choices
_OPENVINO_PACKAGES = ("openvino", "transformers")


@dataclass(frozen=True)
class EngineChoice:
    """What was measured for a model on this machine."""

    model: str
    processor: str
    cores: int
    rates: Mapping[str, float]  # pictures a second, by engine
    cosines: Mapping[str, float] = field(default_factory=dict)  # the least to torch's float32
    failed: Mapping[str, str] = field(default_factory=dict)  # engines that could not be tried, and why

    @property
    def chosen(self) -> EngineName:
        """The fastest engine whose vectors agree with torch's, if it is a tenth faster than torch."""
        close = [name for name, cosine in self.cosines.items() if cosine >= required_cosine(name)]
        fastest = max(close, key=lambda name: self.rates[name], default="torch")
        return require_engine(fastest) if self.rates[fastest] >= _FASTER * self.rates["torch"] else "torch"

    def __str__(self) -> str:
        parts = []
        for name, rate in self.rates.items():
            cosine = f" (cosine to torch at least {self.cosines[name]:.4f})" if name in self.cosines else ""
            parts.append(f"{name} {rate:.1f}{cosine}")
        failed = [f"; {name} could not be tried: {why}" for name, why in self.failed.items()]
        return f"{self.chosen}: pictures a second: {', '.join(parts)}{''.join(failed)}"


def required_cosine(engine: str) -> float:
    """The cosine to float32 that every vector of an engine must reach, to be compared with float32's.

    >>> required_cosine("int8"), required_cosine("int8-static")
    (0.995, 0.998)
    """
    return _LEAST_STATIC if engine == "int8-static" else _LEAST_COSINE


def engine_setting(given: str | None = None) -> EngineName:
    """The engine that was asked for, else the one in the environment, else ``auto``.

    Raises:
        EncoderError: there is no such engine.
    """
    return require_engine(given or os.environ.get(ENGINE_SETTING) or "auto")


def require_engine(name: str) -> EngineName:
    """An engine's name, or an ``EncoderError`` that lists them."""
    if name not in get_args(EngineName):
        names = ", ".join(get_args(EngineName))
        hint = did_you_mean(name, get_args(EngineName))
        raise EncoderError(f"{ENGINE_SETTING} is {name!r}, but must be one of {names}.{hint}")
    return name  # type: ignore[return-value]


def openvino_versions() -> tuple[str, ...]:
    """Versions of the packages that convert and run models; empty where one is not installed. Nothing is imported."""
    try:
        return tuple(version(name) for name in _OPENVINO_PACKAGES)
    except PackageNotFoundError:
        return ()


def openvino_installed() -> bool:
    """Whether the packages of the extra ``openvino`` are there. Nothing is imported."""
    return bool(openvino_versions())


def processor_engines() -> tuple[EngineName, ...]:
    """The engines that may be fast on this processor; torch first, which is always there."""
    bf16: tuple[EngineName, ...] = ("bf16",) if has_bf16() else ()
    if not openvino_installed():
        return ("torch", *bf16)
    return ("torch", "fp32", *bf16, *ROUNDED) if has_vnni() else ("torch", "fp32", *bf16)


def recall_choice(weights: str, names: tuple[str, ...]) -> EngineChoice | None:
    """What was chosen among these engines for a model with these weights, on this machine; None where nothing was."""
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
    facts = [weights, names, cpu_name(), usable_cores(), version("torch"), openvino_versions()]
    return user_cache("engines") / f"{hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:24]}.json"


def _read_choice(file: Path) -> EngineChoice | None:
    try:
        choice = EngineChoice(**read_json_object(file))
        return choice if choice.chosen else None
    except (NotAnObject, TypeError, KeyError, AttributeError, EncoderError):
        return None  # there is none, or it is damaged or of another version: measure again


def least_cosine(found: Array, expected: Array) -> float:
    """The least cosine between rows of two arrays, (N, D) each; 0 where a number is not finite.

    >>> least_cosine(np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([[1.0, 0.0], [1.0, 1.0]])).__round__(3)
    0.707
    """
    lengths = np.linalg.norm(found, axis=1) * np.linalg.norm(expected, axis=1)
    cosines = (found * expected).sum(1) / np.maximum(lengths, 1e-12)
    return float(cosines.min()) if np.isfinite(cosines).all() else 0.0


def user_cache(part: str) -> Path:
    """A folder of the user's cache, which may not exist yet."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "prvr" / part
