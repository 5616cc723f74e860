"""The one error a user of this room meets."""

from __future__ import annotations

from collections.abc import Collection as AnyCollection

from prvr.errors import UserError


class DataError(UserError):
    """Something about the user's files; the message names the file and what to do about it."""


def few(names: AnyCollection[str], limit: int = 3) -> str:
    """Name a few of many, for messages.

    >>> few(["a", "b", "c", "d", "e"])
    'a, b, c and 2 more'
    """
    shown = [name for name, _ in zip(names, range(limit), strict=False)]
    rest = len(names) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")
