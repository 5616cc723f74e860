"""Tensors of a weight file, read without executing anything that is in it."""

from __future__ import annotations

import pickletools
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
_WEIGHT_TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


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
    return {str(name): tensor for name, tensor in content.items() if isinstance(tensor, Tensor)}


def fit_tensors(tensors: Mapping[str, Tensor], expected: Mapping[str, Tensor], otherwise: str) -> dict[str, Tensor]:
    """The tensors that a model expects, in its order; ``otherwise`` says what it means that one does not fit.

    Raises:
        EncoderError: one is missing, has another shape, or is not made of plain numbers.
    """
    for name, wanted in expected.items():
        found, tensor = "", tensors.get(name)
        if tensor is None:
            found = "missing"
        elif tensor.layout != torch.strided or tensor.dtype not in _WEIGHT_TYPES or tensor.is_meta:
            found = f"no plain table of floating-point numbers ({tensor.dtype}, {tensor.layout}, {tensor.device})"
        elif tensor.shape != wanted.shape:
            found = f"{tuple(tensor.shape)}, not {tuple(wanted.shape)}"
        elif tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
            found = "said to hold more numbers than are stored; download it again"
        if found:
            raise EncoderError(f"{otherwise}: {name} is {found}.")
    return {name: tensors[name] for name in expected}


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
        code = named[1] if named else _named_code(path)
        if code:
            raise EncoderError(
                f"{path} names code that loading it would execute ({code}): refused. Use the authors' own file, or a "
                ".safetensors copy."
            ) from None
        raise EncoderError(f"{path} cannot be read as weights: it is damaged, or another kind of file.") from problem


def _named_code(path: Path) -> str | None:
    """The first function that a plain pickle names, found without executing it; torch says that of its own files."""
    texts: list[str] = []
    try:
        with path.open("rb") as file:
            for operation, argument, _ in pickletools.genops(file):
                if operation.name == "GLOBAL":
                    return str(argument).replace(" ", ".")
                if operation.name == "STACK_GLOBAL":
                    return ".".join(texts[-2:])
                texts += [argument] if isinstance(argument, str) else []
    except Exception:  # it is no pickle, or a damaged one
        return None
    return None


def _require_stored(path: Path) -> None:
    """Refuse an archive that grows in memory: torch stores entries as they are."""
    with zipfile.ZipFile(path) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > path.stat().st_size:
            raise EncoderError(f"{path} claims more than it holds. Download it again.")
