"""Tensors of a weight file, read without executing anything that is in it."""

from __future__ import annotations

import re
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from prvr.media.errors import EncoderError

WEIGHT_ENDINGS = (".safetensors", ".pt", ".pth")


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors by name; of a training's file, those of its model.

    Raises:
        EncoderError: the file holds something else, or reading it would execute code.
    """
    content = _read(path)
    for name in ("module", "model"):
        content = content[name] if isinstance(content, Mapping) and isinstance(content.get(name), Mapping) else content
    if not isinstance(content, Mapping):
        raise EncoderError(f"{path} holds a {type(content).__name__}, not a model's weights.")
    tensors = {str(name): tensor for name, tensor in content.items() if isinstance(tensor, Tensor)}
    for name, tensor in tensors.items():
        if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
            raise EncoderError(f"{path}: {name} claims more numbers than are stored. Download it again.")
    return tensors


def _read(path: Path) -> Any:
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        mapped = zipfile.is_zipfile(path)  # older files are read as a whole
        if mapped:
            _require_stored(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns about a file's form before it refuses the file
            return torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except EncoderError:
        raise
    except Exception as problem:  # damaged input raises many types of errors
        named = re.search(r"GLOBAL ([\w.]+)", str(problem))
        if named:
            raise EncoderError(
                f"{path} names code that loading it would execute ({named[1]}): refused. Use the authors' own file, or "
                "a .safetensors copy."
            ) from None
        raise EncoderError(f"{path} cannot be read as weights: it is damaged, or another kind of file.") from problem


def _require_stored(path: Path) -> None:
    """Refuse an archive that grows in memory: torch stores entries as they are."""
    with zipfile.ZipFile(path) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > path.stat().st_size:
            raise EncoderError(f"{path} claims more than it holds. Download it again.")
