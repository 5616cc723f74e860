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

_WEIGHTS, _WITNESS = "model.safetensors", "witness"


@dataclass(frozen=True)
class ModelRecord:
    """What ``library.json`` says about the library's model."""

    run: str  # where it was copied from
    method: str
    weights: str  # average, best or last
    sha256: str  # of their file
    witness: str = ""  # sha256 of the weights of its witness; "" if it has none

    @property
    def name(self) -> str:
        """Differs between two models."""
        return f"{self.sha256}-{self.witness}" if self.witness else self.sha256

    @property
    def folder(self) -> str:
        return "-".join(["model", self.sha256[:12], *([self.witness[:12]] if self.witness else [])])

    def files(self, folder: Path) -> dict[Path, str]:
        """The weights in the folder of a run, and their hashes."""
        known = {self.weights: self.sha256, **({_WITNESS: self.witness} if self.witness else {})}
        return {folder / "weights" / name / _WEIGHTS: hashed for name, hashed in known.items()}


def describe_model(run: Run) -> ModelRecord:
    """Describe the final weights of a run."""
    name = run.config.selection
    hashes = []
    for each in (name, *([_WITNESS] if run.has_weights(_WITNESS) else [])):
        run.weights(each)  # raises an error that names what is missing or damaged
        hashes.append(file_hash(run.path / "weights" / each / _WEIGHTS))
    return ModelRecord(str(run.path.resolve()), run.config.method, name, *hashes)


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
    for path in record.files(run):
        shutil.copytree(path.parent, copy / "weights" / path.parent.name)
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
    files = record.files(folder)
    for path in files:
        if not path.is_file():
            return f"{path} is missing: restore it from a copy, or from {record.run}"
    changed = (path for path, hashed in files.items() if file_hash(path) != hashed)
    wrong = next(changed, None) or damaged_file(folder)
    return None if wrong is None else f"{wrong} is damaged: restore it from a copy, or from {record.run}"
