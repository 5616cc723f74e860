"""Names of files cannot control the terminal, wherever they are printed."""

from __future__ import annotations

import io
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.progress import Progress
from rich.table import Table

from prvr.cli import main
from prvr.cli.progress import encoding_progress
from prvr.library import AddProgress
from prvr.media.writer import write_video
from prvr.processes import python_command
from prvr.server import problems
from prvr.terminal import Console

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\rred\u202e4pm"


def test_texts_tables_and_bars_are_escaped() -> None:
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=200, color_system="standard")
    console.print(f"one {EVIL}", style="bold", markup=False)
    table = Table(EVIL)
    table.add_row(EVIL)
    console.print(table)
    with Progress(console=console) as bar:
        bar.add_task(EVIL, total=1)
        console.print(f"two {EVIL}")
    text = written.getvalue()
    assert text.count("\\x1b[2J") >= 5
    for what in ("\x1b]0", "\x1b[2J", "\x9b", "\x07", "\u202e"):
        assert what not in text


@pytest.fixture
def evil_films(tmp_path: Path) -> Path:
    """A film, a file that is none, and one whose name is no text, all with control characters in their names."""
    folder = tmp_path / "films"
    folder.mkdir()
    drawn = write_video(tmp_path / "drawn.mp4", [np.full((32, 32, 3), 200, np.uint8)] * 4, fps=2)
    shutil.copy(drawn, folder / f"good {EVIL}\nforged line.mp4")
    (folder / f"bad {EVIL}\nerror: forged.mp4").write_text("no film")
    (folder / os.fsdecode(b"odd \xff\x1b[2J.mp4")).write_text("no film")
    return folder


def test_commands_escape_what_files_are_called(
    evil_films: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRVR_LIBRARY", str(tmp_path / "library"))
    for words in (
        ["library", "add", str(evil_films), "--encoder", "plain"],
        ["library", "list"],
        ["search", "something grey"],
        ["library", "status"],
        ["library", "add", str(evil_films / f"{EVIL}.mp4")],
    ):
        main(words)
        found = capsys.readouterr()
        for text in (found.out, found.err):
            assert not set(text) & set("\x1b\x07\x9b\r\u202e"), words
            assert not any(line.startswith(("forged", "error: forged")) for line in text.splitlines()), words
    (gone,) = [path for path in evil_films.iterdir() if path.name.startswith("good")]
    gone.unlink()
    main(["library", "verify"])
    assert "\x1b" not in capsys.readouterr().out


def test_a_progress_bar_escapes_the_current_file(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    with encoding_progress() as (_, show):
        show(AddProgress(Path(f"{EVIL}\nforged"), 1, 0, 10, 5, 1.0, 1.0))
    assert "\x1b[2J" not in written.getvalue()
    assert "\nforged" not in written.getvalue()


def test_the_log_of_the_server_is_escaped(caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger(problems._log.name)
    try:
        raise ValueError(EVIL)
    except ValueError:
        log.exception("%s\nforged", EVIL)
    assert "\\x1b[2J" in caplog.text
    assert "\x1b" not in caplog.text
    assert "\nforged" not in caplog.text


def test_a_terminal_without_unicode_shows_escapes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "réd – no film.mp4").write_text("no film")
    monkeypatch.setenv("PRVR_LIBRARY", str(tmp_path / "library"))
    main(["library", "add", str(tmp_path / "réd – no film.mp4"), "--encoder", "plain"])
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    words = python_command("prvr", "library", "list")
    done = subprocess.run(words, env=os.environ | ascii_only | {"COLUMNS": "300"}, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"r\xe9d \u2013 no film.mp4" in done.stdout
