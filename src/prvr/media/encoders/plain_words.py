"""Text vectors for the weight-free descriptor.

``sentence_prototype`` maps the words that the descriptor can see (colours, places in the picture, motions, tones,
simple shapes) to a vector of that descriptor. Every other word is ignored. A sentence without any such word becomes the
zero vector, which matches nothing. ``word_vectors`` is what a model is trained on: every word has a fixed random
direction, which means nothing until then, and beside it the prototype of the word alone.
"""

from __future__ import annotations

import hashlib

import numpy as np

from prvr.media.encoders import plain_parts as parts
from prvr.media.encoders.base import Array, Understanding, unit_rows
from prvr.media.encoders.colours import COLOUR_NAMES
from prvr.media.encoders.plain_silhouette import shape_cells
from prvr.words import content_words, split_words, word_stem

HASH_WIDTH = 64
WORD_WIDTH = HASH_WIDTH + parts.WIDTH

# Words that name a colour, or a thing that mostly has one.
_COLOUR_OF = {name: name for name in COLOUR_NAMES} | {
    "gray": "grey", "silver": "grey", "violet": "purple", "magenta": "pink", "crimson": "red", "scarlet": "red",
    "golden": "yellow", "gold": "yellow", "navy": "blue", "azure": "blue", "cyan": "blue", "turquoise": "blue",
    "beige": "brown", "tan": "brown", "grass": "green", "meadow": "green", "lawn": "green", "forest": "green",
    "sea": "blue", "sky": "blue", "water": "blue", "ocean": "blue", "snow": "white", "ice": "white",
    "sand": "yellow", "desert": "yellow", "beach": "yellow", "fire": "orange", "brick": "red", "bricks": "red",
    "wood": "brown", "wooden": "brown", "earth": "brown", "night": "black", "fog": "grey", "asphalt": "grey",
}  # fmt: skip
_DIRECTION_OF = {
    "left": "left", "leftward": "left", "leftwards": "left", "right": "right", "rightward": "right",
    "rightwards": "right", "up": "up", "upward": "up", "upwards": "up", "rises": "up", "rising": "up", "climbs": "up",
    "down": "down", "downward": "down", "downwards": "down", "falls": "down", "falling": "down", "sinks": "down",
    "drops": "down", "sinking": "down", "climbing": "up", "dropping": "down",
}  # fmt: skip
_MOVES = {
    "moves", "moving", "move", "slides", "sliding", "drifts", "drifting", "goes", "going", "travels", "flies", "flying",
    "runs", "running", "walks", "walking", "rolls", "rolling", "motion", "glides", "gliding", "crosses", "heads",
}  # fmt: skip
_OWN_DIRECTION = {
    "rises",
    "rising",
    "climbs",
    "climbing",
    "falls",
    "falling",
    "sinks",
    "sinking",
    "drops",
    "dropping",
}
_STILL = {"still", "stands", "standing", "rests", "resting", "motionless", "stays", "waits", "static", "fixed"}
_TONE_OF = {"dark": "dark", "dim": "dark", "night": "dark", "bright": "bright", "light": "bright", "sunny": "bright"}
_ROWS = {"top": (0, 1), "above": (0, 1), "upper": (0, 1), "bottom": (2, 3), "below": (2, 3), "lower": (2, 3)}
_COLUMNS = {"left": (0, 1), "right": (2, 3)}
_MIDDLE = {"middle", "centre", "center", "central"}
# Edge directions, in eighths of half a turn: 0 is an upright edge, 4 a level one.
_EDGES_OF = {
    "square": (0, 4), "squares": (0, 4), "box": (0, 4), "rectangle": (0, 4), "grid": (0, 4),
    "triangle": (1, 4, 7), "triangles": (1, 4, 7), "diamond": (2, 6), "diagonal": (2, 6), "cross": (0, 4),
    "circle": tuple(range(8)), "ball": tuple(range(8)), "disc": tuple(range(8)), "ring": tuple(range(8)),
    "round": tuple(range(8)), "hoop": tuple(range(8)), "plus": (0, 4), "horizontal": (4,), "vertical": (0,),
    "waves": (3, 4, 5), "stripes": (0,),
}  # fmt: skip
_SILHOUETTE_OF = {
    "square": "square", "squares": "square", "box": "square", "triangle": "triangle", "triangles": "triangle",
    "diamond": "diamond", "cross": "cross", "plus": "cross", "circle": "circle", "ball": "circle", "disc": "circle",
    "ring": "ring", "hoop": "ring",
}  # fmt: skip
_SILHOUETTE_WEIGHT = 3.0  # silhouettes of different shapes are alike, so what differs must count more than other parts


_KNOWN = {*_COLOUR_OF, *_DIRECTION_OF, *_MOVES, *_STILL, *_TONE_OF, *_ROWS, *_COLUMNS, *_MIDDLE, *_EDGES_OF}


def understood_words(text: str) -> Understanding:
    """The words of a sentence that the descriptor can see, and those that it ignores.

    >>> understood_words("a red square slides to the left of my kitchen")
    Understanding(used=('red', 'square', 'slides', 'left'), ignored=('kitchen',))
    """
    words = list(dict.fromkeys(split_words(text)))
    ignored = tuple(word for word in content_words(text) if word not in _KNOWN)
    return Understanding(tuple(word for word in words if word in _KNOWN), ignored)


def variations(text: str) -> tuple[str, ...]:
    """A sentence with one colour, shape or direction exchanged for another.

    >>> variations("a red box")[:2], len(variations("a red box falls"))
    (('a black box', 'a white box'), 18)
    """
    words, made = split_words(text), dict[str, None]()
    for place, word in enumerate(words):
        for kind, others in ((_COLOUR_OF, COLOUR_NAMES), (_SILHOUETTE_OF, _SHAPES), (_DIRECTION_OF, _DIRECTIONS)):
            for other in others if word in kind else ():
                if other != kind[word]:
                    said = f"moves {other}" if word in _OWN_DIRECTION else other
                    made[" ".join([*words[:place], said, *words[place + 1 :]])] = None
    return tuple(made)


_SHAPES = tuple(dict.fromkeys(_SILHOUETTE_OF.values()))
_DIRECTIONS = tuple(dict.fromkeys(_DIRECTION_OF.values()))


def sentence_prototype(text: str) -> Array:
    """The descriptor of a frame that would show the sentence, (WIDTH,): unit length, or zero."""
    terms = split_words(text)
    vector = np.zeros(parts.WIDTH, np.float32)
    colours = list(dict.fromkeys(_COLOUR_OF[word] for word in terms if word in _COLOUR_OF))
    moves = any(word in _MOVES or word in _OWN_DIRECTION for word in terms)
    directions = [_DIRECTION_OF[w] for w in terms if w in _DIRECTION_OF and (moves or w not in _COLUMNS)]
    rows, columns = _place(terms, moves)
    placed = (rows, columns) != (_ALL, _ALL)
    for number, colour in enumerate(colours):
        # The colour named first is most often the subject's: it stands out in a few cells, is at the named place and
        # moves. Further colours are most often those of the setting: they fill the picture.
        own = number == 0
        vector[parts.salient_index(colour)] += 1.0 if own else 0.3
        cells = [(r, c) for r in (rows if own else _ALL) for c in (columns if own else _ALL)]
        share = 0.3 if own and not placed else 1.0
        for row, column in cells:
            vector[parts.cell_colour_index(colour, row, column)] += share / len(cells) ** 0.5
    for direction in directions:
        vector[parts.direction_index(direction)] += 0.5
        if colours:
            vector[parts.direction_index(direction, colours[0])] += 1.0
    if moves and not directions:
        vector[parts.MOVING] += 0.7
    if placed and not colours:
        for row in rows:
            for column in columns:
                vector[parts.cell_change_index(row, column)] += 1.0 / (len(rows) * len(columns)) ** 0.5
    for word in terms:
        if word in _STILL:
            vector[parts.STILL] += 0.7
        if word in _TONE_OF:
            vector[parts.tone_index(_TONE_OF[word])] += 0.7
        for angle in _EDGES_OF.get(word, ()):
            vector[parts.edge_index(angle)] += 0.5 / len(_EDGES_OF[word]) ** 0.5
        if word in _SILHOUETTE_OF:
            vector[parts.PARTS["silhouette"]] += _SILHOUETTE_WEIGHT * shape_cells()[_SILHOUETTE_OF[word]]
    return unit_rows(vector[None])[0]


_ALL = (0, 1, 2, 3)


def _place(terms: list[str], moves: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Rows and columns of cells that a sentence names. Where something moves, left and right name its direction."""
    rows = next((_ROWS[word] for word in terms if word in _ROWS), _ALL)
    columns = next((_COLUMNS[word] for word in terms if word in _COLUMNS and not moves), _ALL)
    if _MIDDLE & set(terms):
        rows, columns = (rows if rows != _ALL else (1, 2)), (columns if columns != _ALL else (1, 2))
    return rows, columns


def word_vectors(text: str) -> Array:
    """One row per word, (L, WORD_WIDTH): its hashed direction, then its prototype. An empty text gives one zero row."""
    terms = split_words(text)
    if not terms:
        return np.zeros((1, WORD_WIDTH), np.float32)
    return np.stack([np.concatenate([hashed_word(word), sentence_prototype(word)]) for word in terms])


def hashed_word(word: str) -> Array:
    """Signs from hashes of the word and of its stem: equal on every machine, and similar for forms of one word."""
    return unit_rows((_signs(word) + _signs(f"{word_stem(word)}…"))[None])[0]


def _signs(key: str) -> Array:
    drawn = hashlib.shake_256(key.encode("utf-8", "replace")).digest(HASH_WIDTH // 8)
    return np.unpackbits(np.frombuffer(drawn, np.uint8)).astype(np.float32) * 2 - 1
