"""The base of every error that a person can fix, what ends a training, and what is said of a name that is not known."""

from __future__ import annotations

from collections.abc import Iterable


class UserError(Exception):
    """Something that the person who runs a command can put right: a file, an option, a missing package.

    The message names what was found, what was expected and what to do. The command line prints it as one line, the
    server answers with it (without paths of its machine). Anything else that is raised is a mistake in this program.
    """


class Interrupted(Exception):
    """Raised by a training after a step, once the user has asked to stop."""

    requested: bool = False


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
