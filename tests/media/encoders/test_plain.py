"""The weight-free descriptor sees colours, places and motions, and its words point at what it sees."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prvr.media import Image, Understanding, open_encoder
from prvr.media.encoders.colours import colour_memberships
from prvr.media.encoders.plain import SIDE, PlainEncoder
from prvr.media.encoders.plain_silhouette import CELLS, shape_cells, silhouettes
from prvr.media.encoders.plain_words import HASH_WIDTH, hashed_word
from prvr.worlds import SHAPE_COLOURS, paint_shape

ENCODER = PlainEncoder()
SHAPES = tuple(shape_cells())


def scene(colour: str, x: float = 0.5, y: float = 0.5, shape: str = "square", size: float = 0.2) -> Image:
    canvas = np.full((SIDE, SIDE, 3), 110, np.float32) + np.random.default_rng(0).normal(0, 4, (SIDE, SIDE, 1))
    return np.clip(paint_shape(canvas.astype(np.float32), shape, colour, x, y, size), 0, 255).astype(np.uint8)


def best(sentences: list[str], image: Image, before: Image | None = None) -> str:
    scores = ENCODER.encode_texts(sentences) @ ENCODER.encode_frames([image], before)[0]
    return sentences[int(scores.argmax())]


@pytest.mark.parametrize("colour", [name for name in SHAPE_COLOURS if name != "black"])
def test_colours(colour: str) -> None:
    assert best([f"a {name} thing" for name in SHAPE_COLOURS], scene(colour)) == f"a {colour} thing"


@pytest.mark.parametrize(("x", "word"), [(0.2, "left"), (0.8, "right")])
def test_places(x: float, word: str) -> None:
    sentences = ["something red on the left", "something red on the right"]
    assert word in best(sentences, scene("red", x=x))


@pytest.mark.parametrize(
    ("dx", "dy", "word"), [(-0.1, 0, "left"), (0.1, 0, "right"), (0, -0.1, "up"), (0, 0.1, "down")]
)
def test_motion(dx: float, dy: float, word: str) -> None:
    sentences = [f"a blue square moves {way}" for way in ("left", "right", "up", "down")]
    now, before = scene("blue", 0.5 + dx, 0.5 + dy), scene("blue")
    assert best(sentences, now, before) == f"a blue square moves {word}"


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("size", "x", "y"), [(0.13, 0.4, 0.6), (0.3, 0.62, 0.37), (0.2, 0.5, 0.5)])
def test_shapes(shape: str, size: float, x: float, y: float) -> None:
    """Of pictures that differ in shape alone, a sentence finds the right one, however large and wherever it is."""
    pictures = np.stack([ENCODER.encode_frames([scene("red", x, y, each, size)])[0] for each in SHAPES])
    assert SHAPES[int((pictures @ ENCODER.encode_texts([f"a red {shape}"])[0]).argmax())] == shape


def test_a_silhouette_is_that_of_the_compact_patch() -> None:
    """Half of the picture is blue: too wide for a patch. The ring in front of it keeps its hole."""
    picture = scene("yellow", 0.5, 0.7, "ring", 0.2)
    picture[: SIDE // 3] = (35, 80, 215)
    (cells,) = silhouettes(colour_memberships(picture[None]).reshape(1, SIDE, SIDE, -1)).reshape(1, CELLS, CELLS)
    middle = cells[CELLS // 2 - 1 : CELLS // 2 + 1, CELLS // 2 - 1 : CELLS // 2 + 1]
    assert middle.max() < 0.3 < 0.7 < cells.max()
    empty = np.zeros((1, SIDE, SIDE, 3), np.uint8)
    assert not silhouettes(colour_memberships(empty).reshape(1, SIDE, SIDE, -1)).any()


def test_tone_and_stillness() -> None:
    dark, bright = np.full((SIDE, SIDE, 3), 15, np.uint8), np.full((SIDE, SIDE, 3), 240, np.uint8)
    assert best(["a dark place", "a bright place"], dark) == "a dark place"
    assert best(["a dark place", "a bright place"], bright) == "a bright place"
    still = ["the red square stands still", "the red square moves"]
    assert best(still, scene("red"), scene("red")) == still[0]
    assert best(still, scene("red", 0.7), scene("red", 0.3)) == still[1]


def test_a_sequence_in_parts_is_the_same_sequence() -> None:
    images = [scene("red", x) for x in (0.2, 0.4, 0.6, 0.8)]
    whole = ENCODER.encode_frames(images)
    parts = np.concatenate([ENCODER.encode_frames(images[:2]), ENCODER.encode_frames(images[2:], images[1])])
    np.testing.assert_allclose(whole, parts, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(whole, axis=1), 1, atol=1e-5)


def test_what_it_does_not_know_matches_nothing() -> None:
    assert not ENCODER.encode_texts(["somebody repairs a violin"]).any()
    assert ENCODER.understanding("somebody repairs a violin") == Understanding((), ("repairs", "violin"))


def test_it_says_which_words_it_used() -> None:
    found = ENCODER.understanding("grandma opens the red door")
    assert found == Understanding(("red",), ("grandma", "opens", "door"))
    assert ENCODER.understanding("suddenly a red box moves up").ignored == ()


def test_a_sentence_is_varied_one_word_at_a_time() -> None:
    made = ENCODER.variations("a red box falls on the grass")
    assert len(made) == len(set(made)) == 10 + 5 + 3 + 10
    assert "a blue box falls on the grass" in made
    assert "a red ring falls on the grass" in made
    assert "a red box moves left on the grass" in made
    assert ENCODER.encode_texts(made).any(1).all()
    assert ENCODER.variations("grandma sings") == ()


def test_word_vectors_are_fixed() -> None:
    rows = ENCODER.encode_words("A red, red square!")
    assert rows.shape == (4, ENCODER.word_width)
    np.testing.assert_array_equal(rows[:, HASH_WIDTH:], ENCODER.encode_texts(["a", "red", "red", "square"]))
    words = rows[:, :HASH_WIDTH]
    np.testing.assert_array_equal(words[1], words[2])
    assert abs(float(words[0] @ words[3])) < 0.6
    # Where word and stem agree, the sign is a bit of SHAKE-256 of the word: the same on every machine.
    bits = np.unpackbits(np.frombuffer(hashlib.shake_256(b"red").digest(8), np.uint8)).astype(int) * 2 - 1
    agreed = words[1] != 0
    np.testing.assert_array_equal(np.sign(words[1])[agreed], bits[agreed])
    # Forms of one word are alike, other words are not.
    assert hashed_word("slides") @ hashed_word("sliding") > 0.25
    assert ENCODER.encode_words("").shape == (1, ENCODER.word_width)


@given(st.text(max_size=60))
def test_any_text_is_taken(text: str) -> None:
    vector = ENCODER.encode_texts([text])[0]
    assert np.isfinite(vector).all()
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-4) or not vector.any()
    assert np.isfinite(ENCODER.encode_words(text)).all()


def test_noise_and_flat_pictures_give_finite_vectors() -> None:
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8), np.zeros((SIDE, SIDE, 3), np.uint8)]
    assert np.isfinite(ENCODER.encode_frames(images)).all()
    assert open_encoder().encode_images([np.zeros((99, 33, 3), np.uint8)]).shape == (1, ENCODER.width)
