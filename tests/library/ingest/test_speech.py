"""Videos without subtitles get lines from a speech model; a stand-in speaks here."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from prvr.cli import main
from prvr.library import AddProgress, Library
from prvr.media import MediaError, Sound, TimedLine, Transcriber, write_video


class Speaker(Transcriber):
    """Says the same in every video, in Dutch."""

    name = "speaker"

    def __init__(self) -> None:
        self.calls = 0

    def hear(self, sound: Sound, language: str | None) -> tuple[str, Iterable[TimedLine]]:
        self.calls += 1
        return "nl", [TimedLine(0.5, 1.5, "goedemorgen"), TimedLine(2.0, 3.0, "de papegaai")]


@pytest.fixture
def films(tmp_path: Path) -> Path:
    """One film with sound, one with sound and subtitles, one without sound."""
    folder = tmp_path / "films"
    folder.mkdir()
    for number, name in enumerate(("spoken", "titled", "silent")):
        pictures = [np.full((48, 64, 3), 60 * number + 3 * shade, np.uint8) for shade in range(16)]
        write_video(folder / f"{name}.mp4", pictures, fps=4, audio_seconds=0.0 if name == "silent" else 4.0)
    (folder / "titled.srt").write_text("1\n00:00:01,000 --> 00:00:02,000\na ferret\n")
    return folder


def test_what_is_said_is_found_where_no_subtitles_are(films: Path, library: Library) -> None:
    shown: list[AddProgress] = []
    speaker = Speaker()
    report = library.add([films], speech=speaker, progress=shown.append)
    assert (len(report.added), report.failed, report.damaged) == (3, {}, {})
    assert speaker.calls == 1  # not in the film with subtitles, and there is nothing to hear in the silent one
    (hit,) = library.search("papegaai")
    assert (hit.video.name, hit.start, hit.end, hit.line) == ("spoken.mp4", 2.0, 3.0, "de papegaai")
    assert [hit.video.name for hit in library.search("ferret")] == ["titled.mp4"]
    videos = {video.name: video.speech for video in library.videos()}
    assert videos == {"spoken.mp4": "speaker, nl", "titled.mp4": None, "silent.mp4": "speaker"}
    assert {path.name: text for path, text in report.transcribed.items()} == {
        "spoken.mp4": "speaker, nl",
        "silent.mp4": "speaker",
    }
    assert [each.heard for each in shown if each.heard is not None] == [1.5, 3.0]
    assert all(each.bytes_done <= each.bytes for each in shown)
    again = library.add([films], speech=speaker)
    assert (len(again.unchanged), speaker.calls) == (3, 1)
    assert len(library.add([films]).unchanged) == 3  # without a model, what was heard stays


def test_a_library_learns_what_is_said_later(films: Path, library: Library) -> None:
    library.add([films])
    assert list(library.search("papegaai")) == []
    report = library.add([films], speech=Speaker())
    assert sorted(path.name for path in report.added) == ["silent.mp4", "spoken.mp4"]
    assert [hit.video.name for hit in library.search("papegaai")] == ["spoken.mp4"]
    (films / "spoken.srt").write_text("1\n00:00:01,000 --> 00:00:02,000\neen fret\n")  # subtitles are better
    library.add([films], speech=Speaker())
    assert list(library.search("papegaai")) == []
    assert [hit.video.name for hit in library.search("fret")] == ["spoken.mp4"]
    assert library.verify().ok


@pytest.mark.parametrize("written", ["", "no subtitles at all\n"])
def test_a_subtitle_file_without_a_line_is_no_reason_not_to_listen(films: Path, library: Library, written: str) -> None:
    (films / "spoken.srt").write_text(written)
    library.add([films])
    report = library.add([films], speech=Speaker())
    assert sorted(path.name for path in report.added) == ["silent.mp4", "spoken.mp4"]
    assert {video.name: video.speech for video in library.videos()}["spoken.mp4"] == "speaker, nl"
    assert [hit.video.name for hit in library.search("papegaai")] == ["spoken.mp4"]
    assert len(library.add([films], speech=Speaker()).unchanged) == 3
    (films / "spoken.srt").write_text("1\n00:00:01,000 --> 00:00:02,000\neen fret\n")
    library.add([films])
    assert [hit.video.name for hit in library.search("fret")] == ["spoken.mp4"]


def test_sound_that_cannot_be_read_leaves_the_pictures(films: Path, in_folder: Library) -> None:
    class Deaf(Speaker):
        def hear(self, sound: Sound, language: str | None) -> tuple[str, Iterable[TimedLine]]:
            raise MediaError("spoken.mp4", "has a sound of another world")

    report = in_folder.add([films / "spoken.mp4"], speech=Deaf())
    assert list(report.damaged.values()) == ["speech: has a sound of another world"]
    assert in_folder.status().videos == 1


def test_the_command_shows_the_language(
    films: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []

    def stand_in(name: str) -> Transcriber:
        opened.append(name)
        return Speaker()

    monkeypatch.setattr("prvr.library.ingest.add.open_transcriber", stand_in)
    place = ["--library", str(tmp_path / "library")]
    assert main(["library", "add", str(films), "--encoder", "plain", "--speech", "whisper-tiny", *place]) == 0
    assert "speech was looked for in 2 of them (nl)" in capsys.readouterr().out
    assert opened == ["whisper-tiny"]
    assert main(["library", "list", *place]) == 0
    assert "speech: speaker, nl" in " ".join(capsys.readouterr().out.split())
    assert main(["search", "goedemorgen", *place]) == 0
    assert "in the subtitles: “goedemorgen”" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("beside", [False, True])
def test_repair_keeps_what_was_heard(films: Path, in_folder: Library, beside: bool) -> None:
    if beside:
        (films / "spoken.srt").write_text("")
    in_folder.add([films], speech=Speaker())
    before = {video.name: (video.subtitles, in_folder.store.lines(video.id)) for video in in_folder.videos()}
    (values,) = in_folder.folder.glob("shards/*/local.values.bin")
    values.write_bytes(b"")
    report = in_folder.repair()  # without a speech model
    assert (len(report.added.added), report.untouched, report.left.ok) == (3, [], True)
    after = {video.name: (video.subtitles, in_folder.store.lines(video.id)) for video in in_folder.videos()}
    assert after == before
    assert [hit.video.name for hit in in_folder.search("papegaai")] == ["spoken.mp4"]


def test_repair_leaves_a_damaged_transcript_alone(
    films: Path, in_folder: Library, capsys: pytest.CaptureFixture[str]
) -> None:
    in_folder.add([films], speech=Speaker())
    with closing(sqlite3.connect(in_folder.folder / "catalogue.sqlite")) as db, db:
        db.execute("DROP TRIGGER lines_update_unseals")
        db.execute("UPDATE lines SET text = 'de papegaam' WHERE text = 'de papegaai'")
    assert main(["library", "repair", "--library", str(in_folder.folder)]) == 1
    assert "spoken.mp4: its transcript may be damaged too, so it is left alone" in capsys.readouterr().out
    assert [hit.video.name for hit in in_folder.search("papegaam")] == ["spoken.mp4"]
    in_folder.remove([films / "spoken.mp4"])
    in_folder.add([films], speech=Speaker())
    assert in_folder.verify().ok
