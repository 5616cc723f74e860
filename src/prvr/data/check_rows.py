"""What a check of a collection reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CheckState = Literal["ok", "warning", "error"]


@dataclass(frozen=True)
class CheckRow:
    """One item that was checked."""

    collection: str
    item: str
    state: CheckState
    found: str
    expected: str = ""
