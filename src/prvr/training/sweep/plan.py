"""The file of a sweep: seeds, methods, datasets and settings, and the runs that they make.

Every method is trained on every dataset with every seed. A list among the settings is a grid: one run for each value.
"""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prvr.backbones import methods
from prvr.data import Collection, find_collections
from prvr.errors import UserError, did_you_mean
from prvr.training.changes import flat_settings
from prvr.training.config import (
    RECIPES,
    ConfigError,
    TrainConfig,
    config_from_dict,
    config_to_dict,
    load_preset,
    preset_names,
    read_toml,
)
from prvr.training.own_data import OWN_PRESET, preset_for_data
from prvr.training.splits import resolve_config

_KEYS = ("seeds", "methods", "datasets", "data", "settings", "out")
_METHOD_KEYS, _DATASET_KEYS = ("method", "settings"), ("preset", "data", "settings")
_FOLDERS = Path("sweeps")  # of sweeps that name no other
_NAME = re.compile(r"[\w+.-]+")
_MOST_RUNS = 10_000  # of a sweep; a grid of a few long lists has more than there is time for
_FEATURE = "data.visual_feature"
_OWN_KEYS = {"seed": "seeds", "method": "methods"}  # settings that have a key of their own


@dataclass(frozen=True)
class PlannedRun:
    """One training of a sweep."""

    name: str  # of its folder
    label: str  # of its method, as the sweep calls it
    dataset: str  # as the sweep calls it
    config: TrainConfig
    data: Path
    varied: Mapping[str, Any]  # its values of the settings that are a grid

    @property
    def title(self) -> str:
        """For people."""
        return ", ".join([f"{self.label} on {self.dataset}", *_shown(self.varied), f"seed {self.config.seed}"])


@dataclass(frozen=True)
class SweepPlan:
    """All trainings of a sweep, in the order in which they start."""

    file: Path
    out: Path
    runs: tuple[PlannedRun, ...]


def read_sweep(file: str | Path, out: Path | None = None) -> SweepPlan:
    """Read the file of a sweep and make the configuration of every run.

    Args:
        file: TOML. Paths in it are relative to its folder.
        out: folder of the sweep, in place of the one that the file names.

    Raises:
        ConfigError: something in the file is wrong; the message names the key.
    """
    path = Path(file)
    values = _read(path)
    _require_keys(values, _KEYS, str(path))
    rows = _entries(values, "methods", _METHOD_KEYS, path)
    datasets = _entries(values, "datasets", _DATASET_KEYS, path)
    seeds = _seeds(values.get("seeds", [0]), path)
    common = _settings(values, f"{path}, settings")
    runs: list[PlannedRun] = []
    for (dataset, on), (label, of) in itertools.product(datasets.items(), rows.items()):
        source = _Source(
            path, dataset, on, _folder(on.get("data", values.get("data")), f"datasets.{dataset}.data", path)
        )
        method = _method(of, label, path)
        layers = {"settings": common, f"datasets.{dataset}.settings": _settings(on, f"{path}, datasets.{dataset}")}
        layers[f"methods.{label}.settings"] = _settings(of, f"{path}, methods.{label}")
        feature = {name: value for settings in layers.values() for name, value in settings.items()}.get(_FEATURE)
        preset = source.preset(method, feature if isinstance(feature, str) else None)
        for chosen, varied in _grid(preset, layers, path, method):
            for seed in seeds:
                name = "-".join([dataset, label, *(f"{key}={value}" for key, value in varied.items()), f"seed{seed}"])
                config = _changed(preset, chosen | {"seed": seed}, f"{path}, {label} on {dataset}")
                config = source.resolve(config)
                runs.append(PlannedRun(_as_name(name), label, dataset, config, source.data, varied))
                if len(runs) > _MOST_RUNS:
                    raise ConfigError(
                        f"{path}: methods, datasets, seeds and lists of settings make more than {_MOST_RUNS:,} runs: "
                        "shorten a list, or make several sweeps"
                    )
    _require_different([run.name for run in runs], path)
    named = values.get("out")
    place = _folder(named, "out", path) if named is not None else _FOLDERS / path.stem
    return SweepPlan(path, out or place, tuple(runs))


def _read(path: Path) -> dict[str, Any]:
    try:
        return read_toml(path, "sweep")
    except ConfigError as problem:
        if not any(word in str(problem) for word in ("twice", "immutable", "overwrite")):
            raise
        raise ConfigError(
            f"{problem}: a list such as methods = […] and tables such as [methods.NAME] exclude each other; write a "
            "table for each name"
        ) from None


@dataclass(frozen=True)
class _Source:
    """A dataset of the sweep."""

    file: Path
    name: str
    entry: Mapping[str, Any]
    data: Path

    def preset(self, method: str, visual_feature: str | None) -> TrainConfig:
        """The configuration that the settings change. The feature decides widths and frames for data of one's own."""
        where = f"{self.file}, datasets.{self.name}"
        chosen = _text(self.entry, "preset", self.name, where).replace("{method}", method)
        try:
            if chosen.endswith(".toml"):
                config = load_preset(str(self.file.parent / chosen))
            elif chosen in {*preset_names(method), *preset_names()} - {OWN_PRESET}:
                config = load_preset(chosen, method)
            elif chosen == OWN_PRESET or chosen in find_collections(self.data):
                config = preset_for_data(self.data, method, visual_feature)
            else:
                hint = did_you_mean(chosen, preset_names(method))
                raise ConfigError(f'there is no preset {chosen!r}.{hint} For data of your own, write preset = "own"')
        except UserError as problem:
            raise ConfigError(f"{where}: {problem}") from None
        if method not in (*RECIPES, config.method):
            raise ConfigError(
                f"{where}: the preset {chosen} is of {config.method}, and the sweep also trains {method}: write "
                "{method} in the preset's path, or name a preset that both have"
            )
        return config

    def resolve(self, config: TrainConfig) -> TrainConfig:
        """Decide what the data decides. Also checks that it is there."""
        try:
            config = resolve_config(config, self.data)
            Collection.find(self.data, config.data.collection, config.data.visual_feature)
        except UserError as problem:
            raise ConfigError(f"{self.file}, datasets.{self.name}: {problem}") from None
        return config


def _grid(
    preset: TrainConfig, layers: Mapping[str, Mapping[str, Any]], path: Path, method: str
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Every combination of the settings: all values, and those that vary."""
    known = flat_settings(config_to_dict(preset))
    values: dict[str, list[Any]] = {}
    for section, settings in layers.items():
        for name, value in settings.items():
            where = f"{path}, {section}"
            if name in _OWN_KEYS:
                raise ConfigError(f"{where}: {name} is no setting of a sweep: use {_OWN_KEYS[name]}")
            if name not in known:
                hint = did_you_mean(name, known)
                elsewhere = f" (settings of one method go under [methods.{method}.settings])" * (section == "settings")
                raise ConfigError(
                    f"{where}: {method} has no setting {name!r}.{hint} `prvr train --help` lists them{elsewhere}"
                )
            several = isinstance(value, list) and not (isinstance(known[name], tuple) and not _is_nested(value))
            if several and not value:
                raise ConfigError(f"{where}: {name} is an empty list: give at least one value")
            values[name] = value if several else [value]
    varying = [name for name, options in values.items() if len(options) > 1]
    if (runs := math.prod(map(len, values.values()))) > _MOST_RUNS:
        names = ", ".join(varying)
        raise ConfigError(
            f"{path}: the lists of {names} make {runs:,} runs, and {_MOST_RUNS:,} are allowed: shorten one"
        )
    for combination in itertools.product(*values.values()):
        chosen = dict(zip(values, combination, strict=True))
        yield chosen, {name: chosen[name] for name in varying}


def _is_nested(value: list[Any]) -> bool:
    return bool(value) and all(isinstance(item, list) for item in value)


def _changed(preset: TrainConfig, settings: Mapping[str, Any], where: str) -> TrainConfig:
    tables = config_to_dict(preset)
    for name, value in settings.items():
        *path, last = name.split(".")
        table = tables
        for part in path:
            table = table[part]
        table[last] = value
    try:
        return config_from_dict(tables, where)
    except ConfigError as problem:
        text = str(problem)
        raise ConfigError(text if text.startswith(where) else f"{where}: {text}") from None


def _entries(values: Mapping[str, Any], key: str, keys: Sequence[str], path: Path) -> dict[str, dict[str, Any]]:
    """Methods or datasets by name: a list of names, or a table for each."""
    found = values.get(key)
    if not found:
        raise ConfigError(f'{path}: {key} is missing: give a list of names, such as {key} = ["{_EXAMPLE[key]}"]')
    if isinstance(found, list) and all(isinstance(name, str) for name in found):
        _require_different(found, path)
        found = {name: {} for name in found}
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: {key} should be a list of names or a table for each, found {found!r}")
    for name, entry in found.items():
        if not isinstance(entry, dict):
            raise ConfigError(f"{path}: {key}.{name} should be a table ({{}} without changes), found {entry!r}")
        if not _NAME.fullmatch(name):
            raise ConfigError(f"{path}: {key}.{name!r}: use letters, digits and + . _ - only; folders are named so")
        _require_keys(entry, keys, f"{path}, {key}.{name}")
    return found


_EXAMPLE = {"methods": "dreamprvr", "datasets": "charades"}


def _method(entry: Mapping[str, Any], label: str, path: Path) -> str:
    name = _text(entry, "method", label, f"{path}, methods.{label}")
    known = [*methods(), *RECIPES]
    if name not in known:
        hint = did_you_mean(name, known)
        raise ConfigError(f"{path}, methods.{label}: there is no method {name!r}.{hint} `prvr zoo` lists them")
    return name


def _require_keys(values: Mapping[str, Any], keys: Sequence[str], where: str) -> None:
    for key in values:
        if key not in keys:
            hint = did_you_mean(key, keys)
            advice = "" if hint else " Options of `prvr train` go under settings."
            raise ConfigError(f"{where}: unknown key {key!r}.{hint} There are: {', '.join(keys)}.{advice}")


def _settings(values: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The settings of a part by their dotted names; hyphens are allowed, as in flags."""
    found = values.get("settings", {})
    if not isinstance(found, dict):
        raise ConfigError(f"{where}: settings should be a table, found {found!r}")
    return {name.replace("-", "_"): value for name, value in flat_settings(found).items()}


def _seeds(found: Any, path: Path) -> list[int]:
    if not isinstance(found, list) or not found or not all(type(seed) is int for seed in found):
        raise ConfigError(f"{path}: seeds should be a list of whole numbers, such as [0, 1, 2], found {found!r}")
    _require_different([f"seed {seed}" for seed in found], path)
    return found


def _text(values: Mapping[str, Any], key: str, default: str, where: str) -> str:
    found = values.get(key, default)
    if not isinstance(found, str):
        raise ConfigError(f"{where}: {key} should be a text, found {found!r}")
    return found


def _folder(found: Any, key: str, path: Path) -> Path:
    if found is None:
        raise ConfigError(f"{path}: {key} is missing: give the folder that holds the dataset")
    if not isinstance(found, str):
        raise ConfigError(f"{path}: {key} should be a folder, found {found!r}")
    place = path.parent / Path(found).expanduser()
    if key.endswith("data") and not place.exists() and Path(found).exists():
        there = os.path.relpath(found, path.parent)
        raise ConfigError(
            f"{path}: {key} is {place}, which is not there. Paths are relative to the file: for {found} in this "
            f'folder, copy the file here, or write "{there}"'
        )
    return place


def _require_different(names: Sequence[str], path: Path) -> None:
    twice = [name for place, name in enumerate(names) if name in names[:place]]
    if twice:
        raise ConfigError(f"{path}: {twice[0]} is there twice: name each once")


def _as_name(text: str) -> str:
    return re.sub(r"[^\w+.=-]", "_", text)


def _shown(varied: Mapping[str, Any]) -> list[str]:
    return [f"{name} {value}" for name, value in varied.items()]
