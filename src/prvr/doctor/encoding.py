"""Says in which type of numbers pictures are encoded on this machine: what there is, what was measured and chosen."""

from __future__ import annotations

import os

import torch

from prvr.media import (
    ENGINE_SETTING,
    SHORT_NAMES,
    EngineChoice,
    cpu_name,
    has_vnni,
    int8_installed,
    is_x86,
    processor_types,
    remembered_choices,
)


def encoding_types() -> list[str]:
    """Lines for people: the types of this machine, then one for each model that was measured on this processor."""
    there = "bf16 on the GPU; on the processor " if torch.cuda.is_available() else ""
    bf16 = "fp32 and bf16" if "bf16" in processor_types() else "fp32 (no instructions for bf16)"
    vnni = " (with VNNI)" if has_vnni() else " (without VNNI, which makes it fast)"
    int8 = f"int8{vnni if is_x86() else ''}" + ("" if int8_installed() else ' after pip install "prvr[int8]"')
    lines = [f"{there}{bf16}, {int8}"]
    if setting := os.environ.get(ENGINE_SETTING):
        lines.append(f"{ENGINE_SETTING} is {setting}, whatever was measured")
    measured = [choice for choice in remembered_choices() if choice.processor == cpu_name()]
    lines += [_line(choice) for choice in measured]
    if not measured and (int8_installed() or "bf16" in processor_types()):
        lines.append("not measured yet: the first 64 pictures that a model encodes decide")
    return lines


def _line(choice: EngineChoice) -> str:
    short = {full: name for name, full in SHORT_NAMES.items()}
    return f"{short.get(choice.model, choice.model)} uses {choice}"
