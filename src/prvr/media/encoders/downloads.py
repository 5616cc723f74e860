"""Fetching an encoder's weights: first what and how much, then, if that is wanted, the download."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from prvr.media.encoders.hashes import file_hash, record_hashes
from prvr.media.encoders.weights import require_hub
from prvr.media.errors import EncoderError

_WANTED = (".safetensors", ".json", ".txt", ".model")
_UNWANTED = ("onnx/", "openvino/", "flax_", "tf_")  # other runtimes' copies of the same weights


@dataclass(frozen=True)
class DownloadPlan:
    """What would be fetched."""

    name: str
    revision: str
    files: Mapping[str, int]  # name -> bytes
    hashes: Mapping[str, str] = field(default_factory=dict)  # name -> sha256, where the hub knows it

    @property
    def bytes(self) -> int:
        return sum(self.files.values())


def plan_download(name: str) -> DownloadPlan:
    """Ask the hub what a model's files are; fetches nothing else."""
    hub = require_hub()
    try:
        about = hub.HfApi().model_info(name, files_metadata=True)
    except Exception as problem:  # the hub's client raises whatever its network library does
        first = str(problem).strip().splitlines()[0] if str(problem).strip() else type(problem).__name__
        raise EncoderError(
            f"the hub could not be asked about {name} ({type(problem).__name__}: {first}). Is the name right? Is there "
            "a network? On a machine without one, give a folder that holds the model instead of its name."
        ) from problem
    chosen = [s for s in about.siblings if s.rfilename.endswith(_WANTED) and not s.rfilename.startswith(_UNWANTED)]
    if not any(s.rfilename.endswith(".safetensors") for s in chosen):
        raise EncoderError(f"{name} is published without .safetensors files; pickled weights are not read")
    hashes = {s.rfilename: s.lfs.sha256 for s in chosen if getattr(s, "lfs", None)}
    return DownloadPlan(name, about.sha, {s.rfilename: int(s.size or 0) for s in chosen}, hashes)


def download(plan: DownloadPlan) -> Path:
    """Fetch what was planned, compare hashes and note them beside the files; returns the folder.

    Can be interrupted and repeated. From here on the files are compared with the note whenever they are loaded.
    """
    hub = require_hub()
    folder = Path(hub.snapshot_download(plan.name, revision=plan.revision, allow_patterns=list(plan.files)))
    for name, expected in plan.hashes.items():
        found = file_hash(folder / name)
        if found != expected:
            raise EncoderError(
                f"{folder / name} has sha256 {found}, the hub says {expected}: delete it and fetch again"
            )
    record_hashes(folder, plan.files, plan.revision)
    return folder
