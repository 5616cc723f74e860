"""Videos become a dataset that training and evaluation read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from prvr.backbones import build
from prvr.data import RECIPE_FILE, Annotation, DataError, Dataset, Moment, check_collections
from prvr.media import Recipe, open_encoder, write_dataset, write_video
from prvr.scoring import Gallery, score
from prvr.trace import Trace
from prvr.worlds import RENDERED_SIZES, RenderedWorld, render_world, write_rendered_dataset


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> RenderedWorld:
    return render_world(tmp_path_factory.mktemp("rendered") / "films", RENDERED_SIZES["tiny"])


def test_a_rendered_world_is_a_complete_collection(rendered: RenderedWorld, tmp_path: Path) -> None:
    encoder = open_encoder("plain")
    found = write_rendered_dataset(tmp_path, rendered, encoder, text="words", workers=2, progress=False)
    assert not found.failed
    report = check_collections(tmp_path)
    assert report.ok, [row for row in report.rows if row.state == "error"]
    recipe = Recipe.from_json((found.folder / RECIPE_FILE).read_text("utf-8"))
    assert recipe == found.recipe
    assert recipe.rate == 2.0
    of_text = Recipe.from_json((tmp_path / "rendered" / "TextData" / RECIPE_FILE).read_text("utf-8"))
    assert of_text == encoder.text_recipe(words=True)
    train = Dataset.load(tmp_path, "rendered", "train")
    assert len(train) == RENDERED_SIZES["tiny"].train
    assert (train.visual_width, train.query_width) == (encoder.width, encoder.word_width)
    assert train.moments is not None
    with pytest.raises(DataError, match="exists already"):
        write_rendered_dataset(tmp_path, rendered, encoder, progress=False)


def test_sentences_as_vectors_suit_the_frozen_backbone(rendered: RenderedWorld, tmp_path: Path) -> None:
    write_rendered_dataset(tmp_path, rendered, open_encoder("plain"), text="vectors", progress=False)
    test = Dataset.load(tmp_path, "rendered", "test")
    frozen = build("frozen", visual_width=test.visual_width, query_width=test.query_width, local="frames")
    gallery = Gallery.build(frozen, Trace(frozen.width), test.video_batches())
    queries = test.query_batch(range(len(test.captions)))
    ranked = score(frozen.encode_queries(queries.tokens, queries.mask), gallery)
    best = [row in right for row, right in zip(ranked.argmax(1).tolist(), test.positives, strict=True)]
    assert sum(best) / len(best) > 1.5 / len(test)  # well above chance without any training


def test_files_that_cannot_be_read_are_reported_and_the_rest_goes_on(tmp_path: Path) -> None:
    bad = tmp_path / "bad.mp4"
    bad.write_text("no video")
    good = write_video(tmp_path / "good.mp4", [np.zeros((48, 64, 3), np.uint8)] * 8, fps=2)
    captions = [
        Annotation(f"{video}#enc#0", "it is dark", Moment(video, 0.0, 4.0, 4.0), (video,)) for video in ("bad", "good")
    ]
    result = write_dataset(
        tmp_path, "mine", {"bad": bad, "good": good}, {"train": captions}, open_encoder("plain"), progress=False
    )
    assert list(result.failed) == ["bad"]
    assert result.frames == {"good": 4}
    assert [caption.video for caption in Dataset.load(tmp_path, "mine", "train").captions] == ["good"]
    with pytest.raises(DataError, match="No video could be read"):
        write_dataset(tmp_path, "none", {"bad": bad}, {"train": captions}, open_encoder("plain"), progress=False)
