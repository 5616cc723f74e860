"""Galleries on disk: a folder of plain arrays that can be written as a stream and mapped into memory.

``gallery.json`` says what each array holds; ``NAME.bin`` is its bytes. The folder appears when it is complete.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor

from prvr import __version__
from prvr.files import whole_folder
from prvr.scoring.mapped import GalleryError, array_bytes, map_bytes

FORMAT = "prvr-gallery-2"
_ABOUT = "gallery.json"


@dataclass
class GalleryRecord:
    """A gallery, or a run of its videos, as named arrays. Arrays grow along their first axis; shared ones do not."""

    about: dict[str, Any]
    ids: list[str]
    arrays: dict[str, Tensor]
    shared: dict[str, Tensor] = field(default_factory=dict)


def write_gallery(path: str | Path, parts: Iterator[GalleryRecord]) -> None:
    """Write parts one after another. Only one part is held at a time."""
    first = next(parts, None)
    if first is None:
        raise ValueError("no videos were given to build a gallery from")
    with whole_folder(Path(path)) as folder:
        files = {name: open(folder / f"{name}.bin", "wb") for name in first.arrays}  # noqa: SIM115 (closed below)
        try:
            described = _append_all(files, first, parts)
        finally:
            for file in files.values():
                file.close()
        for name, tensor in first.shared.items():
            with open(folder / f"{name}.bin", "wb") as file:
                file.write(raw_bytes(tensor))
        shared = {name: describe_array(tensor) for name, tensor in first.shared.items()}
        about = {"format": FORMAT, "made_by": __version__, **described, "shared": shared}
        (folder / _ABOUT).write_text(json.dumps(about))


def _append_all(files: Mapping[str, IO[bytes]], first: GalleryRecord, rest: Iterator[GalleryRecord]) -> dict[str, Any]:
    arrays = {name: describe_array(tensor) for name, tensor in first.arrays.items()}
    for described in arrays.values():
        described["shape"][0] = 0
    ids: list[str] = []
    part: GalleryRecord | None = first
    while part is not None:
        if part.arrays.keys() != arrays.keys() or part.about != first.about:
            raise ValueError("parts of one gallery differ in what they hold: build them with the same model")
        require_same_shared(first, part)
        for name, tensor in part.arrays.items():
            found, expected = describe_array(tensor), arrays[name]
            if found["dtype"] != expected["dtype"] or found["shape"][1:] != expected["shape"][1:]:
                raise ValueError(f"parts of one gallery differ in {name!r}: found {found}, expected {expected}")
            files[name].write(raw_bytes(tensor))
            arrays[name]["shape"][0] += len(tensor)
        ids += part.ids
        part = next(rest, None)
    return {"about": first.about, "arrays": arrays, "ids": ids}


def require_same_shared(first: GalleryRecord, other: GalleryRecord) -> None:
    """Refuse parts whose shared arrays differ: a joined gallery is scored with those of the first."""
    for name in first.shared.keys() | other.shared.keys():
        one, two = first.shared.get(name), other.shared.get(name)
        if one is not two and (one is None or two is None or not torch.equal(one.to(two), two)):
            raise ValueError(f"galleries differ in {name!r}: they were made by different models")


def read_gallery(path: str | Path) -> GalleryRecord:
    """Map a written gallery."""
    folder = Path(path)
    try:
        about = json.loads((folder / _ABOUT).read_text())
    except FileNotFoundError:
        raise GalleryError(f"{folder} is not a gallery: it has no {_ABOUT}") from None
    except (ValueError, RecursionError, NotADirectoryError) as error:
        raise GalleryError(f"{folder} is not a gallery of this version ({error}): rebuild it") from None
    found = about.get("format") if isinstance(about, dict) else None
    if found != FORMAT:
        made_by = about.get("made_by", "unknown") if isinstance(about, dict) else "unknown"
        raise GalleryError(
            f"{folder} is not a gallery of this version (found {found!r}, made by prvr {made_by}; expected {FORMAT!r}, "
            f"this is prvr {__version__}): rebuild it, or update prvr if it is newer"
        )
    try:
        arrays = {name: map_tensor(folder / f"{name}.bin", described) for name, described in about["arrays"].items()}
        shared = {name: map_tensor(folder / f"{name}.bin", described) for name, described in about["shared"].items()}
        return GalleryRecord(about["about"], about["ids"], arrays, shared)
    except GalleryError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError, RuntimeError, OSError) as error:
        raise GalleryError(
            f"{folder / _ABOUT} does not describe a gallery ({type(error).__name__}: {error}): rebuild it"
        ) from None


def describe_array(tensor: Tensor) -> dict[str, Any]:
    return {"dtype": str(tensor.dtype).removeprefix("torch."), "shape": list(tensor.shape)}


def raw_bytes(tensor: Tensor) -> memoryview:
    return array_bytes(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())


def map_tensor(path: Path, described: dict[str, Any]) -> Tensor:
    """A tensor mapped into memory; ``described`` is what ``describe_array`` returned."""
    dtype, shape = getattr(torch, described["dtype"]), described["shape"]
    mapped = map_bytes(path, torch.Size(shape).numel() * dtype.itemsize, growing=False)
    return torch.from_numpy(mapped).view(dtype).view(shape)
