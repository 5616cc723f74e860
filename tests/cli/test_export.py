"""``prvr export``: what it writes, and what it refuses."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

from prvr.cli import main
from prvr.library import Library
from prvr.media import open_video, parse_moments, write_video


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of two films: four seconds of red then four of blue, and eight of green in another size."""
    folder = tmp_path_factory.mktemp("films")
    red, blue, green = (
        np.full((96, 128, 3), colour, np.uint8) for colour in ((200, 20, 20), (20, 40, 200), (20, 160, 40))
    )
    write_video(folder / "one.mp4", [red] * 16 + [blue] * 16, fps=4)
    write_video(folder / "two.mp4", [green[:64]] * 40, fps=5)
    Library.create(folder / "library", encoder="plain").add([folder / "one.mp4", folder / "two.mp4"])
    return folder


@pytest.fixture(autouse=True)
def _library(films: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRVR_LIBRARY", str(films / "library"))
    monkeypatch.chdir(tmp_path)


def test_the_hits_of_a_search_become_a_film(films: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "--query", "something blue", "--limit", "1", "--out", "blue.mp4"]) == 0
    assert "wrote blue.mp4 (1 moment)" in capsys.readouterr().err
    with open_video("blue.mp4") as video:
        assert video.info.duration == pytest.approx(4.0, abs=0.3)
        for frame in video.frames(1.0):
            assert np.abs(frame.image.mean((0, 1)) - (20, 40, 200)).max() < 6
    assert (
        main(["export", str(films / "library"), "--query", "something blue", "--format", "clips", "--out", "blue"]) == 0
    )
    with zipfile.ZipFile("blue.zip") as archive:
        assert len(archive.namelist()) == 3


def test_what_a_search_prints_is_exported(
    films: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    main(["search", "something red", "--limit", "1", "--json"])
    printed = capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(printed.encode())))
    assert main(["export", "--moments", "-", "--out", "red.csv"]) == 0
    (moment,) = parse_moments(Path("red.csv").read_text("utf-8"))
    hit = json.loads(printed)["hits"][0]
    assert (str(moment.video), moment.start, moment.label) == (hit["path"], hit["start"], "something red")


def test_a_table_beside_its_videos_is_cut(films: Path, tmp_path: Path) -> None:
    (films / "moments.csv").write_text("video,start,end\none.mp4,3,0:05\ntwo.mp4,1,2\n", "utf-8")
    assert main(["export", "--moments", str(films / "moments.csv"), "--out", "film.mp4", "--margin", "0.5s"]) == 0
    with open_video(tmp_path / "film.mp4") as video:
        assert video.info.duration == pytest.approx(5.0, abs=0.3)


@pytest.mark.parametrize("out", ["film.mp4", "moments.otio"])
def test_a_video_that_is_gone_is_named_and_the_rest_is_written(
    films: Path, out: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if out.endswith(".otio"):
        pytest.importorskip("opentimelineio", reason='timelines need: pip install "prvr[export]"')
    Path("moments.csv").write_text(f"video,start,end\n{films}/one.mp4,1,2\n{films}/gone.mp4,1,2\n", "utf-8")
    assert main(["export", "--moments", "moments.csv", "--out", out]) == 1
    said = capsys.readouterr().err
    assert "gone.mp4: does not exist" in said
    assert f"wrote {out} (1 moment)" in said


def test_mistakes_are_one_line(films: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("there.csv").write_text("precious")
    Path("bad.csv").write_text("video,start,end\na.mp4,x,2\n")
    Path("empty.csv").write_text("video,start,end\n")
    Path("noise.csv").write_bytes(b"\xff\xfe\x00")
    Path("folder.csv").mkdir()
    query = ["--query", "something blue"]
    of_search = ["--limit", "3", "--tags", "a", "--folder", "b", "--min-duration", "1h"]
    for words, expected in (
        ([], 'give either --query "a red door" or --moments FILE'),
        ([*query, "--moments", "x.csv", "--out", "a.mp4"], "give either --query"),
        (query, "give --out FILE"),
        ([*query, "--out", "film.avi"], "the suffix says what is written, one of .zip (clips), .mp4 (film)"),
        ([*query, "--out", "there.csv"], "there.csv exists: choose another --out, or add --overwrite"),
        ([*query, "--out", "folder.csv"], "is a folder"),
        ([*query, "--out", "no/where.csv"], "there is no folder no"),
        ([*query, "--out", "a.csv", "--margin", "-1"], "--margin: '-1' is not a length of time"),
        (["--query", " ", "--out", "a.csv"], "--query is empty"),
        ([*query, "--out", "a.csv", "--tags", "none"], "nothing was found"),
        ([*query, "--out", "a.csv", "--min-duration", "1h"], "nothing was found"),
        (["nowhere", *query, "--out", "a.csv"], "is not a library"),
        (["--moments", "gone.csv", "--out", "a.csv"], "there is no such file"),
        (
            ["--moments", "-", "--out", "a.csv", *of_search],
            "without any search: leave out --limit, --folder, --min-duration, --tags",
        ),
        (["films.prvr", "--moments", "-", "--out", "a.csv"], "without any search: leave out films.prvr"),
        (["--moments", "bad.csv", "--out", "a.csv"], "bad.csv, line 2: start should be a time"),
        (["--moments", "empty.csv", "--out", "a.csv"], "holds no moments"),
        (["--moments", "noise.csv", "--out", "a.csv"], "is not text in UTF-8"),
    ):
        capsys.readouterr()
        assert main(["export", *words]) == 1, words
        said = " ".join(capsys.readouterr().err.split())
        assert "error:" in said
        assert expected in said
        assert "Traceback" not in said
    assert Path("there.csv").read_text() == "precious"
    assert main(["export", *query, "--out", "there.csv", "--overwrite"]) == 0
    assert Path("there.csv").read_text().startswith("video,start,end,label")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for other processes")
def test_ctrl_c_leaves_no_half_file(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (96, 160, 3), dtype=np.uint8)
    film = write_video(tmp_path / "long.mp4", (np.roll(noise, 8 * n, 1) for n in range(50)), fps=25)
    Path("moments.csv").write_text("video,start,end\n" + f"{film},0,2\n" * 2000)
    command = [sys.executable, "-m", "prvr", "export", "--moments", "moments.csv", "--out", "film.mp4"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    ends = time.monotonic() + 60
    while not list(tmp_path.glob(".film.mp4.*")):
        assert time.monotonic() < ends
        assert process.poll() is None
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert sorted(path.name for path in tmp_path.iterdir()) == ["long.mp4", "moments.csv"]
