"""Download an encoder's weights: first ask what and how much, then fetch it.

plan = plan_download("google/siglip2-base-patch16-224")     # asks the hub, downloads nothing
print(plan.bytes, list(plan.files))
folder = download(plan)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from prvr.media.encoders.hashes import file_hash, record_hashes
from prvr.media.encoders.presets import find_preset
from prvr.media.errors import EncoderError
from prvr.media.packages import require_hub

_SUFFIXES = (".safetensors", ".json", ".txt", ".model")
_LOADED = re.compile(r"model(-\d+-of-\d+)?\.safetensors")  # what `transformers` reads
_OTHER_RUNTIMES = ("onnx/", "openvino/", "flax_", "tf_")  # copies of the same weights


@dataclass(frozen=True)
class DownloadPlan:
    """The files of a model on the hub."""

    name: str
    revision: str
    files: Mapping[str, int]  # name -> bytes
    hashes: Mapping[str, str] = field(default_factory=dict)  # name -> sha256, where the hub states it

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(self.files.values())


def plan_download(name: str) -> DownloadPlan:
    """Ask the hub for the files of a model, given by its short name or hub name. Downloads nothing.

    Raises:
        EncoderError: the hub cannot be reached or does not know the model, or its weights are pickles.
    """
    hub = require_hub()
    preset = find_preset(name)
    name, revision = (preset.hub, preset.revision) if preset is not None else (name, None)
    try:
        about = hub.HfApi().model_info(name, revision=revision, files_metadata=True)
    except Exception as problem:  # the hub's client raises whatever its network library does
        first = str(problem).strip().splitlines()[0] if str(problem).strip() else type(problem).__name__
        raise EncoderError(
            f"The hub did not answer for {name} ({type(problem).__name__}: {first}). Check the name and the network. "
            "On a machine without a network, give a folder that holds the model instead of its name."
        ) from problem
    chosen = [
        file
        for file in about.siblings
        if file.rfilename.endswith(_SUFFIXES) and not file.rfilename.startswith(_OTHER_RUNTIMES)
    ]
    weights = [file for file in chosen if file.rfilename.endswith(".safetensors")]
    if not weights:
        raise EncoderError(f"{name} is published without .safetensors files. Pickled weights are not read.")
    loaded = [file for file in weights if _LOADED.fullmatch(file.rfilename)]
    if loaded:  # the others are copies for other programs
        chosen = [file for file in chosen if file in loaded or file not in weights]
    hashes = {file.rfilename: file.lfs.sha256 for file in chosen if getattr(file, "lfs", None)}
    return DownloadPlan(name, about.sha, {file.rfilename: int(file.size or 0) for file in chosen}, hashes)


def download(plan: DownloadPlan) -> Path:
    """Download the files, compare them with the hub's hashes and record these next to them; returns the folder.

    It can be interrupted and repeated. The files are compared with the record whenever the model is loaded.

    Raises:
        EncoderError: a file does not have the hash that the hub states.
    """
    hub = require_hub()
    folder = Path(hub.snapshot_download(plan.name, revision=plan.revision, allow_patterns=list(plan.files)))
    hashes = {name: file_hash(folder / name) for name in plan.files}
    for name, expected in plan.hashes.items():
        if hashes[name] != expected:
            raise EncoderError(
                f"{folder / name} has sha256 {hashes[name]}, but the hub states {expected}. Delete it and download the "
                "model again."
            )
    record_hashes(folder, hashes, plan.revision)
    return folder
