"""A run's folder: configuration, weights, checkpoints and metrics, each written completely or not at all.

RUN/run.json                  configuration, seed, revision, versions
RUN/metrics.jsonl             one line per epoch
RUN/checkpoints/00001234/     where training can continue: model, optimiser, progress
RUN/weights/<name>/           model.safetensors and model.json: backbone, best, last, average, epoch-0157 …
RUN/tensorboard/, wandb/      the same metrics for TensorBoard and Weights & Biases
"""

from __future__ import annotations

import json
import platform
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

import prvr
from prvr.data import Collection, has_collection
from prvr.errors import UserError
from prvr.files import (
    Busy,
    NotAnObject,
    damaged_file,
    exclusive_lock,
    read_json_object,
    recover_folders,
    whole_folder,
    write_checksums,
    write_whole,
)
from prvr.training.config import ConfigError, DataConfig, TrainConfig, config_from_dict, config_to_dict
from prvr.training.distributed import Processes
from prvr.training.model import TraceModel
from prvr.training.splits import captions_hash
from prvr.training.trained_feature import feature_in_use, find_trained_feature, recipe_changes, recorded_feature

FORMAT = 1  # of run.json and the files next to it
LOCK = ".lock"
WITNESS = "witness"  # among the weights: those of the run's witness, which no model can be made of


class RunError(UserError):
    """A run's folder cannot be used. The message says what was found and what to do."""


class Run:
    """The folder of one training run."""

    def __init__(self, path: str | Path):
        self.path = Path(path)

    # -- configuration and data ---------------------------------------------------------------------------------------

    def create(self, config: TrainConfig, data: str | Path, **about: Any) -> None:
        """Start a new run. Raises ``RunError`` where the folder already holds one.

        Args:
            config: what is trained.
            data: folder of the dataset.
            about: further entries of ``run.json``.
        """
        self.require_free()
        self.path.mkdir(parents=True, exist_ok=True)
        exists = has_collection(data, config.data.collection)  # a run may be created before its data is there
        recipes = Collection.find(data, config.data.collection, config.data.visual_feature).recipes if exists else {}
        where: dict[str, Any] = {"data": str(Path(data).resolve()), "features": recipes}
        where |= feature_in_use(data, config) | _known_captions(data, config.data)
        record = {"format": FORMAT, "config": config_to_dict(config), **where, **_provenance(), **about}
        _write_json(self.path / "run.json", record)

    @contextmanager
    def locked(self, group: Processes) -> Iterator[None]:
        """Lock the folder against other trainings inside the ``with`` block; one lock for all processes of a group."""
        self.path.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            problem = None
            if group.is_first:
                try:
                    stack.enter_context(exclusive_lock(self.path / LOCK))
                except Busy as busy:
                    problem = f"{busy.holder or 'another process'} is training in {self.path}"
            problem = group.share(problem)
            if problem is not None:
                raise RunError(f"{problem}: wait until it is done, stop it, or choose another --out")
            yield

    def require_free(self) -> None:
        """Raise ``RunError`` where the folder already holds a run."""
        if (self.path / "run.json").exists():
            resume = f"`prvr train --resume {self.path}` continues it"
            raise RunError(f"{self.path} already holds a run: {resume}, or choose another --out")

    def require_same_data(self, fingerprint: str) -> None:
        """Raise ``RunError`` where a resumed run does not find the videos and queries that it was started on.

        A run that was created before its data was read (by a sweep) remembers them from here on.
        """
        before = self.record.get("fingerprint")
        if before is None:
            _write_json(self.path / "run.json", self.record | {"fingerprint": fingerprint})
        elif before != fingerprint:
            raise RunError(f"{self.path} was started on other data ({self.data}): give that --data to resume it")

    def require_same_features(self, data: str | Path, names: DataConfig | None = None) -> None:
        """Raise ``RunError`` where features were made otherwise than those that the run was trained on.

        ``names``: collection and feature there, where they are not the run's own. Only features with a recipe can be
        compared.
        """
        c = names or self.config_for(data).data
        now = Collection.find(data, c.collection, c.visual_feature).recipes
        for what, before in self.features.items():
            changed = recipe_changes(before, now.get(what, before))
            if changed:
                changes = "; ".join(f"{name} {old!s:.60} → {new!s:.60}" for name, (old, new) in changed.items())
                raise RunError(
                    f"the {what} in {data} were not made as those that {self.path} was trained on ({changes}): "
                    "use the features of that time, or train again"
                )

    def set_data(self, data: str | Path) -> None:
        """Record where the data is now, if it was moved; and its feature and captions, if they are not known yet."""
        before, config = self.record, self.config_for(data)
        known = feature_in_use(data, config) | _known_captions(data, config.data)
        record = known | before | {"data": str(Path(data).resolve())}
        if record != before:
            _write_json(self.path / "run.json", record)

    @property
    def record(self) -> dict[str, Any]:
        """The content of ``run.json``."""
        path = self.path / "run.json"
        if not path.is_file():
            raise RunError(f"{self.path} is not a run: it has no run.json (train one with `prvr train`)")
        record = _read_json(path)
        version = record.get("format", FORMAT)
        if not isinstance(version, int) or version > FORMAT:
            versions = record.get("versions")
            made_by = versions.get("prvr", "unknown") if isinstance(versions, dict) else "unknown"
            raise RunError(
                f"{self.path} was created by a newer prvr (format {version}, version {made_by}; this is prvr "
                f"{prvr.__version__}, which reads up to format {FORMAT}): update prvr"
            )
        return record

    @property
    def config(self) -> TrainConfig:
        try:
            return config_from_dict(self.record["config"], f"{self.path}/run.json")
        except (KeyError, ConfigError) as error:
            raise RunError(f"{self.path}/run.json does not describe a run of this version: {error}") from None

    def config_for(self, data: str | Path) -> TrainConfig:
        """The configuration to read a folder with: it names the features that the run was trained on.

        Raises:
            DataError: there are several, and nothing says which of them that is.
        """
        return self.with_trained_feature(self.config, data)

    def with_trained_feature(self, config: TrainConfig, data: str | Path) -> TrainConfig:
        """A configuration with the run's features in a folder, where it leaves them to the data; as ``config_for``."""
        if config.data.visual_feature is not None:
            return config
        own = self.config
        feature = own.data.visual_feature or find_trained_feature(self.record, own, data, self.path)
        return replace(config, data=replace(config.data, visual_feature=feature))

    @property
    def visual_feature(self) -> str | None:
        """The name of the features that it was trained on; None where neither its settings nor its record has it."""
        return self.config.data.visual_feature or recorded_feature(self.record)

    @property
    def data(self) -> str:
        """Folder of the dataset."""
        data = self.record.get("data")
        if not isinstance(data, str):
            raise RunError(f"{self.path}/run.json does not say where its data is: give --data, or train again")
        return data

    @property
    def begun_in(self) -> str | None:
        """The precision that training began in, ``fp32`` or ``bf16``; None before that, and for older runs."""
        return self.record.get("precision")

    def set_begun_in(self, precision: str) -> None:
        """Record the precision that training begins in."""
        _write_json(self.path / "run.json", self.record | {"precision": precision})

    @property
    def features(self) -> dict[str, dict[str, Any]]:
        """The recipes of the features it was trained on, by ``frames`` and ``queries``, where they are known."""
        return dict(self.record.get("features", {}))

    @property
    def captions(self) -> str | None:
        """The sha256 of the training captions; None where neither the run nor its data folder has it."""
        record = self.record
        kept, data = record.get("captions"), record.get("data")
        if isinstance(kept, str):
            return kept
        return captions_hash(data, self.config.data) if isinstance(data, str) else None

    # -- weights ------------------------------------------------------------------------------------------------------

    def save_weights(self, name: str, tensors: Mapping[str, Tensor], **about: Any) -> None:
        """Write weights under a name; ``about`` goes into the JSON file next to them."""
        _write_folder(self.path / "weights" / name, {"model": tensors}, {"model": about})

    def weights(self, name: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Read weights, and what ``save_weights`` wrote about them."""
        folder = self.path / "weights" / name
        if not folder.is_dir():
            raise RunError(self._lack_of_weights(name))
        return load_tensors(folder / "model.safetensors"), _read_described(folder / "model.json")

    def _lack_of_weights(self, name: str) -> str:
        """Say that there are no weights of this name, which there are, and whether training would write them."""
        have = sorted(p.name for p in (self.path / "weights").glob("*") if p.name != WITNESS)
        if not self._is_unfinished:
            return f"{self.path} has no weights {name!r}; there are: {', '.join(have) or 'none yet'}"
        resume = shlex.join(["prvr", "train", "--resume", str(self.path)])
        unfinished = (
            f"the training of {self.path} is not finished, so it has no weights {name!r}: `{resume}` continues it"
        )
        return f"{unfinished}; `prvr eval --weights` takes what there is: {', '.join(have)}" if have else unfinished

    @property
    def _is_unfinished(self) -> bool:
        """Whether training began here and did not come to its end, which writes ``last``."""
        began = (self.path / LOCK).exists() or bool(self._checkpoints())
        return began and not self.has_weights("last")

    def has_weights(self, name: str) -> bool:
        return (self.path / "weights" / name).is_dir()

    def drop_weights(self, name: str) -> None:
        shutil.rmtree(self.path / "weights" / name, ignore_errors=True)

    def load_model(
        self, name: str | None = None, device: torch.device | str = "cpu"
    ) -> tuple[TraceModel, dict[str, Any]]:
        """The trained model, and what was written about its weights.

        Args:
            name: which weights (best, last, average, …); None: those that the configuration selects.
            device: where to put the model.
        """
        if name == WITNESS:
            raise RunError("--weights witness names no model: a run ranks with its witness if you leave out --weights")
        config = self.config
        tensors, about = self.weights(name or config.selection)
        model = TraceModel.from_config(config)
        try:
            model.load_state_dict(tensors)
        except RuntimeError as error:
            first = str(error).splitlines()[1].strip() if "\n" in str(error) else str(error)
            raise RunError(f"the weights in {self.path} do not fit its run.json: {first}") from None
        return model.to(device).eval(), about

    # -- checkpoints --------------------------------------------------------------------------------------------------

    def save_checkpoint(
        self, step: int, model: Mapping[str, Tensor], optimiser: Mapping[str, Tensor], progress: dict[str, Any]
    ) -> None:
        """Write a checkpoint and remove older ones. Killed at any time, the run still has a complete one."""
        folder = self.path / "checkpoints" / f"{step:08d}"
        _write_folder(folder, {"model": model, "optimiser": optimiser}, {"progress": progress})
        for old in self._checkpoints():
            if old != folder:
                shutil.rmtree(old, ignore_errors=True)

    def load_checkpoint(self) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Any]] | None:
        """The newest checkpoint (model, optimiser, progress); None before the first."""
        folders = self._checkpoints()
        if not folders:
            return None
        newest = folders[-1]
        return (
            load_tensors(newest / "model.safetensors"),
            load_tensors(newest / "optimiser.safetensors"),
            _read_described(newest / "progress.json"),
        )

    def clean_up(self) -> None:
        """Clean up unfinished work of a killed process. Only one process may call this."""
        for folder in ("checkpoints", "weights"):
            recover_folders(self.path / folder)

    def _checkpoints(self) -> list[Path]:
        return sorted(p for p in (self.path / "checkpoints").glob("*") if p.name.isdigit())


def _provenance() -> dict[str, Any]:
    """Versions, revision and machine that produced a result."""
    versions = {"prvr": prvr.__version__, "torch": torch.__version__, "python": platform.python_version()}
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {"revision": _revision(), "versions": versions, "machine": {"processor": platform.machine(), "gpu": gpu}}


def _revision() -> str | None:
    """The source tree's git revision; None for an installed package."""
    here = Path(__file__)
    tracked = ["git", "-C", str(here.parent), "ls-files", "--error-unmatch", here.name]
    command = ["git", "-C", str(here.parent), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        subprocess.run(tracked, capture_output=True, check=True)  # an installed copy may be inside another repository
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def _write_folder(folder: Path, tensors: Mapping[str, Mapping[str, Tensor]], records: Mapping[str, Any]) -> None:
    """Write a folder of safetensors and JSON files; it appears complete or not at all."""
    with whole_folder(folder) as partial:
        for name, values in tensors.items():
            plain = {key: value.detach().contiguous().cpu() for key, value in values.items()}
            save_file(plain, partial / f"{name}.safetensors")
        for name, value in records.items():
            _write_json(partial / f"{name}.json", value)
        write_checksums(partial)


def _write_json(path: Path, value: Any) -> None:
    write_whole(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return read_json_object(path)
    except NotAnObject as error:
        raise RunError(f"{error}: restore it from a copy, or train again") from None


def _read_described(path: Path) -> dict[str, Any]:
    """Read a JSON file that has a checksum."""
    if damaged_file(path.parent, path.name) is not None:
        raise RunError(f"{path} cannot be read (it is not what was written): restore it from a copy, or train again")
    return _read_json(path)


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Read a safetensors file of a run. Raises ``RunError`` where it is damaged."""
    try:
        if damaged_file(path.parent, path.name) is not None:
            raise OSError("its checksum differs")
        tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        raise RunError(
            f"{path} cannot be read ({error}): it is damaged or incomplete. Restore it from a copy, "
            f"or remove {path.parent} and continue with --resume"
        ) from None
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise RunError(f"{path}: {name} holds NaN or infinity: use other --weights, or train again")
    return tensors


def _known_captions(data: str | Path, names: DataConfig) -> dict[str, str]:
    """What ``run.json`` keeps of the training captions, where they are there."""
    found = captions_hash(data, names)
    return {} if found is None else {"captions": found}
