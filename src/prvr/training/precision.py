"""The type of numbers that forward passes of a training use: fp32 or bf16."""

from __future__ import annotations

import torch

from prvr.processor import has_bf16
from prvr.training.run import Run


def uses_bf16(run: Run, device: torch.device) -> bool:
    """Whether forward passes of a run use bf16.

    ``auto`` means what it meant where the run was begun, so that a run that is resumed elsewhere, or by a later
    version, ends as if it had never stopped. A device that is not faster in bf16 uses fp32 all the same.
    """
    asked = run.config.precision
    if asked != "auto":
        return asked == "bf16"
    return multiplies_bf16(device) and run.begun_in != "fp32"


def multiplies_bf16(device: torch.device) -> bool:
    """Whether a device is faster in bf16 than in fp32."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return device.type == "cpu" and has_bf16()
