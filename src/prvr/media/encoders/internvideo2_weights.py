"""InternVideo2's published weights: found, read without executing anything, and fitted to the tower.

Its CLIP model is published in two files: the body (stage 2), and a small one with the attention pool that was trained
after it. A folder with both is read as one model; so is a single file that holds everything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from prvr.media.encoders.internvideo2_model import FRAMES, GRID, InternVideo2Tower, TowerSizes
from prvr.media.encoders.tensor_files import WEIGHT_ENDINGS, read_tensors
from prvr.media.errors import EncoderError

_PREFIX = "vision_encoder."
_PATCHES, _POSITIONS = "patch_embed.proj.weight", "pos_embed"


@dataclass(frozen=True)
class LoadedTower:
    """A model in evaluation mode, its sizes, and the files it came from."""

    model: InternVideo2Tower
    sizes: TowerSizes
    files: Sequence[Path]


def load_tower(place: Path, device: torch.device, dtype: torch.dtype) -> LoadedTower:
    """Read the tower from a file, or from the files of a folder.

    Raises:
        EncoderError: there is no such file, it holds something else, or reading it would execute code.
    """
    files = _weight_files(place)
    state = _joined({path: _tower_tensors(path) for path in files}, place)
    sizes = _sizes(state, place)
    with torch.device("meta"):
        model = InternVideo2Tower(sizes)
    state[_POSITIONS] = _positions(state, place, alone=len(files) == 1)
    expected = {name: tensor.shape for name, tensor in model.state_dict().items()}
    for name, shape in expected.items():
        if name not in state or state[name].shape != shape:
            found = tuple(state[name].shape) if name in state else "nothing"
            raise EncoderError(f"{place} is not an InternVideo2 that we know: {name} is {found}, not {tuple(shape)}.")
    model.load_state_dict({name: state[name].to(device, dtype) for name in expected}, assign=True)
    return LoadedTower(model.eval().requires_grad_(False), sizes, files)


def _weight_files(place: Path) -> list[Path]:
    if place.is_dir():
        files = sorted(path for path in place.iterdir() if path.suffix in WEIGHT_ENDINGS and path.is_file())
        if not files:
            raise EncoderError(f"{place} holds no weights: no file that ends with {', '.join(WEIGHT_ENDINGS)}.")
        return files
    if not place.is_file():
        raise EncoderError(f"There is no file or folder {place}. Give InternVideo2's weights.")
    if place.suffix not in WEIGHT_ENDINGS:
        raise EncoderError(f"{place} is no file of weights ({', '.join(WEIGHT_ENDINGS)}), nor a folder with them.")
    return [place]


def _tower_tensors(path: Path) -> dict[str, Tensor]:
    """The video tower's tensors in a file, by their names in the tower."""
    tensors = read_tensors(path)
    tower = {name.removeprefix(_PREFIX): tensor for name, tensor in tensors.items() if name.startswith(_PREFIX)}
    return tower or tensors


def _joined(parts: Mapping[Path, dict[str, Tensor]], place: Path) -> dict[str, Tensor]:
    """The body, and what the other files hold instead of parts of it."""
    bodies = [path for path, tensors in parts.items() if _PATCHES in tensors]
    if len(bodies) != 1:
        names = ", ".join(path.name for path in bodies or parts)
        found = f"{len(bodies)} video towers" if bodies else f"no video tower (no {_PATCHES})"
        raise EncoderError(f"{place} holds {found}: {names}. Expected InternVideo2's weights, of one model.")
    state = dict(parts[bodies[0]])
    for path, tensors in parts.items():
        if path != bodies[0]:
            state.update(tensors)
    return state


def _sizes(state: Mapping[str, Tensor], place: Path) -> TowerSizes:
    blocks = {name.split(".")[1] for name in state if name.startswith("blocks.")}
    try:
        width, _, frames, patch, _ = state[_PATCHES].shape
        hidden = state["blocks.0.mlp.fc1.weight"].shape[0]
        output = state["clip_projector.cross_attn.proj.weight"].shape[0]
    except (KeyError, ValueError, IndexError) as problem:
        raise EncoderError(f"{place} is not an InternVideo2 with its attention pool ({problem}).") from None
    sizes = TowerSizes(width, len(blocks), hidden, patch, output)
    if frames != 1 or not sizes.fits:
        raise EncoderError(
            f"{place} is not an InternVideo2 that we know: its patches are {tuple(state[_PATCHES].shape)}."
        )
    return sizes


def _positions(state: Mapping[str, Tensor], place: Path, *, alone: bool) -> Tensor:
    """The position table for eight frames; that of another number is interpolated in time. (1, 1 + 8·GRID², width)"""
    table = state.get(_POSITIONS)
    if table is None or table.dim() != 3 or table.shape[1] < 2 or (table.shape[1] - 1) % GRID**2:
        found = "no" if table is None else f"a {tuple(table.shape)}"
        raise EncoderError(f"{place} is not an InternVideo2 that we know: it has {found} position table.")
    if table.shape[1] == 1 + FRAMES * GRID**2:
        return table
    if alone:
        frames = (table.shape[1] - 1) // GRID**2
        raise EncoderError(
            f"{place} is the body alone (stage 2, for {frames} frames). Put it and the small file of the CLIP model, "
            "such as 1B_clip.pth, into one folder, and give that folder."
        )
    first, rest = table[:, :1].float(), table[0, 1:].float().view(-1, GRID**2, table.shape[2])  # (T, GRID², width)
    stretched = torch.nn.functional.interpolate(rest.permute(1, 2, 0), size=FRAMES, mode="linear")
    return torch.cat([first, stretched.permute(2, 0, 1).flatten(0, 1)[None]], 1)
