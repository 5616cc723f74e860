"""The base of every error that a person can fix, and what ends a training that a person stops."""

from __future__ import annotations


class UserError(Exception):
    """Something that the person who runs a command can put right: a file, an option, a missing package.

    The message names what was found, what was expected and what to do. The command line prints it as one line, the
    server answers with it (without paths of its machine). Anything else that is raised is a mistake in this program.
    """


class Interrupted(Exception):
    """Raised by a training after a step, once the user has asked to stop."""

    requested: bool = False
