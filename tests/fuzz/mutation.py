"""Inputs that are nearly right: valid documents, changed in a few places by hands that know what documents are made of.

Everything is drawn from the ``Random`` that is given, so that an input can be made again from its number, and so that
hypothesis, which brings a ``Random`` of its own, can make a failing input smaller.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

LARGEST = 1 << 16  # bytes of an input
NUMBERS = (
    "0", "-1", "1e400", "-1e400", "NaN", "Infinity", "-Infinity", "1e-400", "9" * 40, "9" * 5000, "4294967296", "-0",
    "9223372036854775808", "0.1", "1_000", "٣", "0x10", "2147483648", "65536",
)  # fmt: skip
TOKENS = (
    "", " ", "\n", "\r", "\t", "\0", "\ufeff", "\u2028", "\ud800", '"', "'", "\\", "\\u0000", "\\ud800", "\\N{DASH}",
    "{", "}", "[", "]", "(", ")", ":", ",", "#", "##", "=", "-->", "null", "true", "false", "é", "日本", "🎬",
    "\x1b[31m", "%s", "../../x", "/", ".", "..", "[[", "]]", '"""', "inf", "nan", "{}", "[]", "--", "\x7f", "A" * 3000,
    "[" * 3000, '{"a":' * 3000, "{'a': ['" * 500, "\\" * 1001, "\\x", "<" * 500, "&#99999999999;", "&" * 500,
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1 << 63, 10**400, 1.5, 1e308, float("inf"), float("nan"), "", "x", "\0", "\ud800",
    "1", "é" * 300, [], {}, [[]], [None], {"": None}, {"a": [1, "2", {}]}, [1] * 500, "../..", -(1 << 63), 1 << 31,
)  # fmt: skip
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_QUOTED = re.compile(rb"\"[^\"\n]*\"|'[^'\n]*'")

Change = Callable[[Random, bytes, Sequence[bytes]], bytes]


def mutate(rng: Random, documents: Sequence[bytes]) -> bytes:
    """A valid document, changed once or a few times; now and then something else altogether."""
    if rng.random() < 0.02:
        return _noise(rng, rng.randrange(200))
    document = rng.choice(documents)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5, 9))):
        document = rng.choice(CHANGES)(rng, document, documents)[:LARGEST]
    return document


def _noise(rng: Random, size: int) -> bytes:
    return bytes(rng.randrange(256) for _ in range(size))


def _token(rng: Random) -> bytes:
    found = rng.choice(TOKENS if rng.random() < 0.7 else NUMBERS)
    return found.encode("utf-8", "surrogatepass")


def _span(rng: Random, document: bytes, longest: int = 64) -> tuple[int, int]:
    first = rng.randrange(len(document) + 1)
    return first, min(len(document), first + rng.randrange(1, longest + 1))


def _flip(rng: Random, document: bytes, others: Sequence[bytes]) -> bytes:
    if not document:
        return document
    place = rng.randrange(len(document))
    return document[:place] + bytes([document[place] ^ (1 << rng.randrange(8))]) + document[place + 1 :]


def _put_byte(rng: Random, document: bytes, others: Sequence[bytes]) -> bytes:
    place = rng.randrange(len(document) + 1)
    return document[:place] + bytes([rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))]) + document[place + 1 :]


def _insert(rng: Random, document: bytes, others: Sequence[bytes]) -> bytes:
    place = rng.randrange(len(document) + 1)
    return document[:place] + _token(rng) + document[place:]


def _replace(rng: Random, document: bytes, others: Sequence[bytes]) -> bytes:
    first, last = _span(rng, document)
    return document[:first] + _token(rng) + document[last:]


def _delete(rng: Random, document: bytes, others: Sequence[bytes]) -> bytes:
    first, last = _span(rng, document)
    return document[:first] + document[last:]


def _repeat(rng: Random, document: bytes, others: Sequence[bytes]) -> bytes:
    first, last = _span(rng, document)
    return document[:last] + document[first:last] * rng.choice((1, 2, 50)) + document[last:]


def _cut(rng: Random, document: bytes, others: Sequence[bytes]) -> bytes:
    return document[: rng.randrange(len(document) + 1)]


def _splice(rng: Random, document: bytes, others: Sequence[bytes]) -> bytes:
    other = rng.choice(others)
    return document[: rng.randrange(len(document) + 1)] + other[rng.randrange(len(other) + 1) :]


def _number(rng: Random, document: bytes, others: Sequence[bytes]) -> bytes:
    return _in_place_of(rng, document, _NUMBER, rng.choice(NUMBERS).encode())


def _quoted(rng: Random, document: bytes, others: Sequence[bytes]) -> bytes:
    quote = rng.choice((b'"', b"'", b""))
    return _in_place_of(rng, document, _QUOTED, quote + _token(rng) + quote)


def _in_place_of(rng: Random, document: bytes, pattern: re.Pattern[bytes], new: bytes) -> bytes:
    found = list(pattern.finditer(document[:LARGEST]))
    if not found:
        return document
    chosen = rng.choice(found)
    return document[: chosen.start()] + new + document[chosen.end() :]


def _lines(rng: Random, document: bytes, others: Sequence[bytes]) -> bytes:
    lines = document.split(b"\n")
    place, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    kind = rng.randrange(4)
    if kind == 0:
        del lines[place]
    elif kind == 1:
        lines.insert(other, lines[place])
    elif kind == 2:
        lines[place], lines[other] = lines[other], lines[place]
    else:
        lines[place] = rng.choice(others).split(b"\n")[0]
    return b"\n".join(lines)


def _json(rng: Random, document: bytes, others: Sequence[bytes]) -> bytes:
    """Change a value inside a JSON document, or inside one line of JSON lines; other documents stay."""
    lines = document.split(b"\n")
    place = rng.randrange(len(lines))
    whole = rng.random() < 0.5
    try:
        value = json.loads(document if whole else lines[place])
    except (ValueError, RecursionError):
        return document
    made = json.dumps(_changed(rng, value)).encode("utf-8", "surrogatepass")
    return made if whole else b"\n".join([*lines[:place], made, *lines[place + 1 :]])


def _changed(rng: Random, value: Any) -> Any:
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key, made = rng.choice(list(value)), dict(value)
        kind = rng.randrange(6)
        if kind == 0:
            del made[key]
        elif kind == 1:
            made[rng.choice(("", "x", "\0", key + key))] = made.pop(key)
        else:
            made[key] = _changed(rng, value[key])
        return made
    if isinstance(value, list) and value and rng.random() < 0.85:
        place = rng.randrange(len(value))
        kind = rng.randrange(5)
        if kind == 0:
            return value[:place] + value[place + 1 :]
        if kind == 1:
            return value + value[place : place + 1]
        return [*value[:place], _changed(rng, value[place]), *value[place + 1 :]]
    return rng.choice(VALUES)


CHANGES: tuple[Change, ...] = (
    _flip, _put_byte, _insert, _insert, _replace, _delete, _repeat, _cut, _splice, _number, _number, _quoted, _lines,
    _json, _json, _json,
)  # fmt: skip
