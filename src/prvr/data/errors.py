"""Errors of data files."""

from __future__ import annotations

from collections.abc import Collection as AnyCollection

from prvr.errors import UserError


class DataError(UserError):
    """Something is wrong with a data file; the message names the file and says what to do."""


def summarise_names(names: AnyCollection[str], limit: int = 3) -> str:
    """The first ``limit`` names and the number of the others, for messages.

    >>> summarise_names(["a", "b", "c", "d", "e"])
    'a, b, c and 2 more'
    """
    shown = [name for name, _ in zip(names, range(limit), strict=False)]
    rest = len(names) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")
