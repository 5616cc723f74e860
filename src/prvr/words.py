"""Words of a sentence, and which of them carry its meaning."""

from __future__ import annotations

import re

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_STOP_WORDS = frozenset(
    """a about above across after again all along also am an and any are around as at away back be been before
    behind being below beside between both but by can could did do does doing done during each for from had has
    have having he her here him his how i if in inside into is it its just like me more most my near no not now
    of off on one onto or other our out outside over per she so some somebody someone something somewhere
    suddenly than that the their them then there these they this those through to together towards under until
    upon us very was we were what when where which while who whose will with within without you your see sees
    seen show shows showing shown""".split()  # noqa: SIM905 (a list of words would fill a page)
)


def split_words(text: str) -> list[str]:
    """Words in lower case, without punctuation.

    >>> split_words("A man's RED hat – gone!")
    ['a', "man's", 'red', 'hat', 'gone']
    """
    return _WORD.findall(text.lower().replace("’", "'"))


def content_words(text: str) -> list[str]:
    """The words that carry the meaning of an English sentence, each once.

    >>> content_words("then we see a red ball in front of the red wall")
    ['red', 'ball', 'front', 'wall']
    """
    return [word for word in dict.fromkeys(split_words(text)) if word not in _STOP_WORDS]


def word_stem(word: str) -> str:
    """A word without its ending; short words keep theirs.

    >>> [word_stem(word) for word in ("moves", "moving", "red")]
    ['mov', 'mov', 'red']
    """
    return word if len(word) < 5 else re.sub(r"(?:ing|ed|es|s)$", "", word)


def word_names(sentence: str, count: int) -> list[str]:
    """Names for ``count`` word features of a sentence: its words, where there are as many (or a start and an end more).

    >>> word_names("a red red door", 4), word_names("a door", 4), word_names("a door", 3)
    (['a', 'red', 'red (3)', 'door'], ['(start)', 'a', 'door', '(end)'], ['token 1', 'token 2', 'token 3'])
    """
    words = sentence.split()
    if count == len(words) + 2:
        words = ["(start)", *words, "(end)"]
    if count != len(words):
        return [f"token {number}" for number in range(1, count + 1)]
    return [f"{word} ({place})" if word in words[: place - 1] else word for place, word in enumerate(words, start=1)]
