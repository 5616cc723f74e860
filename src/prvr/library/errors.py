"""What can be wrong with a library, said in a sentence."""

from __future__ import annotations


class LibraryError(Exception):
    """A library that cannot be used as asked: what was found, what was expected, what to do."""
