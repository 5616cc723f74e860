"""``prvr search --shell``: the library and its encoder stay open, and every line is a search."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from contextlib import suppress

from prvr.cli.errors import guarded

_PROMPT = "search> "
_EXIT = ("exit", "quit")
_ENDING = (130, 141)  # Ctrl-C, and a reader of our output that went away


def run_shell(answer: Callable[[list[str]], int]) -> int:
    """Answer lines until Ctrl-D, Ctrl-C or ``exit``. An error is printed, and the next line is read.

    Args:
        answer: answers the words of a command line, and returns its exit code.
    """
    with suppress(ImportError):  # not on every system; with it, `input` keeps a history and edits lines
        import readline  # noqa: F401
    asks = sys.stdin.isatty()
    if asks:
        print("Type a sentence, or options such as --like VIDEO@12.5. Ctrl-D or `exit` ends.")
    while True:
        try:
            line = input(_PROMPT if asks else "").strip()
        except (EOFError, KeyboardInterrupt) as end:
            if asks:
                print()
            return 0 if isinstance(end, EOFError) else 130
        if line in _EXIT:
            return 0
        if line and (code := guarded(lambda words: _answer(words, answer), [line])) in _ENDING:
            return code


def _answer(lines: list[str], answer: Callable[[list[str]], int]) -> int:
    (line,) = lines
    try:
        return answer(words_of(line))
    except SystemExit as end:  # help, or an option that does not exist; both were explained
        return end.code if isinstance(end.code, int) else 2


def words_of(line: str) -> list[str]:
    """A line as a command line. Without options it is one sentence, in which quotation marks and apostrophes stay.

    >>> words_of("a man's hat"), words_of('"red door" --limit 3')
    (["a man's hat"], ['red door', '--limit', '3'])
    """
    if not any(word.startswith("--") for word in line.split()):
        return [line]
    try:
        return shlex.split(line)
    except ValueError:  # an apostrophe
        return line.split()
