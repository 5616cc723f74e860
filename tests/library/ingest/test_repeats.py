"""A library encodes frames that repeat the last one only once, and finds what it would find anyway."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from prvr.cli import main
from prvr.library import Library, LibraryError, read_record
from prvr.media import USUAL_REPEATS, Image, write_video
from prvr.worlds import paint_shape
from tests.library.conftest import RATE

SECONDS, SHOWN = 30, (17.2, 18.2)  # of the film, and of a red circle that covers 2 % of it


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A grey wall with stripes. Once, a small red circle is there for a second."""
    wall = np.full((96, 128, 3), 120, np.float32)
    wall[::8] = 150

    def picture(time: float) -> Image:
        there = SHOWN[0] <= time < SHOWN[1]
        seen = paint_shape(wall.copy(), "circle", "red", 0.8, 0.25, 0.1) if there else wall
        return seen.astype(np.uint8)

    path = tmp_path_factory.mktemp("still") / "still.mp4"
    return write_video(path, [picture(number / 10) for number in range(10 * SECONDS)], fps=10)


def test_a_short_small_event_is_found_and_every_sample_is_there(library: Library, still: Path, tmp_path: Path) -> None:
    report = library.add([still])
    assert report.frames == SECONDS * RATE == library.status().frames
    assert report.repeated > 0.8
    best = library.search("a red circle")[0]
    assert max(best.start, SHOWN[0]) < min(best.end, SHOWN[1])
    assert best.end - best.start < 4

    every = Library.create(tmp_path / "every", encoder="plain", rate=RATE, repeats=0.0)
    assert every.add([still]).repeats == 0
    other = every.search("a red circle")[0]
    assert (best.start, best.end) == (other.start, other.end)
    spans = [lib.explain("a red circle", lib.videos()[0].id).evidence.spans for lib in (library, every)]
    np.testing.assert_array_equal(*spans)


def test_a_library_keeps_what_it_was_made_with(in_folder: Library, still: Path) -> None:
    assert in_folder.settings.repeats == USUAL_REPEATS == in_folder.record.recipes["frames"]["repeats"]
    record = json.loads((in_folder.folder / "library.json").read_text())
    del (
        record["settings"]["repeats"],
        record["recipes"]["frames"]["repeats"],
        record["checksum"],
    )  # as an older one wrote it
    (in_folder.folder / "library.json").write_text(json.dumps(record))
    old = Library.open(in_folder.folder)
    assert old.settings.repeats == 0.0
    assert old.add([still]).repeats == 0
    old.reindex(repeats=6.0)
    assert read_record(in_folder.folder).settings.repeats == 6.0


def test_the_command_line_says_it(still: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def added(name: str, *options: str) -> str:
        code = main(["library", "add", str(still), "--library", str(tmp_path / name), *options])
        said = capsys.readouterr()
        return f"{code} {' '.join((said.out + said.err).split())}"

    assert "83 % of the frames look like the one before" in added("usual", "--encoder", "plain")
    assert "frames look like" not in added("every", "--encoder", "plain", "--every-frame")
    assert added("every").startswith("0 0 added, 1 unchanged")  # keeps its setting
    assert "leave --every-frame out, change it with `prvr library reindex --repeats 0" in added(
        "usual", "--every-frame"
    )
    assert "repeats must lie between 0" in added("new", "--encoder", "plain", "--repeats", "300")


def test_a_wrong_threshold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LibraryError, match="repeats must lie between 0"):
        Library.create(tmp_path / "library", encoder="plain", repeats=-1.0)
