"""Frames that repeat the last encoded one are not encoded again, and nothing else is left out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from prvr.media import (
    USUAL_REPEATS,
    Array,
    Encoder,
    Fit,
    Image,
    PlainEncoder,
    RepeatFilter,
    feature_parts,
    open_video,
    unit_rows,
    video_features,
    write_video,
)

FPS, SECONDS = 10, 30


class Counting(Encoder):
    """Encodes a picture as itself, and counts."""

    name, width, word_width, sees_motion, batch = "counting-1", 32 * 32 * 3, 1, False, 4
    fit = Fit(32, 32)

    def __init__(self) -> None:
        self.count = 0

    def encode_frames(self, images: Sequence[Image], before: Image | None = None) -> Array:
        self.count += len(images)
        rows = [image.ravel() for image in images]
        return unit_rows(np.array(rows, np.float32).reshape(len(rows), self.width))

    def encode_texts(self, texts: Sequence[str]) -> Array:
        raise NotImplementedError

    def encode_words(self, text: str) -> Array:
        raise NotImplementedError


@pytest.fixture(scope="module")
def camera(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wall, seen by a noisy camera. A faint object of 2 % of the picture is there from 12.4 s to 13.4 s."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:144, :192]
    wall = 110 + 40 * np.sin(x / 17) * np.cos(y / 23)

    def pictures() -> list[Image]:
        made = []
        for number in range(FPS * SECONDS):
            picture = wall + rng.normal(0, 1, wall.shape)
            if 124 <= number < 134:
                picture[8:28, 160:188] += 20
            made.append(np.repeat(np.clip(picture, 0, 255).astype(np.uint8)[..., None], 3, 2))
        return made

    path = tmp_path_factory.mktemp("camera") / "camera.mp4"
    return write_video(path, pictures(), fps=FPS, options={"preset": "veryfast", "crf": "30", "g": "50"})


def test_a_small_faint_event_of_a_second_is_encoded_and_the_rest_is_not(camera: Path) -> None:
    encoder, every = Counting(), Counting()
    made = video_features(camera, encoder, rate=1.0, repeats=USUAL_REPEATS)
    whole = video_features(camera, every, rate=1.0)
    assert every.count == SECONDS
    assert 3 <= encoder.count <= SECONDS // 3  # the wall, the event, the wall again, and what the codec made of noise
    np.testing.assert_array_equal(made.times, whole.times)
    np.testing.assert_array_equal(made.vectors[13], whole.vectors[13])
    assert float((made.vectors * whole.vectors).sum(1).min()) > 0.999
    assert (made.recipe.repeats, whole.recipe.repeats) == (USUAL_REPEATS, 0.0)
    made.recipe.require(whole.recipe)  # their vectors can be compared


def test_a_picture_that_stands_still_is_encoded_once_whatever_the_batches(tmp_path: Path) -> None:
    still = np.repeat(np.add.outer(np.arange(48), 2 * np.arange(64)).astype(np.uint8)[..., None], 3, 2)
    film = write_video(tmp_path / "slide.mp4", [still, still], times=[0.0, 99.0], fps=1)
    encoder = Counting()
    with open_video(film) as video:
        parts = list(feature_parts(video, encoder, rate=1.0, repeats=USUAL_REPEATS))
    assert encoder.count == 1
    assert np.concatenate([part.times for part in parts]).tolist() == list(map(float, range(100)))
    assert len(parts) > 1  # so that progress is shown
    assert sum(part.repeats for part in parts) == 99
    vectors = np.concatenate([part.vectors for part in parts])
    assert (vectors == vectors[0]).all()


def test_slow_changes_add_up() -> None:
    repeats = RepeatFilter(threshold=4.0, sees_motion=False)
    fade = [np.full((48, 48, 3), 100 + second, np.uint8) for second in range(20)]
    assert [second for second, image in enumerate(fade) if repeats.keeps(image)] == [0, 5, 10, 15]


def test_motion_does_not_go_on_after_it_ends(camera: Path) -> None:
    """`plain` sees that something appears; samples after it must not repeat that."""
    made = video_features(camera, PlainEncoder(), rate=1.0, repeats=USUAL_REPEATS)
    whole = video_features(camera, PlainEncoder(), rate=1.0)
    assert float((made.vectors * whole.vectors).sum(1).min()) > 0.99


def test_zero_keeps_everything() -> None:
    repeats, picture = RepeatFilter(0.0, sees_motion=False), np.zeros((8, 8, 3), np.uint8)
    assert all(repeats.keeps(picture) for _ in range(3))


@pytest.mark.parametrize("size", [(5, 7), (48, 48), (100, 33), (224, 224), (378, 378)])
def test_a_change_is_seen_wherever_it_is_and_whatever_the_size(size: tuple[int, int]) -> None:
    height, width = size
    for top, left in ((0, 0), (0, -1), (-1, 0), (-1, -1), (height // 2, width // 2)):
        repeats, picture = RepeatFilter(4.0, sees_motion=False), np.full((*size, 3), 90, np.uint8)
        assert repeats.keeps(picture)
        changed = picture.copy()
        down, across = max(1, height // 7), max(1, width // 7)  # about 2 % of the picture
        first, second = min(top % height, height - down), min(left % width, width - across)
        changed[first : first + down, second : second + across, 2] += 20  # blue, which is hardly brighter
        assert repeats.keeps(changed)
