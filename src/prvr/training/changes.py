"""In which settings two configurations differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prvr.training.config import TrainConfig, config_to_dict

HARMLESS = ("checkpoint_seconds", "checkpoint_steps", "graphs", "compile")  # do not change what is learned


def config_changes(before: TrainConfig, now: TrainConfig) -> dict[str, tuple[Any, Any]]:
    """Settings that decide what is learned and differ, by their dotted names: the value before, and now.

    >>> config_changes(TrainConfig(seed=1), TrainConfig(seed=2, compile="off"))
    {'seed': (1, 2)}
    """
    old, new = flat_settings(config_to_dict(before)), flat_settings(config_to_dict(now))
    names = [name for name in old | new if name not in HARMLESS and old.get(name) != new.get(name)]
    return {name: (old.get(name), new.get(name)) for name in names}


def flat_settings(tables: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as one, with dotted names.

    >>> flat_settings({"seed": 1, "trace": {"gate": True}})
    {'seed': 1, 'trace.gate': True}
    """
    flat: dict[str, Any] = {}
    for key, value in tables.items():
        flat |= flat_settings(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat
