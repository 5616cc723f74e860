"""The base of every error that a person can fix, packages that are missing, what ends a training, and shown names."""

from __future__ import annotations

import re
from collections.abc import Iterable

# What moves the cursor, changes colours or turns the direction of writing; and bytes of names that are not text.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class UserError(Exception):
    """Something that the person who runs a command can put right: a file, an option, a missing package.

    The message names what was found, what was expected and what to do. The command line prints it as one line, the
    server answers with it (without paths of its machine). Anything else that is raised is a mistake in this program.
    """


class MissingExtra(UserError, ImportError):
    """An optional package is not installed; the message holds the command that installs it.

    Also an ``ImportError``, because some modules raise it while they are imported.
    """

    def __init__(self, what: str, extra: str, problem: ImportError | None = None):
        because = f" ({problem})" if problem is not None else ""
        super().__init__(f'{what} is not installed{because}: pip install "prvr[{extra}]"')


class Interrupted(Exception):
    """Raised by a training after a step, once the user has asked to stop."""

    requested: bool = False


def printable(text: str, *, one_line: bool = False) -> str:
    """Text of others, such as the name of a file, without characters that would control a terminal.

    Args:
        text: what is shown.
        one_line: whether tabs and ends of lines are escaped too.

    >>> printable("red\\x1b[31m"), printable("two\\nlines"), printable("two\\nlines", one_line=True)
    ('red\\\\x1b[31m', 'two\\nlines', 'two\\\\nlines')
    """
    if one_line:
        text = text.replace("\n", "\\n").replace("\t", "\\t")
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape", "backslashreplace").decode("ascii"), text)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Ask about the nearest of the known names, behind a blank; nothing where none is near.

    >>> "no command 'serach'." + did_you_mean("serach", ["search", "serve"])
    "no command 'serach'. Did you mean 'search'?"
    >>> did_you_mean("xyz", ["search", "serve"])
    ''
    """
    from difflib import get_close_matches  # imported here: most commands start without a mistake

    names = {name.lower(): name for name in known}
    near = get_close_matches(word.lower(), names, n=1, cutoff=0.6)
    return f" Did you mean {names[near[0]]!r}?" if near else ""
