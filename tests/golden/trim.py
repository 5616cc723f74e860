"""Make the small fixtures beside this file from the full golden folders: ``python tests/golden/trim.py FOLDER``,
for some methods only: ``python tests/golden/trim.py FOLDER METHOD …``

The full ones hold ``weights.safetensors``, ``io.safetensors`` and ``config.json`` per method. To stay under 1 MB each,
tensors that no test reads are dropped, where a method needs it the largest weights lose five bits of mantissa (relative
1e-6, far inside the tolerances), and everything is compressed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

HERE = Path(__file__).parent
TRUNK = (
    "in.", "alt.in.", "alt.frame.vector", "alt.score.", "query.vector", "clip.encoded", "score.", "loss.", "grad.",
    "train.", "evalrun.fused", "evalrun.query_order",
)  # fmt: skip
RULES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {  # method: (io kept, by prefix; what may be rounded)
    "trace": (("",), ()),
    "dreamprvr": (
        (
            "in.", "out.", "short.", "loss.", "grad.norm", "grad.denoise_norm", "triplet_rand.", "train.losses",
            "optim.", "reg.registers", "reg.cond", "pvs.mu", "pvs.logvar", "pvs.gpo_weights", "perturb.eps",
            "perturb.x_start", "dif.table.", "c.branch_mean", "f.branch_mean", "c.agg_logits", "score_case.",
        ),
        ("weights:clip_encoder", "weights:frame_encoder"),
    ),
    "clip4clip": (("",), ()),
    "xml": (("",), ()),
    "cap4video": (("",), ()),
    "conquer": (("",), ()),
    "gmmformer": ((*TRUNK, "frame.vector", "gauss.L1.", "gauss.L2.", "gauss.L7.", "gauss.L32.", "optim."), ()),
    "gmmformer_v2": ((*TRUNK, "frame.encoded", "clip.branch_", "gauss.L32.w0.1"), ()),
    "mssl": ((*TRUNK, "frame.encoded", "alt.frame.encoded"), ()),
    "msc_prvr": (
        (
            "in.", "query.vector", "query.teacher", "clip.attention0", "clip.encoded", "frame.encoded", "one", "score.",
            "align", "loss.", "grad.", "train.", "triplet_rand.", "prep.", "rkd_case.", "evalrun.fused",
            "evalrun.query_order", "optim.",
        ),
        ("weights:clip_encoder", "weights:frame_encoder"),
    ),
    "ral": (
        ("in.", "out.", "prob.", "loss.", "grad.", "train.", "optim."),
        ("weights:clip_encoder", "weights:frame_encoder"),
    ),
    "uem": (
        (
            "in.", "out.", "event.", "full.in.", "full.out.", "loss.", "grad.norm", "train.losses", "train.delta",
            "seg_case.", "score_case.", "optim.",
        ),
        (),
    ),
    "hlformer": (
        (
            "in.", "out.", "short.", "loss.", "grad.norm", "grad.pop_norm", "triplet_rand.", "train.losses", "optim.",
            "one_index", "c.h0.", "f.h1.", "c.branches", "f.branches", "c.agg_logits", "hyp.", "pop_case.",
        ),
        ("weights:clip_encoder", "weights:frame_encoder"),
    ),
    "holmes": (
        (
            "in.", "out.", "short.", "loss.", "grad.warm.norm", "grad.post.norm", "triplet_rand.", "train.losses",
            "optim.", "one_index", "c.branches", "f.branches", "c.agg_logits", "ot.", "ot_case.", "warm.", "post.",
            "case.",
        ),
        ("weights:clip_encoder", "weights:frame_encoder"),
    ),
}  # fmt: skip
CONFIG_KEYS_DROPPED = (
    "tensors", "fp32_vs_fp64_max_abs_diff", "float32_vs_float64", "hyper", "loss", "seeds", "note", "what", "weights_shapes", "io_shapes",
)  # fmt: skip


def rounded(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """float32 with the last 5 bits of the mantissa rounded away, so that they compress to nothing."""
    bits = array.astype("<f4").view("<u4")
    return ((bits + np.uint32(0x10)) & np.uint32(0xFFFFFFE0)).view("<f4")


def planes(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Bytes of numbers by significance: equal-looking bytes side by side compress better."""
    return np.ascontiguousarray(array.view(np.uint8).reshape(-1, array.itemsize).T)


def save(name: str, config: dict[str, Any], tensors: dict[str, Any], rough: tuple[str, ...]) -> None:
    """One array of bytes per kind of number, and an index into them."""
    index: list[tuple[str, str, tuple[int, ...]]] = []
    parts: dict[str, list[np.ndarray[Any, Any]]] = {"rough": [], "float32": [], "float64": [], "int64": []}
    for key, value in tensors.items():
        kind = "rough" if value.dtype == np.float32 and key.startswith(rough) else str(value.dtype)
        parts[kind].append((rounded(value) if kind == "rough" else value).reshape(-1))
        index.append((key, kind, value.shape))
    packed = {kind: planes(np.concatenate(values)) for kind, values in parts.items() if values}
    path = HERE / f"{name}.npz"
    np.savez_compressed(path, index=np.array(json.dumps({"config": config, "tensors": index})), **packed)
    print(f"{path.name}: {path.stat().st_size / 1e3:.0f} kB")


def main(source: Path, methods: list[str]) -> None:
    for method in methods or RULES:
        kept, rough = RULES[method]
        folder = source / method
        config = json.loads((folder / "config.json").read_text())
        config = {key: value for key, value in config.items() if key not in CONFIG_KEYS_DROPPED}
        tensors = {key: value for key, value in load_file(folder / "io.safetensors").items() if key.startswith(kept)}
        if (folder / "weights.safetensors").exists():
            weights = load_file(folder / "weights.safetensors")
            tensors |= {f"weights:{key}": value for key, value in weights.items()}
        save(method, config, tensors, rough)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
