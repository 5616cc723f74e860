"""Lines of a caption table find their videos, and splits never share one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from unicodedata import normalize

import numpy as np
import pytest

from prvr.data import CaptionRow, DataError
from prvr.media import AnnotatedVideos, match_captions, write_video

TABLE = Path("captions.csv")


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two films of 4 seconds with one name in two folders, one more, and a file that is none."""
    folder = tmp_path_factory.mktemp("films")
    frames = [np.full((48, 64, 3), 90, np.uint8)] * 8
    for name in ("one/holiday.mp4", "two/holiday.mp4", "my garden#1.mp4"):
        (folder / name).parent.mkdir(exist_ok=True)
        write_video(folder / name, frames, fps=2)
    (folder / "broken.mp4").write_text("no video")
    return folder


@pytest.fixture(scope="module")
def match(films: Path) -> Callable[..., AnnotatedVideos]:
    files = sorted(path for path in films.rglob("*.mp4"))

    def matched(*rows: CaptionRow) -> AnnotatedVideos:
        return match_captions(TABLE, rows, files, films)

    return matched


def row(video: str, start: float = 0.0, end: float = 2.0, line: int = 2, sentence: str = "it is grey", split=None):  # type: ignore[no-untyped-def]
    return CaptionRow(line, video, start, end, sentence, split)


@pytest.mark.parametrize("name", ["one/holiday.mp4", "one/holiday", "./one/holiday.mp4", "one\\holiday.mp4"])
def test_a_video_is_named_by_its_path_in_the_folder(name: str, match: Callable[..., AnnotatedVideos]) -> None:
    assert list(match(row(name)).videos) == ["one-holiday"]


def test_a_name_alone_is_enough_if_it_is_the_only_one(match: Callable[..., AnnotatedVideos], films: Path) -> None:
    found = match(row("my garden#1"))
    assert found.videos == {"my-garden-1": films / "my garden#1.mp4"}
    assert len(found.unused) == 3
    with pytest.raises(
        DataError, match=r"captions.csv:2: 'holiday.mp4' may be one/holiday.mp4, two/holiday.mp4; write"
    ):
        match(row("holiday.mp4"))
    with pytest.raises(
        DataError, match=r"captions.csv:2: there is no video 'one/holyday.mp4' in .*Did you mean 'one/hol"
    ):
        match(row("one/holyday.mp4"))


def test_accents_may_be_written_in_two_ways(tmp_path: Path) -> None:
    files = [tmp_path / folder / normalize("NFD", "café.mp4") for folder in ("", "2024")]
    for path in files:
        path.parent.mkdir(exist_ok=True)
        write_video(path, [np.full((48, 64, 3), 90, np.uint8)] * 8, fps=2)
    for name, path in zip(("café.mp4", "2024/café"), files, strict=True):
        assert [*match_captions(TABLE, [row(normalize("NFC", name))], files, tmp_path).videos.values()] == [path]


def test_times_are_checked_against_the_film(match: Callable[..., AnnotatedVideos]) -> None:
    with pytest.raises(DataError, match=r"captions.csv:2: the end \(6 s\) is after the end of one/holiday.mp4 \(4 s\)"):
        match(row("one/holiday.mp4", end=6.0))
    with pytest.raises(DataError, match=r"captions.csv:2: the start \(4 s\) is"):
        match(row("one/holiday.mp4", 4.0, 4.5))
    assert match(row("one/holiday.mp4", end=4.6)).rows[0].end == 4.0  # people round up


def test_what_cannot_be_read_or_repeats_is_left_out(match: Callable[..., AnnotatedVideos], films: Path) -> None:
    found = match(row("one/holiday"), row("one/holiday.mp4", line=3), row("broken.mp4", line=4))
    assert list(found.unreadable) == [films / "broken.mp4"]
    assert (len(found.rows), found.repeated) == (1, 1)


def test_one_video_is_in_one_split(match: Callable[..., AnnotatedVideos]) -> None:
    with pytest.raises(DataError, match=r"captions.csv:3: one/holiday is in test here and in train on line 2"):
        match(row("one/holiday.mp4", split="train"), row("one/holiday", line=3, split="test"))
    given = match(row("one/holiday", split="train"), row("two/holiday", split="train", line=3))
    assert list(given.split()) == ["train"]
    with pytest.raises(DataError, match="1 of 1 videos with sentences are for training: at least two"):
        match(row("one/holiday", split="train")).split()


def many(number: int) -> AnnotatedVideos:
    names = [f"film{n}" for n in range(number)]
    rows = [CaptionRow(n + 2, name, 0.0, 1.0, f"sentence {n % 3}") for n, name in enumerate(names)]
    return AnnotatedVideos({name: Path(name) for name in names}, dict.fromkeys(names, 5.0), rows, {}, [], 0)


def test_splits_are_drawn_by_video_and_hardly_change_with_more_videos() -> None:
    first, again, more = many(50).split(), many(50).split(), many(51).split()
    assert {split: len(part) for split, part in first.items()} == {"train": 40, "val": 5, "test": 5}
    assert first == again
    assert many(50).split(seed=1) != first
    held, held_later = ({a.moment.video for a in part["test"]} for part in (first, more))
    assert len(held & held_later) >= 3
    assert list(many(50).split(test=0.0)) == ["train", "val"]
    with pytest.raises(DataError, match="videos with sentences: 3; at least 4 are needed"):
        many(3).split()
    with pytest.raises(DataError, match="below 1 together"):
        many(50).split(val=0.5, test=0.5)


def test_a_sentence_that_is_said_of_several_videos_has_several_right_answers() -> None:
    train = many(50).split()["train"]
    same = [annotation for annotation in train if annotation.sentence == "sentence 0"]
    assert {frozenset(annotation.positives) for annotation in same} == {frozenset(a.moment.video for a in same)}
    assert all(annotation.positives[0] == annotation.moment.video for annotation in train)
