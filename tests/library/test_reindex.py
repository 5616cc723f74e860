"""Changing one's mind: another encoder for a library that exists, without losing the old vectors on the way."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from prvr.cli import main
from prvr.lake import newest, open_library
from prvr.library import FRAMES, FolderStore, Library, LibraryError
from prvr.library.store.claims import claim
from prvr.media import Array, Encoder, Fit, Image, unit_rows
from tests.library.conftest import RATE

SENTENCE = "a red square moves to the left"


class MeanColour(Encoder):
    """Something else than ``plain``, with vectors of another width."""

    name, width, word_width, fit = "mean-colour-1", 3, 3, Fit(16, 16)

    def encode_frames(self, images: Sequence[Image], before: Image | None = None) -> Array:
        return unit_rows(np.stack(images).mean((1, 2)) + 1)

    def encode_texts(self, texts: Sequence[str]) -> Array:
        rows = [[float(name in text) for name in ("red", "green", "blue")] for text in texts]
        return unit_rows(np.array(rows, np.float32))

    def encode_words(self, text: str) -> Array:
        return self.encode_texts([text])


class Interrupted(MeanColour):
    """Stops the process, as Ctrl-C does, in the fourth video."""

    def __init__(self) -> None:
        self.videos = 0

    def encode_frames(self, images: Sequence[Image], before: Image | None = None) -> Array:
        self.videos += before is None
        if self.videos == 4:
            raise KeyboardInterrupt
        return super().encode_frames(images, before)


def answers(lib: Library) -> list[tuple[str, float]]:
    return [(hit.video.name, hit.score) for hit in lib.search(SENTENCE, limit=100)]


def facts(lib: Library) -> list[tuple[object, ...]]:
    return [(video.id, video.path, video.digest, video.tags, video.state) for video in lib.videos()]


@pytest.fixture
def filled(library: Library, own: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    """Six films with tags, and a file that is none; in a folder, and in a lake."""
    monkeypatch.setattr(newest, "CHECK_SECONDS", 0.0)
    monkeypatch.setattr(newest, "PATIENCE", 60.0)
    (own / "broken.mp4").write_text("no video")
    library.add([own], tags=["mine"])
    return library


def test_a_new_encoder_answers_as_in_a_library_made_with_it(filled: Library, own: Path, tmp_path: Path) -> None:
    before, known = answers(filled), facts(filled)
    report = filled.reindex(encoder=MeanColour(), rate=1.0)
    assert report.videos == 6
    fresh = Library.create(tmp_path / "fresh", encoder=MeanColour(), rate=1.0)
    fresh.add([own])
    assert answers(filled) == answers(fresh) != before
    assert facts(filled) == known
    assert filled.status().tokens == fresh.status().tokens
    assert [video.frames for video in filled.videos()] == [video.frames for video in fresh.videos()]
    assert filled.verify().ok
    again = open_library(filled.address, {FRAMES: MeanColour()})
    assert (again.settings.encoder, again.settings.rate) == ("mean-colour-1", 1.0)
    assert answers(again) == answers(fresh)
    if isinstance(filled.store, FolderStore):
        assert len([*(filled.folder / "shards").iterdir()]) == 1  # the old vectors are gone
    assert filled.reindex(encoder=MeanColour()).record is None  # nothing to do
    assert filled.reindex(encoder="plain", rate=RATE).videos == 6  # and back
    assert answers(filled) == before


def test_it_continues_where_it_was_stopped_and_the_old_vectors_answer_until_then(filled: Library, own: Path) -> None:
    before = answers(filled)
    with pytest.raises(KeyboardInterrupt):
        filled.reindex(encoder=Interrupted())
    for lib in (filled, open_library(filled.address)):
        assert answers(lib) == before
        assert lib.status().tokens == filled.status().tokens
        assert lib.verify().ok
    (own / "late.mp4").write_bytes((own / "test0000.mp4").read_bytes())  # a copy that is added in between
    assert len(filled.add([own / "late.mp4"]).added) == 1
    filled.add([own / "late.mp4"], tags=["new"])
    assert filled.remove([own / "test0001.mp4"])
    report = filled.reindex(encoder=MeanColour())
    assert report.videos == 7 - 1 - 2  # three were done, of which one was removed
    found = {hit.video.name: [path.name for path in hit.also_at] for hit in filled.search("red", limit=50)}
    names = {path.name for path in own.glob("*.mp4")} - {"test0001.mp4", "broken.mp4", "late.mp4"}
    assert found == {name: ["late.mp4"] if name == "test0000.mp4" else [] for name in names}
    (late,) = (video for video in filled.videos() if video.name == "late.mp4")
    assert late.tags == ("new",)
    (own / "later.mp4").write_bytes((own / "test0002.mp4").read_bytes() + b"0")
    filled.add([own / "later.mp4"])
    assert max(video.id for video in filled.videos()) == late.id + 1
    assert filled.verify().ok


def test_an_open_library_and_an_open_adder_notice_the_switch(filled: Library, own: Path) -> None:
    other = open_library(filled.address)
    assert answers(other) == answers(filled)
    adder = other.adder()
    filled.reindex(encoder="plain", rate=1.0)
    (own / "late.mp4").write_bytes((own / "test0000.mp4").read_bytes())
    with pytest.raises(LibraryError, match="reindexed"):
        adder.run([own / "late.mp4"])
    assert answers(other) == answers(filled)
    assert other.settings.rate == 1.0
    assert len(other.add([own / "late.mp4"]).added) == 1
    assert other.verify().ok


def test_a_file_that_is_gone_keeps_the_old_vectors_in_use(filled: Library, own: Path) -> None:
    before = answers(filled)
    (own / "test0002.mp4").rename(own / "elsewhere.avi")
    with pytest.raises(LibraryError, match=r"1 of 6 files could not be read, so the old vectors stay in use.*test0002"):
        filled.reindex(encoder=MeanColour())
    assert answers(filled) == before
    filled.remove(missing=True)
    assert filled.reindex(encoder=MeanColour()).videos == 0  # the others were done
    assert len(filled.search("red")) == 5


def test_going_back_to_the_old_encoder_deletes_what_was_begun(in_folder: Library, own: Path) -> None:
    in_folder.add([own])
    before = answers(in_folder)
    shards = {*(in_folder.folder / "shards").iterdir()}
    with pytest.raises(KeyboardInterrupt):
        in_folder.reindex(encoder=Interrupted())
    assert {*(in_folder.folder / "shards").iterdir()} > shards
    report = in_folder.reindex(encoder="plain")
    assert (report.record, report.abandoned) == (None, True)
    assert {*(in_folder.folder / "shards").iterdir()} == shards
    assert answers(in_folder) == before
    assert in_folder.verify().ok
    assert not in_folder.reindex(encoder="plain").abandoned  # there is nothing any more
    assert in_folder.reindex(encoder=MeanColour()).videos == 6


def test_what_another_process_is_building_is_not_deleted(
    in_folder: Library, own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    in_folder.add([own])
    with pytest.raises(KeyboardInterrupt):
        in_folder.reindex(encoder=Interrupted())
    held = claim(in_folder.folder, Path("rebuild"))
    assert held is not None
    command = ["library", "reindex", "--library", in_folder.address, "--encoder", "plain"]
    assert main(command) == 0
    assert "deleted" not in capsys.readouterr().out
    held.release()
    assert main(command) == 0
    assert "the unfinished vectors of an interrupted reindex were deleted" in capsys.readouterr().out


def test_a_library_with_a_trained_model_has_its_encoder(trained: Library) -> None:
    with pytest.raises(LibraryError, match="which fixes its encoder"):
        trained.reindex(encoder="plain")
    with pytest.raises(LibraryError, match="nothing to change"):
        trained.reindex()


def test_an_older_prvr_refuses_a_library_with_new_vectors_in_it(in_folder: Library, own: Path) -> None:
    in_folder.add([own])
    with pytest.raises(KeyboardInterrupt):
        in_folder.reindex(encoder=Interrupted())
    assert json.loads((in_folder.folder / "library.json").read_text())["format"] == 3


@pytest.mark.slow
def test_kills_at_random_moments_leave_a_library_that_answers(filled: Library, own: Path) -> None:
    before, rng, ends = answers(filled), random.Random(0), []
    filled.reindex(encoder="plain", rate=8.0)
    after = answers(filled)
    filled.reindex(encoder="plain", rate=RATE)
    command = [sys.executable, "-m", "prvr", "library", "reindex", "--library", filled.address, "--rate", "8"]
    for _ in range(20):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=os.environ | {"OMP_NUM_THREADS": "1"})
        try:
            process.wait(rng.uniform(0.5, 8))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        ends.append(process.returncode)
        lib = open_library(filled.address)
        assert answers(lib) in (before, after)
        assert lib.verify().ok
        if lib.settings.rate == 8:
            break
    else:
        assert subprocess.run(command, check=False).returncode == 0
    assert answers(open_library(filled.address)) == after
