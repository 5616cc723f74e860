"""Which numbers a configuration may hold, so that a typing error or a foreign file cannot ask for absurd sizes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

_TINY = 5e-324  # above 0


class Range(NamedTuple):
    """From the least to the greatest value that is allowed."""

    least: float
    most: float


_USUAL = Range(0, 1_000_000)
_SHARE = Range(0, math.nextafter(1, 0))
_SIZE, _INPUT, _SLOTS, _DEPTH = Range(1, 8192), Range(1, 65_536), Range(1, 65_536), Range(1, 1024)
_RANGES = {
    "visual_width": _INPUT, "query_width": _INPUT, "width": _SIZE, "inner_width": _SIZE, "head_width": _SIZE,
    "hyperbolic_width": _SIZE, "frames": Range(1, 1_000_000), "clips": _SLOTS, "words": _SLOTS, "positions": _SLOTS,
    "heads": _DEPTH, "blocks": _DEPTH, "layers": _DEPTH, "registers": _DEPTH, "caption_layers": Range(0, 1024),
    "denoiser_layers": Range(0, 1024), "caption_slots": Range(0, 1024), "diffusion_steps": Range(0, 10_000),
    "dropout": _SHARE, "input_dropout": _SHARE, "beta1": _SHARE, "beta2": _SHARE, "held_out": _SHARE,
    "epsilon": Range(_TINY, 1), "norm_epsilon": Range(_TINY, 1), "init_std": Range(_TINY, 100),
    "masked_logit": Range(-1e9, 1e9), "logit_scale": Range(-100, 100), "seed": Range(0, 2**63 - 1),
    "batch_size": Range(2, 65_536), "validate_every": Range(1, 1_000_000), "snapshots": Range(1, 1000),
    "alike": Range(0, 1), "queries": _INPUT, "pool": Range(1, 1_000_000),
}  # fmt: skip


def require_ranges(config: Any, where: str = "") -> None:
    """Refuse numbers that no configuration needs: negative, NaN, infinite or absurdly large ones.

    Args:
        config: a dataclass; those inside it are checked too.
        where: put before the names of its fields in messages.

    Raises:
        ValueError: names the field, its value and what is allowed.
    """
    for name, value in _numbers(config, where):
        key = name.rpartition(".")[2]
        least, most = _RANGES.get(key, Range(_TINY, 1_000_000) if key.endswith("temperature") else _USUAL)
        if not least <= value <= most:  # NaN is in no range
            raise ValueError(f"{name} must be {_shown(least, most)}, not {_number(value)}")


def _number(value: float) -> str:
    try:
        return f"{value:.6g}"
    except OverflowError:  # an integer
        return "one of hundreds of digits"


def _shown(least: float, most: float) -> str:
    if (least, most) == _SHARE:
        return "a share from 0 up to, not including, 1"
    return f"{'above 0' if least == _TINY else f'at least {least:g}'} and at most {most:,.0f}"


def _numbers(config: Any, where: str) -> Iterator[tuple[str, float]]:
    """Every number in a dataclass and in those inside it, with its dotted name."""
    for field in fields(config):
        name, value = f"{where}{field.name}", getattr(config, field.name)
        if is_dataclass(value):
            yield from _numbers(value, f"{name}.")
            continue
        for one in value if isinstance(value, tuple | list) else (value,):
            if isinstance(one, int | float) and not isinstance(one, bool):
                yield name, one
