"""Lengths of time as people write them: 90, 90s, 1m30s, 1h, 1:30:00."""

from __future__ import annotations

import re

from prvr.errors import UserError

_NUMBER = r"(\d+(?:\.\d*)?|\.\d+)"
_UNITS = re.compile(rf"(?:{_NUMBER}h)?(?:{_NUMBER}m(?:in)?)?(?:{_NUMBER}s(?:ec)?)?", re.IGNORECASE)
_CLOCK = re.compile(r"(?:(\d+):)?(\d+):(\d+(?:\.\d*)?)")
_LONGEST = 1e9  # seconds


class NotADuration(UserError, ValueError):
    """A text that is no length of time; the message says how to write one."""


def parse_duration(text: str) -> float:
    """A length of time in seconds.

    Raises:
        NotADuration: the text is none; the message shows the forms that are understood.

    >>> [parse_duration(text) for text in ("90", "90s", "1m30s", "1h", "1.5h", "1:30", "1:30:00", "0:02.5")]
    [90.0, 90.0, 90.0, 3600.0, 5400.0, 90.0, 5400.0, 2.5]
    """
    given = text.strip().replace(" ", "")
    if re.fullmatch(_NUMBER, given):
        seconds = float(given)
    elif given and (units := _UNITS.fullmatch(given)):
        hours, minutes, rest = (float(part or 0) for part in units.groups())
        seconds = 3600 * hours + 60 * minutes + rest
    elif clock := _CLOCK.fullmatch(given):
        hours, minutes, rest = (float(part or 0) for part in clock.groups())
        if rest >= 60 or (clock[1] is not None and minutes >= 60):
            raise NotADuration(f"{text!r} is not a length of time: minutes and seconds after a colon are below 60")
        seconds = 3600 * hours + 60 * minutes + rest
    else:
        raise NotADuration(f"{text!r} is not a length of time: write it like 90, 90s, 1m30s, 1h or 1:30:00")
    if seconds > _LONGEST:
        raise NotADuration(f"{text!r} is too long: at most {_LONGEST:g} seconds")
    return seconds
