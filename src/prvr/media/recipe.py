"""How features were made. Features of two recipes cannot be compared, so everything made from them keeps its recipe."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from prvr.media.errors import EncoderError

WORDS = "words"  # begins the ``preprocessing`` of sentences that are kept word by word
PROJECTED_WORDS = "projected words"  # likewise, of words in the space of the pictures


class RecipeMismatch(EncoderError):
    """Two recipes differ where they must be equal; the message shows them side by side."""


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the numbers of a feature.

    >>> Recipe.from_json(Recipe("plain-1", rate=1.0).to_json()) == Recipe("plain-1", rate=1.0)
    True
    """

    encoder: str
    weights: str = "none"  # sha256 of the weight files
    width: int = 0
    size: str = ""  # of the pictures, and how they are scaled to it
    preprocessing: str = ""
    rate: float = 0.0  # frames per second
    decoder: str = ""  # name and version
    repeats: float = 0.0  # largest change of a picture that was not encoded again, of 255 levels; 0: every one was

    @property
    def words(self) -> bool:
        """Whether sentences are kept word by word."""
        return self.preprocessing.split("; ")[0] == WORDS

    def to_json(self) -> str:
        """One line of JSON, with sorted keys."""
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> Recipe:
        """Read what ``to_json`` wrote; an ``EncoderError`` where the text is something else."""
        try:
            return Recipe.from_dict(json.loads(text))
        except (ValueError, RecursionError) as problem:
            raise EncoderError(f"The recipe cannot be read ({problem}). Found: {text[:80]!r}") from problem

    @staticmethod
    def from_dict(content: Mapping[str, Any]) -> Recipe:
        """A recipe from its fields; missing ones take their defaults, unknown ones are ignored."""
        try:
            defaults = asdict(Recipe(str(content["encoder"])))
            return Recipe(**{name: type(value)(content.get(name, value)) for name, value in defaults.items()})
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as problem:
            raise EncoderError(f"The recipe cannot be read ({problem}). Found: {str(content)[:80]!r}") from problem

    def differences(self, other: Recipe) -> dict[str, tuple[object, object]]:
        """The fields that differ, with both values.

        Versions of a decoder differ only in rounding and do not count, nor does which pictures were not encoded again:
        their vectors can be compared.
        """
        different: dict[str, tuple[object, object]] = {}
        for field in fields(self):
            mine, theirs = getattr(self, field.name), getattr(other, field.name)
            if field.name == "decoder":
                same = mine.split(" ")[0] == theirs.split(" ")[0]
            else:
                same = mine == theirs or field.name == "repeats"
            if not same:
                different[field.name] = (mine, theirs)
        return different

    def require(self, other: Recipe, *, mine: str = "here", theirs: str = "there") -> None:
        """Raise ``RecipeMismatch`` where the other recipe differs; ``mine`` and ``theirs`` name the two in the message.

        >>> Recipe("plain-1", rate=1.0).require(Recipe("clip", rate=1.0), mine="library", theirs="query")
        Traceback (most recent call last):
        prvr.media.recipe.RecipeMismatch: Features of two recipes cannot be compared. These differ in encoder:
                         library          query
        encoder        * plain-1          clip
        weights          none             none
        width            0                0
        size
        preprocessing
        rate             1.0              1.0
        decoder
        repeats          0.0              0.0
        Use the encoder and settings of one of them for both.
        """
        different = self.differences(other)
        if not different:
            return
        rows = [("", mine, theirs)]
        for name, value in asdict(self).items():
            mark = "*" if name in different else " "
            rows.append((f"{name:<14} {mark}", *_short(str(value), str(getattr(other, name)))))
        table = "\n".join(f"{name:<16} {left:<16} {right}".rstrip() for name, left, right in rows)
        raise RecipeMismatch(
            f"Features of two recipes cannot be compared. These differ in {', '.join(different)}:\n{table}\n"
            "Use the encoder and settings of one of them for both."
        )


def _short(left: str, right: str) -> tuple[str, str]:
    """Long texts cut to the part where they begin to differ."""
    differ = next((i for i, (one, other) in enumerate(zip(left, right, strict=False)) if one != other), 0)
    start = max(0, differ - 10) if max(len(left), len(right)) > 40 else 0

    def cut(text: str) -> str:
        return ("…" if start else "") + text[start : start + 38] + ("…" if text[start + 38 :] else "")

    return cut(left), cut(right)
