"""A run as the folder that model hubs know: ``model.safetensors``, ``config.json`` and the model card ``README.md``.

FOLDER/config.json             method, configuration, features and versions; the sha256 of each file of weights
FOLDER/model.safetensors       the final weights
FOLDER/backbone.safetensors    the backbone before TRACE joined, where the run has it
FOLDER/witness.safetensors     the witness, where the run has one
FOLDER/calibration.json        how sure its answers are
FOLDER/README.md               the model card (``prvr.sharing.card``)

Paths of the machine that trained it are left out. Only these files are ever read, and none of them can hold code.
"""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from prvr.errors import UserError, printable
from prvr.evaluation import describe_weights
from prvr.files import NotAnObject, read_json_object, whole_file, whole_folder, write_whole
from prvr.media import file_hash
from prvr.training import (
    ConfigError,
    Run,
    RunError,
    TraceModel,
    TrainConfig,
    config_from_dict,
    config_to_dict,
    load_run_witness,
    read_calibration,
)

FORMAT = 1  # of config.json
_LIBRARY = "prvr"  # what config.json names as the program that wrote it
CONFIG_FILE, CALIBRATION_FILE, CARD_FILE = "config.json", "calibration.json", "README.md"
MODEL_FILE, BACKBONE_FILE, WITNESS_FILE = "model.safetensors", "backbone.safetensors", "witness.safetensors"
WEIGHT_FILES = (MODEL_FILE, BACKBONE_FILE, WITNESS_FILE)
LAYOUT_FILES = (*WEIGHT_FILES, CALIBRATION_FILE, CARD_FILE, CONFIG_FILE)  # config.json last: it names the others
_LARGEST_JSON = 32_000_000  # bytes; larger ones are not read
_KEPT = (  # of run.json
    "visual_feature",
    "features",
    "fingerprint",
    "captions",
    "imported_from",
    "revision",
    "versions",
    "machine",
)
_STARTED_FROM = "started_from"


class SharingError(UserError):
    """A run cannot be shared or loaded. The message says what was found and what to do."""


@dataclass(frozen=True)
class SharedRun:
    """A run that may be shared: which of its weights, and its configuration with these as the selection."""

    run: Run
    weights: str  # average, best or last
    config: TrainConfig

    @staticmethod
    def of(run: Run, weights: str | None = None) -> SharedRun:
        """Check that a run can be shared. Raises ``SharingError`` or ``RunError`` where it cannot."""
        config = run.config
        first = getattr(config.model, "first_stage", None)
        if first is not None:
            raise SharingError(
                f"{run.path} re-orders the ranking of another run ({first}), which would be missing elsewhere: "
                "share that run, and train this method without --model.first-stage to share it"
            )
        name = weights or config.selection
        if name not in ("average", "best", "last"):
            raise SharingError(f"weights {name!r} cannot be shared: choose average, best or last")
        run.weights(name)  # raises where they are missing or damaged
        return SharedRun(run, name, replace(config, selection=name))  # type: ignore[arg-type]

    @property
    def parts(self) -> dict[str, str]:
        """Names of files and the weights they hold. Witness and calibration belong to the run's own selection."""
        found = {MODEL_FILE: self.weights}
        if self.run.has_weights("backbone"):
            found[BACKBONE_FILE] = "backbone"
        if self.is_selected and self.run.has_weights("witness"):
            found[WITNESS_FILE] = "witness"
        return found

    @property
    def is_selected(self) -> bool:
        return self.weights == self.run.config.selection

    @property
    def calibration(self) -> Path | None:
        file = self.run.path / "weights" / self.weights / CALIBRATION_FILE
        return file if self.is_selected and file.is_file() else None


def write_layout(shared: SharedRun, folder: Path, card: str) -> list[Path]:
    """Write a run into a folder for a hub; files of other names in it are left alone.

    Returns:
        the files that were written.
    """
    if folder.is_file():
        raise SharingError(f"{folder} is a file: name a folder")
    if (folder / "run.json").exists():
        raise SharingError(f"{folder} holds a run: name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    record, files, captions = shared.run.record, {}, shared.run.captions
    record |= {} if captions is None else {"captions": captions}  # older runs do not keep it; their data may tell
    for name, weights in shared.parts.items():
        source = shared.run.path / "weights" / weights
        with whole_file(folder / name) as partial:
            shutil.copyfile(source / MODEL_FILE, partial)
        about = shared.run.weights(weights)[1]
        files[name] = {"weights": weights, "sha256": file_hash(folder / name), "about": _without_path(about)}
    if shared.calibration is not None:
        write_whole(folder / CALIBRATION_FILE, shared.calibration.read_text("utf-8"))
        files[CALIBRATION_FILE] = {"sha256": file_hash(folder / CALIBRATION_FILE)}
    write_whole(folder / CARD_FILE, card)
    content = {
        "library_name": _LIBRARY,
        "format": FORMAT,
        "method": shared.config.method,
        "files": files,
        "run": {"config": config_to_dict(shared.config), **{key: record[key] for key in _KEPT if key in record}},
    }
    write_whole(folder / CONFIG_FILE, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    return [folder / name for name in (*files, CARD_FILE, CONFIG_FILE)]


def _without_path(about: Mapping[str, Any]) -> dict[str, Any]:
    """What is known about weights, without the path of a folder on this machine."""
    return {key: Path(str(value)).name if key == _STARTED_FROM else value for key, value in about.items()}


def is_layout(folder: Path) -> bool:
    """Whether a folder holds a shared run: not a run itself, and no model of another program."""
    if not (folder / CONFIG_FILE).is_file() or (folder / "run.json").exists():
        return False
    try:
        return _read_json(folder / CONFIG_FILE, str(folder)).get("library_name") == _LIBRARY
    except SharingError:
        return False


def read_layout(folder: Path, target: Path, source: str) -> Run:
    """Turn a folder of this layout into a run that every command can use.

    Args:
        folder: what was downloaded, or written by ``write_layout``.
        target: folder of the new run; where it holds one already, that is returned.
        source: where the folder comes from, for messages and for ``run.json``.

    Raises:
        SharingError: a file is missing, damaged, too large, or does not fit the others.
    """
    run = Run(target)
    if (target / "run.json").is_file():
        return run
    content = _read_json(folder / CONFIG_FILE, source)
    config, files = _checked_content(content, source)
    for name in (*WEIGHT_FILES, CALIBRATION_FILE):
        _require_file(folder, name, files, source)
    _require_shapes(folder / MODEL_FILE, config, source)
    selection = config.selection
    with whole_folder(target) as partial:
        new = Run(partial)
        for name in (name for name in WEIGHT_FILES if name in files):
            weights = {MODEL_FILE: selection, BACKBONE_FILE: "backbone", WITNESS_FILE: "witness"}[name]
            new.save_weights(weights, _tensors(folder / name, source), **files[name].get("about", {}))
        if CALIBRATION_FILE in files:
            shutil.copyfile(folder / CALIBRATION_FILE, partial / "weights" / selection / CALIBRATION_FILE)
        record = {key: value for key, value in content["run"].items() if key in _KEPT}
        record |= {"format": 1, "config": config_to_dict(config), "loaded_from": source}
        write_whole(partial / "run.json", json.dumps(record, indent=2, ensure_ascii=False) + "\n")
        _require_usable(new, source)
    return run


def _require_usable(run: Run, source: str) -> None:
    """Read everything that commands will read, so that what is wrong is found before the run has its name."""
    try:
        with torch.device("meta"), warnings.catch_warnings():  # no memory for what the witness's description claims
            warnings.simplefilter("ignore")  # torch says that no tensor was copied
            load_run_witness(run, "meta")
        _, about = run.load_model()
        read_calibration(run)
        describe_weights(run.config.selection, about, run.config)
        float(about.get("fusion_weight", 0.0))
        if not all(isinstance(recipe, dict) for recipe in run.features.values()):
            raise TypeError("its features have no recipes")
    except (RunError, LookupError, TypeError, ValueError, AttributeError, RuntimeError, NotImplementedError) as problem:
        first = next(iter(str(problem).splitlines()), "").replace(f"{run.path}/", "")
        found = f"{type(problem).__name__}: {printable(first, one_line=True)}"
        raise SharingError(f"{source} does not hold a run that can be used ({found})") from None


def _read_json(path: Path, source: str) -> dict[str, Any]:
    if not path.is_file():
        raise SharingError(f"{source} has no {path.name}: it was not written by `prvr push`")
    if path.stat().st_size > _LARGEST_JSON:
        raise SharingError(f"{path.name} of {source} is larger than {_LARGEST_JSON // 1_000_000} MB: it is not read")
    try:
        return read_json_object(path)
    except NotAnObject as problem:
        raise SharingError(f"{source}: {problem}") from None


def _checked_content(content: Mapping[str, Any], source: str) -> tuple[TrainConfig, dict[str, dict[str, Any]]]:
    if content.get("library_name") != _LIBRARY:
        raise SharingError(f"{source} holds a model of another program: prvr loads what `prvr push` has written")
    version = content.get("format")
    if not isinstance(version, int) or version > FORMAT:
        raise SharingError(f"{source} was written by a newer prvr (format {version!r}): update prvr")
    files, run = content.get("files"), content.get("run")
    if not isinstance(run, dict) or not isinstance(files, dict) or not all(map(_is_described, files.values())):
        raise SharingError(f"{CONFIG_FILE} of {source} does not describe a run: it is damaged, or was changed by hand")
    try:
        config = config_from_dict(run.get("config", {}), f"{CONFIG_FILE} of {source}")
    except ConfigError as problem:
        raise SharingError(str(problem)) from None
    if getattr(config.model, "first_stage", None) is not None:
        raise SharingError(f"{source} needs a run of the machine that made it: it cannot be loaded")
    return config, {name: about for name, about in files.items() if name in LAYOUT_FILES}


def _is_described(file: Any) -> bool:
    """Whether what is said of a file is a table, with a table of what is known about its weights."""
    about = file.get("about", {}) if isinstance(file, dict) else None
    return isinstance(about, dict) and not {"name", "tensors"} & about.keys()  # what ``Run.save_weights`` calls its own


def _require_file(folder: Path, name: str, files: Mapping[str, Mapping[str, Any]], source: str) -> None:
    path = folder / name
    if name not in files and name != MODEL_FILE:
        return
    if not path.is_file():
        raise SharingError(f"{source} has no {name}: it is incomplete, or holds pickles, which are not read")
    if name == CALIBRATION_FILE:
        _read_json(path, source)
    if file_hash(path) != files.get(name, {}).get("sha256"):
        raise SharingError(f"{name} of {source} is not what {CONFIG_FILE} names: it is damaged or was replaced")


def _require_shapes(path: Path, config: TrainConfig, source: str) -> None:
    """Compare names and shapes before memory is taken for a model as large as a configuration claims."""
    try:
        with torch.device("meta"):
            model = TraceModel.from_config(config)
        expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
        with safe_open(path, "pt") as stored:
            found = {name: tuple(stored.get_slice(name).get_shape()) for name in stored.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as problem:
        raise SharingError(f"{path.name} of {source} cannot be read ({problem}): fetch or write it again") from None
    except (ConfigError, RuntimeError, OverflowError) as problem:
        raise SharingError(f"{CONFIG_FILE} of {source} describes no model that can be built: {problem}") from None
    differing = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
    if differing:
        raise SharingError(f"the weights of {source} do not fit its {CONFIG_FILE}: {differing[0]} differs")


def _tensors(path: Path, source: str) -> dict[str, torch.Tensor]:
    try:
        with safe_open(path, "pt") as stored:
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as problem:
        raise SharingError(f"{path.name} of {source} cannot be read ({problem}): fetch or write it again") from None
    broken = [name for name, tensor in tensors.items() if tensor.is_floating_point() and not tensor.isfinite().all()]
    if broken:
        raise SharingError(f"{path.name} of {source}: {broken[0]} holds NaN or infinity")
    return tensors
