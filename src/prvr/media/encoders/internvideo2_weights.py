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
from prvr.media.encoders.tensor_files import WEIGHT_ENDINGS, fit_tensors, read_tensors
from prvr.media.errors import EncoderError

_PREFIX = "vision_encoder."
_PATCHES, _POSITIONS = "patch_embed.proj.weight", "pos_embed"
_HIDDEN, _OUTPUT = "blocks.0.mlp.fc1.weight", "clip_projector.cross_attn.proj.weight"


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
    positions = _require_positions(state, place, sizes.width, alone=len(files) == 1)
    expected = model.state_dict() | {_POSITIONS: positions}  # of any number of frames
    fitted = fit_tensors(state, expected, f"{place} is not an InternVideo2 that we know")
    fitted[_POSITIONS] = _stretched(fitted[_POSITIONS])
    model.load_state_dict({name: tensor.to(device, dtype) for name, tensor in fitted.items()}, assign=True)
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
    for name, dimensions in ((_PATCHES, 5), (_HIDDEN, 2), (_OUTPUT, 2)):
        if name not in state or state[name].dim() != dimensions:
            found = tuple(state[name].shape) if name in state else "missing"
            raise EncoderError(f"{place} is not an InternVideo2 with its attention pool: {name} is {found}.")
    width, _, frames, patch, _ = state[_PATCHES].shape
    blocks = {name.split(".")[1] for name in state if name.startswith("blocks.")}
    sizes = TowerSizes(width, len(blocks), state[_HIDDEN].shape[0], patch, state[_OUTPUT].shape[0])
    if frames != 1 or not sizes.fits:
        raise EncoderError(
            f"{place} is not an InternVideo2 that we know: its patches are {tuple(state[_PATCHES].shape)}, its "
            f"feed-forward parts {sizes.hidden} and its vectors {sizes.output} wide."
        )
    return sizes


def _require_positions(state: Mapping[str, Tensor], place: Path, width: int, *, alone: bool) -> Tensor:
    """The position table as it is. One of another number of frames is a body's, whose pool is in a second file."""
    table = state.get(_POSITIONS)
    shape = () if table is None else tuple(table.shape)
    frames, rest = divmod(shape[1] - 1, GRID**2) if len(shape) == 3 else (0, 0)
    if table is None or shape != (1, 1 + frames * GRID**2, width) or frames < 1 or rest:
        found = "no" if table is None else f"a {shape}"
        raise EncoderError(f"{place} is not an InternVideo2 that we know: it has {found} position table.")
    if alone and frames != FRAMES:
        raise EncoderError(
            f"{place} is the body alone (stage 2, for {frames} frames). Put it and the small file of the CLIP model, "
            "such as 1B_clip.pth, into one folder, and give that folder."
        )
    return table


def _stretched(table: Tensor) -> Tensor:
    """A position table for eight frames; that of another number is interpolated in time. (1, 1 + 8·GRID², width)"""
    if table.shape[1] == 1 + FRAMES * GRID**2:
        return table
    first, rest = table[:, :1].float(), table[0, 1:].float().view(-1, GRID**2, table.shape[2])  # (T, GRID², width)
    stretched = torch.nn.functional.interpolate(rest.permute(1, 2, 0), size=FRAMES, mode="linear")
    return torch.cat([first, stretched.permute(2, 0, 1).flatten(0, 1)[None]], 1)
