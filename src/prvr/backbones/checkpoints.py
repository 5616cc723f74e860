"""Read the authors' checkpoint files, which are pickles, without running any code in them.

Only tensors and plain containers are rebuilt. A few class names that the released files are known to carry (a schedule
inside the optimiser's state, an attribute dictionary) are read as empty stand-ins. A file that names any other class is
refused before it is unpickled.
"""

from __future__ import annotations

import re
import warnings
import zipfile
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from prvr.backbones.official import CheckpointMismatch
from prvr.files import NotAnObject, read_json_object

_STATE_NAMES = ("state_dict", "model", "model_state_dict")
_CONFIG_NAMES = ("config", "model_cfg", "cfg", "opt")


class OfficialCheckpoint(NamedTuple):
    """The content of a checkpoint that is used."""

    state_dict: dict[str, Tensor]
    config: dict[str, Any]  # the authors' hyper-parameter names; empty where the file has none
    epoch: int | None


class _Inert:
    """Takes the place of a class of the authors' training code and ignores its state."""

    def __setstate__(self, state: Any) -> None:
        pass


_STAND_INS: dict[str, type] = {  # module of a released source tree -> what its classes are read as
    "Opts.optimization.": _Inert,  # the learning-rate schedule inside the optimiser's state
    "easydict.": OrderedDict,  # MS-SL's model configuration
}


def read_official_checkpoint(path: str | Path, config: str | Path | None = None) -> OfficialCheckpoint:
    """State dict and hyper-parameters of an authors' ``.ckpt`` or ``.pth``.

    Args:
        path: the checkpoint. An ``opt.json`` next to it is read too.
        config: a JSON file with hyper-parameters, which override the checkpoint and ``opt.json``.
    """
    path = Path(path)
    content = _load(path)
    if not isinstance(content, Mapping):
        raise CheckpointMismatch(f"{path} holds a {type(content).__name__}, expected a dictionary with a state dict")
    state = next((content[name] for name in _STATE_NAMES if isinstance(content.get(name), Mapping)), content)
    tensors = {str(name): value for name, value in state.items() if isinstance(value, Tensor)}
    for name, tensor in tensors.items():
        if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
            raise CheckpointMismatch(f"{path}: {name} claims shape {tuple(tensor.shape)}, but fewer numbers are stored")
    if not tensors:
        raise CheckpointMismatch(f"{path} has no tensors under {', '.join(_STATE_NAMES)}: is it a model checkpoint?")
    found: Mapping[str, Any] = next(
        (content[name] for name in _CONFIG_NAMES if isinstance(content.get(name), Mapping)), {}
    )
    beside = path.with_name("opt.json")
    hyper = (
        dict(found) | (_read_json(beside) if beside.is_file() else {}) | (_read_json(Path(config)) if config else {})
    )
    epoch = content.get("epoch")
    return OfficialCheckpoint(tensors, hyper, int(epoch) if isinstance(epoch, int | float) else None)


def _load(path: Path) -> Any:
    if not path.is_file():
        raise CheckpointMismatch(f"there is no file {path}")
    try:
        zipped = zipfile.is_zipfile(path)
    except zipfile.BadZipFile:  # it looks like one, but is damaged
        zipped = False
    if not zipped:
        return _load_old(path)
    _require_plain_entries(path)
    try:
        named = torch.serialization.get_unsafe_globals_in_checkpoint(str(path))
        stand_ins = [(kind, name) for name in named for module, kind in _STAND_INS.items() if name.startswith(module)]
        foreign = sorted(set(named) - {name for _, name in stand_ins})
        if foreign:
            raise CheckpointMismatch(f"{path} names code that loading it would run ({', '.join(foreign)}): refused")
        with torch.serialization.safe_globals(list(stand_ins)):
            return torch.load(path, map_location="cpu", weights_only=True)
    except CheckpointMismatch:
        raise
    except Exception as error:  # damaged input raises many types of errors
        raise CheckpointMismatch(f"{path} cannot be read as a checkpoint: {error}") from None


def _require_plain_entries(path: Path) -> None:
    """Refuse an archive that grows in memory: torch stores entries as they are, one after the other."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise CheckpointMismatch(f"{path} cannot be read as a checkpoint: {error}") from None
    packed = [entry.filename for entry in entries if entry.compress_type != zipfile.ZIP_STORED]
    if packed:
        raise CheckpointMismatch(f"{path} holds compressed entries ({packed[0]} …), which torch never writes: refused")
    claimed, size = sum(entry.file_size for entry in entries), path.stat().st_size
    if claimed > size:
        raise CheckpointMismatch(f"{path} has {size:,} bytes, but its entries claim {claimed:,}: refused")


def _load_old(path: Path) -> Any:
    """Read a file of torch < 1.6, which is not a zip archive, by the same restricted reader, without stand-ins."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the reader warns about pickle protocols before it refuses a file
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # as above
        named = re.search(r"GLOBAL ([\w.]+)", str(error))
        if named:
            raise CheckpointMismatch(f"{path} names code that loading it would run ({named[1]}): refused") from None
        raise CheckpointMismatch(
            f"{path} is not a checkpoint that can be read safely: it is neither a zip archive as torch writes them, "
            "nor the older format. It may be incomplete, or another kind of file"
        ) from None


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return read_json_object(path)
    except NotAnObject as error:
        raise CheckpointMismatch(str(error)) from None
