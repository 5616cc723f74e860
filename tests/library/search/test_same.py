"""The same video in several files is one hit that names the others."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from prvr.library import Filters, Library
from prvr.media import open_video, write_video
from tests.library.conftest import RATE

SENTENCE = "a red square moves to the left"


def reencode(film: Path, place: Path, quality: int) -> Path:
    """The same pictures in another file, compressed again."""
    with open_video(film) as opened:
        fps = opened.info.fps
        assert fps is not None
        pictures = [frame.image for frame in opened.frames(rate=fps)]
    return write_video(place, pictures, fps=fps, options={"crf": str(quality)})


def shown(lib: Library, **options: object) -> list[tuple[str, list[str]]]:
    hits = lib.search(SENTENCE, limit=100, **options)  # type: ignore[arg-type]
    return [(hit.video.name, [path.name for path in hit.also_at]) for hit in hits]


@pytest.fixture
def several(library: Library, own: Path) -> Library:
    """Six films; the first also as a copy and two links, the second compressed again."""
    library.add([own])
    (own / "more").mkdir()
    shutil.copy(own / "test0000.mp4", own / "more" / "copy.mp4")
    (own / "more" / "link.mp4").symlink_to(own / "test0000.mp4")
    (own / "more" / "hard link.mp4").hardlink_to(own / "test0000.mp4")
    reencode(own / "test0001.mp4", own / "more" / "smaller.mp4", quality=26)
    assert len(library.add([own]).added) == 4
    return library


def test_links_copies_and_re_encodes_are_named_by_one_hit(several: Library, own: Path) -> None:
    found = dict(shown(several))
    assert sorted(found) == sorted(path.name for path in own.glob("*.mp4"))
    assert found["test0000.mp4"] == ["copy.mp4", "hard link.mp4", "link.mp4"]
    assert found["test0001.mp4"] == ["smaller.mp4"]
    result = several.search(SENTENCE, limit=100)
    assert result.total == 10  # files that were searched
    by_path = {hit["path"]: hit["also_at"] for hit in result.to_dict(evidence=False)["hits"]}
    assert by_path[str(own / "test0001.mp4")] == [str(own / "more" / "smaller.mp4")]


def test_pages_count_what_is_shown(several: Library) -> None:
    whole = shown(several)
    for size in (1, 2, 5):
        paged, offset = [], 0
        while True:
            page = several.search(SENTENCE, limit=size, offset=offset)
            paged += [(hit.video.name, [path.name for path in hit.also_at]) for hit in page]
            if page.next_offset is None:
                break
            offset = page.next_offset
        assert paged == whole


def test_a_filter_shows_the_file_that_passes_and_names_the_others(several: Library, own: Path) -> None:
    found = dict(shown(several, filters=Filters(folder=own / "more")))
    assert found == {"copy.mp4": ["test0000.mp4", "hard link.mp4", "link.mp4"], "smaller.mp4": []}


def test_a_moment_is_shown_once(several: Library, own: Path) -> None:
    before = several.search(SENTENCE, limit=100, group_by="moment")
    moments = [(hit.video.name, hit.start) for hit in before]
    assert not {name for name, _ in moments} & {"copy.mp4", "link.mp4", "hard link.mp4", "smaller.mp4"}
    assert {len(hit.also_at) for hit in before if hit.video.name == "test0000.mp4"} == {3}
    several.remove([own / "more"])
    alone = several.search(SENTENCE, limit=100, group_by="moment")
    assert [(hit.video.name, hit.start) for hit in alone] == moments


def test_two_pictures_that_hardly_change_are_two_videos(library: Library, tmp_path: Path) -> None:
    for name, blue in (("sea", 220), ("sky", 215)):
        picture = np.zeros((48, 64, 3), np.uint8)
        picture[..., 2] = blue
        write_video(tmp_path / f"{name}.mp4", [picture] * 20, fps=4)
    library.add([tmp_path / "sea.mp4", tmp_path / "sky.mp4"])
    assert [hit.also_at for hit in library.search("something blue")] == [(), ()]


def test_films_that_only_resemble_each_other_stay_apart(whole: Library) -> None:
    assert whole.settings.rate == RATE
    result = whole.search(SENTENCE, limit=100)
    assert len(result) == result.total
    assert not any(hit.also_at for hit in result)
