"""The configuration of a training run: plain dataclasses, filled from a preset; each field can be overridden."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from prvr.backbones import Backbone, BackboneConfig, method, require_ranges
from prvr.errors import UserError, did_you_mean
from prvr.trace import TraceConfig, WitnessConfig

_Config = TypeVar("_Config")

RECIPES = {"witness": "dreamprvr with TRACE, then a witness that reads words"}
"""Names that `prvr train --method` takes besides backbones: presets of a backbone with further phases."""


class ConfigError(UserError):
    """A preset or configuration cannot be used. The message says where the problem is and what is expected."""


@dataclass(frozen=True)
class DataConfig:
    """Which files are read."""

    collection: str = "charades"
    """collection name, as in {collection}train.caption.txt"""
    visual_feature: str | None = None
    """folder under FeatureData; not needed where there is only one; A+B: two of them side by side"""
    features: str | None = None
    """published features by their short name, such as clip-l14, whatever their files are called; sets visual_feature
    and both widths. `prvr data check DIR` names those that are there"""
    train_split: str = "train"
    """split to train on"""
    validation_split: str = "val"
    """split to validate on"""


@dataclass(frozen=True)
class BackboneStage:
    """First phase: the backbone alone, with its authors' optimiser."""

    epochs: int = 100
    """epochs of the backbone alone"""
    learning_rate: float = 2e-4
    """peak learning rate"""
    warmup: float = 0.01
    """share of all steps over which the learning rate rises; it then falls as the schedule says"""
    weight_decay: float = 0.01
    """weight decay of the authors' optimiser"""
    optimiser: Literal["bert-adam", "adamw"] = "bert-adam"
    """bert-adam: as usual in this field, without bias correction and with each tensor's gradient clipped; or adamw"""
    schedule: Literal["linear", "cosine", "constant"] = "linear"
    """how the learning rate falls after warm-up; constant: no warm-up and no decay"""
    beta2: float = 0.999
    """decay of the optimiser's second moment"""
    clip: float = 0.0
    """bound on the global gradient norm; 0: none"""
    patience: int = 0
    """end the phase after more than this many validations in a row without a better SumR (--validate-every is how many
    epochs apart they are); 0: never"""
    hand_over: Literal["last", "best"] = "last"
    """which epoch's weights the TRACE phase starts from"""


@dataclass(frozen=True)
class TraceStage:
    """Second phase: TRACE joins. Epochs t count from its start. Defaults are from the paper's section B.1.

    It does not give ``epochs`` and ``contrast_temperature``: those are chosen here.
    """

    epochs: int = 60
    """epochs of this phase; 0 trains the backbone only"""
    frozen_epochs: int = 5
    """epochs t in which only the evidence projections learn"""
    fusion_start: int = 30
    """epoch t from which evidence enters the ranking score"""
    fusion_ramp: int = 20
    """epochs over which its weight rises to λ"""
    learning_rate: float = 5e-5
    """peak learning rate"""
    warmup_epochs: int = 5
    """epochs of linear warm-up; then cosine decay"""
    final_share: float = 0.1
    """share of the peak learning rate that the cosine ends at"""
    beta1: float = 0.9
    """AdamW β₁"""
    beta2: float = 0.98
    """AdamW β₂"""
    epsilon: float = 1e-8
    """AdamW ε"""
    weight_decay: float = 1e-4
    """AdamW weight decay, on everything but norms and biases"""
    clip: float = 1.0
    """bound on the global gradient norm"""
    weight_nce: float = 0.02
    """loss weight: InfoNCE on evidence scores"""
    weight_triplet: float = 0.05
    """loss weight: triplet on evidence scores"""
    margin: float = 0.2
    """margin of that triplet"""
    contrast_temperature: float = 0.07
    """τ_c of that InfoNCE"""
    fused_base: bool = False
    """another reading of the paper: the backbone's own ranking losses see S_base + λ(t)·S_trace; without CUDA graphs"""
    snapshots: int = 3
    """how many last epochs are averaged into the final weights"""


@dataclass(frozen=True)
class WitnessStage:
    """Third phase, not in the paper: a witness learns on the finished, frozen base (``prvr.trace.witness``)."""

    steps: int = 0
    """optimisation steps; 0: no witness"""
    inputs: Literal["auto", "raw", "encoded", "both"] = "raw"
    """what it reads: raw, the features that the base was given; encoded, what the base made of them; both, side by
    side; auto: raw or both, whichever ranks the validation split better"""
    witness: WitnessConfig = field(default_factory=WitnessConfig)
    queries: int = 64
    """queries of a step"""
    negatives: int = 23
    """near misses that each of them meets"""
    pool: int = 100
    """best wrong videos of the base that they are drawn from"""
    learning_rate: float = 1e-3
    """peak of the learning rate: a short warm-up, then cosine to 0"""
    weight_decay: float = 0.01
    """of AdamW"""
    base_weight: float = 0.0
    """weight of the base score next to the witness's in the loss; 0: the witness learns to decide alone"""

    def inputs_for(self, backbone: Backbone) -> tuple[str, ...]:
        """What a witness of a backbone is tried with, of what ``inputs`` asks for. Empty: it can read none of that."""
        asked = ("raw", "both") if self.inputs == "auto" else (self.inputs,)
        return asked if backbone.keeps_frames else tuple(each for each in asked if each == "raw")


@dataclass(frozen=True)
class TrainConfig:
    """Everything that decides a run, besides the data itself."""

    method: str = "dreamprvr"
    """backbone"""
    data: DataConfig = field(default_factory=DataConfig)
    model: BackboneConfig = field(default_factory=BackboneConfig)
    trace: TraceConfig = field(default_factory=TraceConfig)
    backbone_stage: BackboneStage = field(default_factory=BackboneStage)
    trace_stage: TraceStage = field(default_factory=TraceStage)
    witness_stage: WitnessStage = field(default_factory=WitnessStage)
    alike: float = 0.0
    """cosine of two sentences from which on neither's video is a wrong answer to the other: about 0.8 for paraphrases,
    1 for the same words; 0: every other video is wrong, as in all papers"""
    batch_size: int = 128
    """videos per step, over all processes together"""
    seed: int = 0
    """seed of initial weights, batches, dropout and negatives"""
    selection: Literal["average", "best", "last"] = "average"
    """final weights: mean of the last epochs' snapshots, best epoch on validation, or last epoch"""
    held_out: float = 0.0
    """share of training videos that are set aside and used for validation instead of the validation split"""
    validate_every: int = 1
    """epochs between validations"""
    checkpoint_seconds: float = 30.0
    """least time between checkpoints at the ends of epochs; 0: one after every epoch"""
    checkpoint_steps: int = 0
    """steps between checkpoints inside an epoch; 0: none inside"""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """auto: bf16 where the GPU or the processor multiplies it, else fp32"""
    graphs: bool = True
    """on a GPU, capture steps as CUDA graphs and replay them"""
    compile: Literal["auto", "on", "off"] = "auto"
    """on a GPU, compile the heaviest parts of the backbone; auto: where enough steps are left to be worth it"""

    def __post_init__(self) -> None:
        try:
            require_ranges(self)
        except ValueError as problem:
            raise ConfigError(str(problem)) from None
        if self.epochs < 1 and method(self.method).trainable:
            raise ConfigError("epochs must be at least 1 in all")
        if self.witness_stage.steps and self.witness_stage.negatives < 1:
            raise ConfigError("witness_stage.negatives must be at least 1, not 0: a witness learns from them")

    @property
    def epochs(self) -> int:
        """Epochs of both phases."""
        return self.backbone_stage.epochs + self.trace_stage.epochs


def preset_names(method_name: str = "dreamprvr") -> list[str]:
    """Datasets that ship a preset for a method."""
    folder = files("prvr") / "presets" / method_name
    if not folder.is_dir():  # a method that the user added
        return []
    return sorted(p.name.removesuffix(".toml") for p in folder.iterdir() if p.name.endswith(".toml"))


def load_preset(name: str, method_name: str = "dreamprvr") -> TrainConfig:
    """A shipped preset by dataset name, or any TOML file by path.

    >>> load_preset("tvr").model.registers
    8
    """
    if name.endswith(".toml"):
        values = read_toml(Path(name), "preset")
        return config_from_dict(_with_base(values, str(values.get("method", TrainConfig.method))), name)
    return config_from_dict(_shipped(name, method_name), f"preset {name}")


def _shipped(name: str, method_name: str) -> dict[str, Any]:
    """The tables of a shipped preset."""
    if method_name not in RECIPES:
        method(method_name)
    names = preset_names(method_name)
    if name not in names:
        choices = f"There are {', '.join(names)}; or give" if names else "It ships none: give"
        hint = did_you_mean(name, names)
        raise ConfigError(f"no preset {name!r} for {method_name}.{hint} {choices} a .toml file or a dataset's folder")
    text = (files("prvr") / "presets" / method_name / f"{name}.toml").read_text("utf-8")
    return _with_base(_parse(text, f"preset {name}"), method_name)


def _with_base(values: dict[str, Any], method_name: str) -> dict[str, Any]:
    """Tables that begin with ``like = "NAME"`` change the shipped preset of that name."""
    base = values.pop("like", None)
    if base is None:
        return values
    if not isinstance(base, str):
        raise ConfigError(f"like: expected the name of a preset, found {base!r}")
    return _changed(_shipped(base, method_name), values)


def _changed(base: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    tables = {name: _changed(base[name], table) for name, table in values.items() if _are_tables(base.get(name), table)}
    return base | values | tables


def _are_tables(*values: Any) -> bool:
    return all(isinstance(value, dict) for value in values)


def config_from_dict(values: Mapping[str, Any], where: str) -> TrainConfig:
    """A configuration from nested tables.

    Args:
        values: tables and values, as TOML or JSON holds them.
        where: what the values come from, for error messages.

    Raises:
        ConfigError: a name is unknown or a value has the wrong type; the message names it.
    """
    if not isinstance(values, Mapping):
        raise ConfigError(f"{where}: expected a table, found {type(values).__name__}")
    values = dict(values)
    if "same_sentence" in values:  # of a run that an earlier version made
        values["alike"] = 1.0 if values.pop("same_sentence") == "ignored" else 0.0
    name = values.get("method", TrainConfig.method)
    try:
        model_type = method(str(name)).config_type
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from None
    model = _fill(model_type, values.pop("model", {}), f"{where} [model]")
    config = _fill(TrainConfig, values, where)
    return dataclasses.replace(config, model=model)


def config_to_dict(config: TrainConfig) -> dict[str, Any]:
    """The inverse of ``config_from_dict``: nested tables, for JSON."""
    return dataclasses.asdict(config)


def _fill(cls: type[_Config], values: Any, where: str) -> _Config:
    if not isinstance(values, Mapping):
        raise ConfigError(f"{where}: expected a table, found {type(values).__name__}")
    assert is_dataclass(cls)
    hints = get_type_hints(cls)
    names = [f.name for f in fields(cls)]
    filled: dict[str, Any] = {}
    for key, value in values.items():
        if key not in names:
            hint = did_you_mean(key, names)
            raise ConfigError(f"{where}: unknown setting {key!r}.{hint} There are: {', '.join(names)}")
        filled[key] = _convert(hints[key], value, f"{where}, {key}")
    return cls(**filled)


def _convert(hint: Any, value: Any, where: str) -> Any:
    if is_dataclass(hint) and isinstance(hint, type):
        return _fill(hint, value, where)
    choices = getattr(hint, "__args__", ())
    if get_origin(hint) is tuple:  # any number of values of one type, as in TOML and JSON lists
        if not isinstance(value, list | tuple):
            raise ConfigError(f"{where}: expected a list, found {value!r}")
        return tuple(_convert(get_args(hint)[0], item, where) for item in value)
    if choices and all(isinstance(choice, str) for choice in choices):  # Literal of words
        if value not in choices:
            raise ConfigError(f"{where}: {value!r} is not one of {', '.join(choices)}")
        return value
    kinds = tuple(choices) or (hint,)
    if float in kinds and isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise ConfigError(f"{where}: a number of {len(str(abs(value)))} digits is too large") from None
    if not any(type(value) is kind or (value is None and kind is type(None)) for kind in kinds):
        expected = " or ".join(kind.__name__ for kind in kinds)
        raise ConfigError(f"{where}: expected {expected}, found {value!r}")
    return value


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """The tables of a TOML file; ``what`` it should hold is for the error where it is missing."""
    if not path.is_file():
        raise ConfigError(f"there is no {what} file {path}")
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8 text") from None
    return _parse(text, str(path))


def _parse(text: str, where: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also numbers that are too long and nesting that is too deep
        raise ConfigError(f"{where} is not valid TOML: {error}") from None
