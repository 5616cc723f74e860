"""The trained model of a library: a copy of the run's description and weights, so that the library needs no run.

``model-HASH/`` is a run folder with one set of weights. It is written before ``library.json``, so every library that
exists has its model.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from prvr.files import damaged_file, whole_folder, write_checksums
from prvr.library.errors import LibraryError
from prvr.media import file_hash

if TYPE_CHECKING:
    from prvr.training import Run

_WEIGHTS = "model.safetensors"


@dataclass(frozen=True)
class ModelRecord:
    """What ``library.json`` says about the library's model."""

    run: str  # where it was copied from
    method: str
    weights: str  # average, best or last
    sha256: str  # of their file

    @property
    def folder(self) -> str:
        return f"model-{self.sha256[:12]}"

    def weights_file(self, folder: Path) -> Path:
        """The weights in the folder of the library's copy of the run."""
        return folder / "weights" / self.weights / _WEIGHTS


def describe_model(run: Run) -> ModelRecord:
    """Describe the final weights of a run."""
    name = run.config.selection
    path = run.path / "weights" / name / _WEIGHTS
    run.weights(name)  # raises an error that names what is missing or damaged
    return ModelRecord(str(run.path.resolve()), run.config.method, name, file_hash(path))


def keep_model(run: Run, record: ModelRecord, library: Path) -> None:
    """Copy a run's description and weights into a library. The folder's name is their hash, so one copy is made."""
    place = library / record.folder
    if place.exists():
        return
    try:
        with whole_folder(place) as copy:
            _copy_run(run.path, record, copy)
    except OSError:
        if not place.exists():  # else another process was first
            raise


def restore_model(record: ModelRecord, library: Path) -> list[str]:
    """Copy a damaged model from its run again, if that is still there with the same weights. Returns what was done."""
    source, place = Path(record.run), library / record.folder
    if model_problem(record, place) is None or model_problem(record, source) is not None:
        return []
    with whole_folder(place) as copy:
        _copy_run(source, record, copy)
    return [f"the model was copied from {source} again"]


def _copy_run(run: Path, record: ModelRecord, copy: Path) -> None:
    shutil.copy2(run / "run.json", copy)
    shutil.copytree(run / "weights" / record.weights, copy / "weights" / record.weights)
    write_checksums(copy)


def require_model(record: ModelRecord | None, run: Run, library: str) -> None:
    """Refuse a run whose vectors cannot be compared with those in the library."""
    offered = describe_model(run)
    if record is None:
        raise LibraryError(
            f"{library} was created without a trained model, not with {run.path}: leave --model out, or create another "
            "library"
        )
    if offered.sha256 != record.sha256:
        raise LibraryError(
            f"{library} was created with the {record.method} of {record.run} (weights {record.sha256[:12]}), not with "
            f"{run.path} ({offered.method}, weights {offered.sha256[:12]}): leave --model out, or "
            "create another library"
        )


def model_problem(record: ModelRecord, folder: Path) -> str | None:
    """What is wrong with the library's copy of its model, or None."""
    path = record.weights_file(folder)
    if not path.is_file():
        return f"{path} is missing: restore it from a copy, or from {record.run}"
    wrong = path if file_hash(path) != record.sha256 else damaged_file(folder)
    return None if wrong is None else f"{wrong} is damaged: restore it from a copy, or from {record.run}"
