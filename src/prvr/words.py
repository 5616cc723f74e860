"""Words of a sentence."""

from __future__ import annotations

import re

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")


def split_words(text: str) -> list[str]:
    """Words in lower case, without punctuation.

    >>> split_words("A man's RED hat – gone!")
    ['a', "man's", 'red', 'hat', 'gone']
    """
    return _WORD.findall(text.lower().replace("’", "'"))
