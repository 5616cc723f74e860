"""``prvr library`` and ``prvr search``: what they print, how they fail."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from prvr.cli import main
from prvr.cli.search import sparkline
from prvr.library import LibrarySettings, MomentEvidence
from prvr.media import PlainEncoder
from prvr.worlds import RENDERED_SIZES, RenderedWorld, render_world


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> RenderedWorld:
    return render_world(tmp_path_factory.mktemp("rendered") / "films", RENDERED_SIZES["tiny"])


@pytest.fixture
def made(films: RenderedWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A library of four films, and of a file that is none."""
    monkeypatch.setenv("PRVR_LIBRARY", str(tmp_path / "library"))
    paths = [str(path) for path in sorted(films.videos.values())[:4]]
    broken = tmp_path / "broken.mp4"
    broken.write_text("no video")
    assert (
        main(["library", "add", *paths, str(broken), "--encoder", "plain", "--rate", "2", "--tags", "some"]) == 1
    )  # one failed
    return tmp_path / "library"


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    capsys.readouterr()
    assert main(list(words)) == code
    captured = capsys.readouterr()
    return " ".join((captured.out + captured.err).split())


def test_a_library_from_adding_to_removing(
    made: Path, films: RenderedWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(films.folder / "videos")
    text = said(capsys, "library", "add", folder)
    assert "12 added, 4 unchanged" in text
    assert "16 videos" in said(capsys, "library", "status")
    assert json.loads(said(capsys, "library", "status", "--json"))["failed"] == 1
    assert "broken.mp4" in said(capsys, "library", "list", "--failed")
    assert len(json.loads(said(capsys, "library", "list", "--json"))) == 17
    assert "1 could not be read" in said(capsys, "library", "add", "--retry", code=1)
    assert "everything is complete" in said(capsys, "library", "verify")
    assert "removed 16 videos" in said(capsys, "library", "remove", folder)
    assert "holds no videos yet" in said(capsys, "search", "red", code=1)


def test_status_counts_one_line_as_one(
    films: RenderedWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    film = tmp_path / "film.mp4"
    shutil.copy2(films.videos["test0001"], film)
    film.with_suffix(".srt").write_text("1\n00:00:00,500 --> 00:00:01,500\na red door\n", encoding="utf-8")
    place = str(tmp_path / "library")
    assert main(["library", "add", str(film), "--library", place, "--encoder", "plain"]) == 0
    assert ", 1 line of subtitles" in said(capsys, "library", "status", "--library", place)


def test_the_numbered_name_of_plain_is_the_same_encoder(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = json.loads(said(capsys, "library", "list", "--json"))[0]["path"]
    assert "1 unchanged" in said(capsys, "library", "add", path, "--encoder", PlainEncoder.name)
    assert "encoder plain," in said(capsys, "library", "status")
    other = said(capsys, "library", "add", path, "--encoder", "siglip2", code=1)
    assert "change it with `prvr library reindex --encoder siglip2`" in other


def test_counts_agree_between_the_commands(
    films: RenderedWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies, broken files and lost links: one word and one number for each, wherever they are counted."""
    monkeypatch.setenv("PRVR_LIBRARY", str(tmp_path / "library"))
    folder = tmp_path / "films"
    folder.mkdir()
    first, second, *_ = sorted(films.videos.values())
    for name, film in (("first.mp4", first), ("copy.mp4", first), ("second.mp4", second)):
        shutil.copy(film, folder / name)
    (folder / "broken.mp4").write_text("no video")
    (folder / "lost.mp4").symlink_to(tmp_path / "nowhere.mp4")
    added = said(capsys, "library", "add", str(folder), "--encoder", "plain", code=1)
    assert added.startswith("3 added, 1 could not be read, 1 skipped (")
    assert f"{tmp_path / 'library'} now holds 3 videos" in added
    assert f"failed {folder / 'broken.mp4'}" in added
    assert f"skipped {folder / 'lost.mp4'}" in added
    status = json.loads(said(capsys, "library", "status", "--json"))
    assert (status["videos"], status["failed"]) == (3, 1)
    shown = said(capsys, "library", "status")
    length = re.search(r"\((\S+) of video in", added)
    assert length is not None
    assert shown.startswith(f"3 videos, {length[1]} in all; 1 file could not be read")
    listed = json.loads(said(capsys, "library", "list", "--json"))
    assert sorted(video["state"] for video in listed) == ["failed", "ok", "ok", "ok"]
    assert len(json.loads(said(capsys, "library", "list", "--failed", "--json"))) == 1
    found = json.loads(said(capsys, "search", "red", "--json"))
    assert found["videos_searched"] == 3
    assert len(found["hits"]) == 2  # the copy is the same hit
    again = said(capsys, "library", "add", str(folder), code=1)
    assert again.startswith("0 added, 3 unchanged, 1 could not be read, 1 skipped")
    assert said(capsys, "library", "remove", str(folder)) == "removed 3 videos, and 1 file that could not be read"
    assert said(capsys, "library", "status").startswith("0 videos")


def test_a_list_that_is_piped_keeps_every_path_on_one_line(
    films: RenderedWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRVR_LIBRARY", str(tmp_path / "library"))
    film = tmp_path / ("a folder with a long name " * 5) / "film.mp4"
    film.parent.mkdir()
    shutil.copy(min(films.videos.values()), film)
    assert main(["library", "add", str(film), "--encoder", "plain"]) == 0
    for command in (["library", "list"], ["search", "red"]):
        capsys.readouterr()
        main(command)
        lines = capsys.readouterr().out.splitlines()
        assert any(line.endswith(str(film)) for line in lines), lines
        assert all(line == line.rstrip() for line in lines)


def test_brackets_in_the_name_of_a_copy_are_printed(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("copy [b]", "copy[/b]"):
        text = said(capsys, "library", "copy", str(made), str(tmp_path / name))
        assert f"5 copied, 0 unchanged: {tmp_path / name}" in text


def test_durations_are_written_as_people_do(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(said(capsys, "search", "red", "--json", "--max-duration", "1h"))["videos_searched"] == 4
    assert json.loads(said(capsys, "search", "red", "--json", "--min-duration=0:59", code=1))["hits"] == []
    text = said(capsys, "search", "red", "--min-duration", "soon", code=1)
    assert "--min-duration: 'soon' is not a length of time: write it like 90, 90s, 1m30s, 1h or 1:30:00" in text


def test_search_shows_a_table_or_json_and_cuts_clips(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = said(capsys, "search", "a red square moves left", "--limit", "2")
    assert "scores can be compared within this search only; more: --offset 2" in text
    assert "█" in text
    found = json.loads(
        said(capsys, "search", "a red square", "--json", "--limit", "2", "--export", str(tmp_path / "cut"))
    )
    assert len(found["hits"]) == 2
    assert found["note"]
    clips = [Path(hit["clip"]) for hit in found["hits"]]
    assert all(clip.stat().st_size > 1000 for clip in clips)
    assert len(found["hits"][0]["evidence"]["routed"]) == len(found["hits"][0]["evidence"]["spans"])
    assert json.loads(said(capsys, "search", "red", "--json", "--tags", "none", code=1))["hits"] == []


def test_mistakes_are_one_line(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, expected in (
        (["search"], "give one of: a sentence"),
        (["search", "x", "--library", str(tmp_path)], "is not a library"),
        (["search", "x", "--after", "soon"], "is not a date"),
        (["search", "x", "--limit", "0"], "limit must be at least 1"),
        (["search", "--picture", str(tmp_path / "broken.mp4")], "is not a picture"),
        (["search", "a red square", "--export", str(tmp_path / "broken.mp4")], "is a file: give a folder"),
        (["serve", str(made), "--host", "192.0.2.1", "--token", 24 * "x"], "choose another --host"),
        (["library", "add"], "no files were given"),
        (["library", "add", str(tmp_path / "nowhere")], "nowhere does not exist"),
        (["library", "add", str(tmp_path), "--encoder", "plain", "--rate", "5"], "was created with rate 2.0, not 5.0"),
        (["library", "add", "x", "--cluster-workers", "7"], "--cluster-workers applies only to a cluster"),
        (["library", "add", "x", "--cluster", "local", "--processes", "2"], "give --cluster-workers instead"),
        (["library", "remove"], "no videos were given"),
        (["library", "remove", "x.mp4"], "is not in the library"),
    ):
        text = said(capsys, *words, code=1)
        assert text.startswith("error:"), words
        assert expected in text
        assert "Traceback" not in text
    assert "no command 'frobnicate'." in said(capsys, "library", "frobnicate", code=2)


def test_a_usual_value_that_is_given_counts_like_any_other(
    made: Path, films: RenderedWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The library's rate is 2, the usual one is 1."""
    advice = "leave --rate out, change it with `prvr library reindex --rate 1.0`, or create another library"
    for words in (["--rate", "1"], ["--rate=1.0"]):
        for command in ("add", "watch"):
            text = said(capsys, "library", command, str(tmp_path), *words, code=1)
            assert f"was created with rate 2.0, not 1.0: {advice}" in text
    film = str(min(films.videos.values()))
    assert "1 unchanged" in said(capsys, "library", "add", film, "--rate", "2", "--window", "2s", "--encoder", "plain")


def test_retry_alone_creates_no_library(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    library = tmp_path / "library"
    text = said(capsys, "library", "add", "--retry", "--encoder", "plain", "--library", str(library), code=1)
    assert f"there is no library at {library}, so there is nothing to try again" in text
    assert not library.exists()


def test_a_sparkline_follows_the_curve() -> None:
    spans = np.array([(t, t + 1) for t in range(4)], np.float32)
    rising = np.array([0.0, 0.1, 0.5, 1.0], np.float32)
    evidence = MomentEvidence(spans, rising, rising, rising, rising, np.ones(1, np.float32))
    assert sparkline(evidence, columns=4) == "▁▁▅█"


def test_a_folder_without_videos_is_said_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "folder").mkdir()
    assert main(["library", "add", str(tmp_path / "folder"), "--library", str(tmp_path / "library")]) == 1
    assert "no video was found in the given paths" in capsys.readouterr().err
    assert not (tmp_path / "library").exists()  # nothing was decided yet


def test_decoders_start_before_a_new_library_is_made(
    films: RenderedWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They import what they need while this process loads the encoder."""
    library, started = tmp_path / "library", []

    def start(files: list[Path], settings: LibrarySettings, processes: int | None) -> None:
        started.append((len(files), settings.encoder, processes, library.exists()))

    monkeypatch.setattr("prvr.cli.library.start_decoders", start)
    paths = [str(path) for path in sorted(films.videos.values())[:2]]
    words = ["library", "add", *paths, "--library", str(library), "--encoder", "plain", "--processes", "2"]
    assert main(words) == main(words) == 0
    assert started == [(2, "plain", 2, False)]
