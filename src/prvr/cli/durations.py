"""Options that take a length of time: 90, 90s, 1m30s, 1h or 1:30:00 on the command line, seconds in Python."""

from __future__ import annotations

from collections.abc import Sequence

from prvr.times import NotADuration, parse_duration

SEARCH_DURATIONS = ("--min-duration", "--max-duration", "--moments.merge", "--moments.pad")
EXPORT_DURATIONS = ("--min-duration", "--max-duration", "--margin")
LIBRARY_DURATIONS = ("--window", "--stride", "--settle", "--rescan")


def durations_in_seconds(argv: Sequence[str], *options: str) -> list[str]:
    """The words of a command line, with the values of these options in seconds.

    Raises:
        NotADuration: a value is no length of time; the message names the option.

    >>> durations_in_seconds(["red", "--min-duration", "1h", "--max-duration=1:30:00"], *SEARCH_DURATIONS)
    ['red', '--min-duration', '3600', '--max-duration=5400']
    """
    words, expected = [], None
    for word in argv:
        name, mark, value = word.replace("_", "-").partition("=")
        if expected is not None and not word.startswith("--"):
            word = _seconds(expected, word)
        elif mark and name in options:
            word = f"{name}={_seconds(name, value)}"
        expected = name if not mark and name in options else None
        words.append(word)
    return words


def _seconds(option: str, text: str) -> str:
    if text == "None":  # as the help shows an option that is not given
        return text
    try:
        return f"{parse_duration(text):.10g}"
    except NotADuration as problem:
        raise NotADuration(f"{option}: {problem}") from None
