"""Encoders alone: a video that resembles every sentence does not win against the one that is meant."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from prvr.library import (
    FRAMES,
    Background,
    IndexedVideo,
    Library,
    NewVideo,
    Piece,
    Presence,
    SearchRequest,
    SectionBuffer,
    Standing,
)
from prvr.library.search import confidence, knowledge
from prvr.media import Array, Encoder, Fit, Image, unit_rows
from tests.library.search.drawn_library import DrawnEncoder

QUERY = "a dog on a red sofa"
SHARED = 0.72  # what all sentences have in common


class AlikeEncoder(Encoder):
    """All sentences have one direction in common."""

    name, fit = "pictures", Fit(8, 8)
    width = word_width = 16

    def encode_frames(self, images: Sequence[Image], before: Image | None = None) -> Array:
        return np.zeros((len(images), self.width), np.float32)

    def encode_texts(self, texts: Sequence[str]) -> Array:
        own = DrawnEncoder("pictures").encode_texts(texts)
        own[:, 0] = 0
        found: Array = (1 - SHARED**2) ** 0.5 * unit_rows(own)
        found[:, 0] = SHARED
        return found

    def encode_words(self, text: str) -> Array:
        return self.encode_texts([text])


@pytest.fixture
def library(tmp_path: Path) -> Library:
    """The hub is video 1, the video that is meant is video 2; eight others resemble nothing."""
    made = Library.create(tmp_path / "library", encoder=AlikeEncoder(), storage="fp32")
    meant = made.encode(FRAMES, [QUERY])[0]
    meant[0] = 0
    hub = np.eye(16, dtype=np.float32)[0]
    others = np.random.default_rng(0).standard_normal((8, 16)).astype(np.float32)
    others[:, 0] = -1
    made.store.commit([_video(made, row, vector) for row, vector in enumerate([hub, meant, *others])])
    return made


def _video(library: Library, number: int, vector: Array) -> IndexedVideo:
    start = np.arange(4, dtype=np.float64)
    buffer = SectionBuffer(library.folder)
    for section in library.tracks[FRAMES].sections(
        [Piece(unit_rows(np.stack([vector] * 4)), np.stack([start, start + 1], 1))]
    ):
        buffer.add(section)
    path = Path(f"/made up/{number}.mp4")
    return IndexedVideo(NewVideo(path, 1, 0, str(number), duration=4.0, frames=4), {FRAMES: buffer})


@pytest.mark.parametrize("trace", [True, False])
@pytest.mark.parametrize("group_by", ["video", "moment"])
def test_the_hub_does_not_win(library: Library, monkeypatch: pytest.MonkeyPatch, trace: bool, group_by: str) -> None:
    request = SearchRequest(QUERY, trace=trace, group_by=group_by)  # type: ignore[arg-type]
    (found,) = library.search_many([request])
    assert [hit.video.id for hit in found[:2]] == [2, 1]
    monkeypatch.setattr(knowledge, "_HUB_WEIGHT", 0.0)
    (as_scored,) = Library.open(library.folder, encoder=AlikeEncoder()).search_many([request])
    assert [hit.video.id for hit in as_scored[:2]] == [1, 2]


def test_moments_score_as_their_videos(library: Library) -> None:
    by_video, by_moment = (
        library.search_many([SearchRequest(QUERY, group_by=group)])[0] for group in ("video", "moment")
    )
    best = {hit.video.id: hit.score for hit in reversed(list(by_moment))}
    assert best == pytest.approx({hit.video.id: hit.score for hit in by_video}, abs=1e-5)


def test_nothing_stands_out_surely_if_a_hub_scores_best(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """The video that is shown first is then not the one that scores best."""
    best = np.array([1.0], np.float32)
    monkeypatch.setattr(confidence, "chance_of_lead", lambda scores: 0.0)
    monkeypatch.setattr(confidence.Standing, "above_background", lambda self, score: 1.0)
    assert library.search(QUERY).presence == Presence("maybe")
    assert Standing(best, Background(np.zeros(30, np.float32))).presence == Presence("stands out")
