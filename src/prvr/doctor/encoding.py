"""Says in which type of numbers pictures are encoded on this machine: what there is, what was measured and chosen."""

from __future__ import annotations

import os

import torch

from prvr.media import (
    ENGINE_SETTING,
    SHORT_NAMES,
    EngineChoice,
    openvino_installed,
    remembered_choices,
)
from prvr.processor import cpu_name, has_bf16, has_vnni, is_x86


def encoding_types() -> list[str]:
    """Lines for people: the types of this machine, then one for each model that was measured on this processor."""
    there = "bf16 on the GPU; on the processor " if torch.cuda.is_available() else ""
    bf16 = "fp32 and bf16" if has_bf16() else "fp32 (no instructions for bf16)"
    vnni = (" (with VNNI)" if has_vnni() else " (without VNNI, so it would not be faster)") if is_x86() else ""
    torch_alone = ' by torch; faster after pip install "prvr[openvino]"'
    lines = [there + bf16 + (f", int8{vnni}, by OpenVINO" if openvino_installed() else torch_alone)]
    if setting := os.environ.get(ENGINE_SETTING):
        lines.append(f"{ENGINE_SETTING} is {setting}, whatever was measured")
    measured = [choice for choice in remembered_choices() if choice.processor == cpu_name()]
    lines += [_line(choice) for choice in measured]
    if not measured and (openvino_installed() or has_bf16()):
        lines.append("not measured yet: the first 64 pictures that a model encodes decide")
    return lines


def _line(choice: EngineChoice) -> str:
    short = {full: name for name, full in SHORT_NAMES.items()}
    return f"{short.get(choice.model, choice.model)} uses {choice}"
