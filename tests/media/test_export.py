"""Moments taken out of videos: clips, a film, a table, timelines."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from prvr.media import (
    ExportError,
    ExportFormat,
    ExportMoment,
    MediaError,
    MissingExtra,
    export_moments,
    open_video,
    parse_moments,
    write_video,
)
from prvr.media.clip_reader import read_stretch
from tests.media.conftest import grey, level, ramp
from tests.media.test_clips import levels, loud_times, write_beep


def test_a_film_joins_moments_of_different_sizes_and_rates(tmp_path: Path) -> None:
    wide = write_video(tmp_path / "wide.mp4", (grey(20 + 10 * n, 160, 90) for n in range(20)), fps=10)
    tall = write_video(tmp_path / "tall.mkv", (grey(200, 48, 96) for _ in range(15)), fps=5)
    moments = [ExportMoment(wide, 0.5, 1.5), ExportMoment(tall, 1.0, 1.6), ExportMoment(wide, 0.0, 0.4)]
    done: list[float] = []
    report = export_moments(moments, "film", tmp_path / "film.mp4", progress=done.append)
    assert (report.written, report.failed) == (3, ())
    assert done == sorted(done)
    assert done[-1] == pytest.approx(2.0, abs=0.01)
    with open_video(tmp_path / "film.mp4") as video:
        assert (video.info.width, video.info.height, video.info.fps) == (160, 90, pytest.approx(10.0))
        assert video.info.duration == pytest.approx(2.0, abs=0.05)
        pictures = [frame.image for frame in video.frames(10.0)]
    assert len(pictures) == 20
    assert [level(picture) for picture in pictures[:10]] == pytest.approx([70 + 10 * n for n in range(10)], abs=3)
    for picture in pictures[10:16]:  # a tall picture in the middle, and black bars
        assert picture[:, 68:92].mean() == pytest.approx(200, abs=4)
        assert picture[:, :50].mean() < 4
        assert picture[:, 110:].mean() < 4
    assert [level(picture) for picture in pictures[16:]] == pytest.approx([20, 30, 40, 50], abs=3)


def test_the_sound_of_a_film_stays_with_its_pictures(tmp_path: Path) -> None:
    beep = write_beep(tmp_path / "beep.mkv", 4.0, (2.0, 3.0))
    silent = write_video(tmp_path / "silent.mp4", ramp(50), fps=25)
    moments = [ExportMoment(silent, 0.0, 1.5), ExportMoment(beep, 1.5, 3.5), ExportMoment(silent, 0.0, 1.0)]
    export_moments(moments, "film", tmp_path / "film.mp4")
    assert loud_times(tmp_path / "film.mp4") == pytest.approx((2.0, 3.0), abs=0.06)
    bright = [n / 25 for n, value in enumerate(levels(tmp_path / "film.mp4", 25.0)) if value > 200]
    assert (bright[0], bright[-1]) == pytest.approx((2.0, 2.96), abs=0.05)


def test_clips_are_packed_with_a_table(films: Path, tmp_path: Path) -> None:
    moments = [
        ExportMoment(films / "steady.mp4", 1.0, 2.0, "a grey, “light” one"),
        ExportMoment(films / "odd.mkv", 0, 1),
    ]
    export_moments(moments, "clips", tmp_path / "clips.zip", margin=0.5)
    with zipfile.ZipFile(tmp_path / "clips.zip") as archive:
        names = archive.namelist()
        archive.extractall(tmp_path / "out")
        table = parse_moments(archive.read("moments.csv").decode())
    assert names == ["01-steady-0.5-2.5.mp4", "02-odd-0.0-1.5.mp4", "moments.csv"]
    assert levels(tmp_path / "out" / names[0], 1.0)[:2] == pytest.approx([24, 74], abs=3)
    assert [(moment.video, moment.start, moment.label) for moment in table] == [
        (films / "steady.mp4", 0.5, "a grey, “light” one"), (films / "odd.mkv", 0.0, ""),
    ]  # fmt: skip
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clips.zip", "out"]


@pytest.mark.parametrize("form", ["clips", "film"])
def test_what_cannot_be_read_is_reported_and_the_rest_is_written(
    films: Path, tmp_path: Path, form: ExportFormat
) -> None:
    good, gone = ExportMoment(films / "steady.mp4", 1.0, 2.0), ExportMoment(films / "gone.mp4", 0.0, 1.0)
    late, text = ExportMoment(films / "steady.mp4", 90.0, 91.0), ExportMoment(films / "text.mp4", 0.0, 1.0)
    report = export_moments([gone, good, late, text], form, tmp_path / "out")
    assert report.written == 1
    assert {moment for moment, _ in report.failed} == {gone, late, text}
    assert "does not exist" in dict(report.failed)[gone]
    with pytest.raises(ExportError, match=r"nothing was written: .*gone\.mp4: does not exist"):
        export_moments([gone], form, tmp_path / "none")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_film_goes_on_without_a_moment_that_cannot_be_read(
    films: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = ExportMoment(films / "odd.mkv", 0.0, 1.0)
    moments = [ExportMoment(films / "steady.mp4", 1.0, 2.0), bad, ExportMoment(films / "steady.mp4", 0.0, 1.0)]

    def read(video: Path, start: float, end: float) -> Iterator[object]:
        if video == bad.video:  # it was there when the film was begun
            raise MediaError(video, "it is gone")
        yield from read_stretch(video, start, end)

    monkeypatch.setattr("prvr.media.export.film.read_stretch", read)
    report = export_moments(moments, "film", tmp_path / "film.mp4")
    assert (report.written, report.failed) == (2, ((bad, "it is gone"),))
    assert levels(tmp_path / "film.mp4", 1.0) == pytest.approx([50, 0], abs=4)


def test_a_film_that_cannot_be_encoded_is_one_sentence(
    films: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*anything: object) -> None:
        raise ValueError("unknown format")

    monkeypatch.setattr("prvr.media.clip_writer.ClipWriter.picture", refuse)
    with pytest.raises(ExportError, match="the film could not be written: unknown format"):
        export_moments([ExportMoment(films / "steady.mp4", 1.0, 2.0)], "film", tmp_path / "film.mp4")
    assert not list(tmp_path.iterdir())


def test_an_export_that_is_stopped_leaves_what_was_there(films: Path, tmp_path: Path) -> None:
    def stop(seconds: float) -> None:
        raise KeyboardInterrupt

    (tmp_path / "film.mp4").write_text("an older film")
    for form in ("film", "clips"):
        with pytest.raises(KeyboardInterrupt):
            export_moments([ExportMoment(films / "steady.mp4", 1.0, 2.0)], form, tmp_path / "film.mp4", progress=stop)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["an older film"]


def test_a_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    moments = [
        ExportMoment(tmp_path / 'a "b", c.mp4', 1.25, 2.5, "two\nlines"),
        ExportMoment(tmp_path / "é.mp4", 0.0, 3600.125, "=1+1"),
        ExportMoment(tmp_path / "f.mp4", 0.0, 1.0, "'=1+1"),
        ExportMoment(tmp_path / "f.mp4", 0.0, 1.0, "'tis"),
    ]
    export_moments(moments, "csv", tmp_path / "moments.csv")
    assert parse_moments((tmp_path / "moments.csv").read_text("utf-8")) == moments
    rows = list(csv.DictReader(io.StringIO((tmp_path / "moments.csv").read_text("utf-8"))))
    assert list(rows[0]) == ["video", "start", "end", "label"]
    assert rows[1]["label"] == "'=1+1", "no formula in a spreadsheet"


def test_moments_are_read_from_what_a_search_prints() -> None:
    text = '{"query": "a door", "hits": [{"path": "/films/a.mp4", "video": 3, "start": 1, "end": 2.5, "score": 1}]}'
    assert parse_moments(text) == [ExportMoment(Path("/films/a.mp4"), 1.0, 2.5, "a door")]
    assert parse_moments('[{"video": "s3://films/a.mp4", "start": "1:02:03", "end": 4000}]')[0].start == 3723.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("film,start\na.mp4,1", "line 1: a table of moments has the columns video,start,end,label; there is no video"),
        (
            "video,start,end\na.mp4,1,2\nb.mp4,soon,2",
            "line 3: start should be a time, as in 62.5 or 1:02.5, not 'soon'",
        ),
        ("video,start,end\na.mp4,3,2", "line 2: a.mp4: a moment starts at 0 s or later and ends after its start"),
        ("video,start,end\na.mp4,1", "line 2: end should be a time, as in 62.5 or 1:02.5, not nothing"),
        ("video,start,end\n,1,2", "line 2: no video is named"),
        ("video,start,end\na.mp4,nan,2", "line 2: start should be a time"),
        ('{"hits": 3}', "the JSON holds no moments"),
        ("[1]", "the JSON holds no moments"),
        ("{", "not JSON that can be read"),
        ('[{"path": "a.mp4", "start": true, "end": 2}]', "moment 1: start should be a time"),
    ],
)
def test_a_table_with_mistakes_is_refused_with_the_line(text: str, message: str) -> None:
    with pytest.raises(ExportError) as refused:
        parse_moments(text)
    assert message in str(refused.value)


def test_a_timeline_is_read_by_opentimelineio(films: Path, tmp_path: Path) -> None:
    otio = pytest.importorskip("opentimelineio", reason='timelines need: pip install "prvr[export]"')
    moments = [ExportMoment(films / "steady.mp4", 1.0, 2.0, "grey"), ExportMoment(films / "odd.mkv", 0.4, 1.0)]
    export_moments(moments, "otio", tmp_path / "moments.otio")
    timeline = otio.adapters.read_from_file(str(tmp_path / "moments.otio"))
    first, second = timeline.find_clips()
    assert first.media_reference.target_url == (films / "steady.mp4").as_uri()
    assert (first.source_range.start_time.value, first.source_range.duration.value) == (25, 25)
    assert first.available_range().duration.to_seconds() == pytest.approx(4.0)
    assert (second.source_range.start_time.rate, second.source_range.start_time.value) == (5, 2)
    assert first.metadata["prvr"]["label"] == "grey"
    assert timeline.duration().to_seconds() == pytest.approx(1.6)


def test_an_edit_decision_list_holds_the_times(tmp_path: Path) -> None:
    otio = pytest.importorskip("opentimelineio", reason='timelines need: pip install "prvr[export]"')
    if "cmx_3600" not in otio.adapters.available_adapter_names():
        pytest.skip('edit decision lists need: pip install "prvr[export]"')
    film, other = tmp_path / "holiday 2024.mp4", tmp_path / "holiday 2023.mp4"
    moments = [
        ExportMoment(film, 62.0, 64.4, "a door\nopens", fps=25.0, duration=100.0),
        ExportMoment(other, 3600.0, 3601.0, fps=50.0),
        ExportMoment(film, 0.0, 1.0, fps=25.0),
    ]
    export_moments(moments, "edl", tmp_path / "moments.edl")
    text = (tmp_path / "moments.edl").read_text("utf-8")
    assert "TITLE: prvr moments\nFCM: NON-DROP FRAME\n" in text
    events = [line.split() for line in text.splitlines() if line[:3].isdigit()]
    assert events == [
        ["001", "HOLIDAY2", "V", "C", "00:01:02:00", "00:01:04:10", "00:00:00:00", "00:00:02:10"],
        ["002", "HOLIDAY1", "V", "C", "01:00:00:00", "01:00:01:00", "00:00:02:10", "00:00:03:10"],
        ["003", "HOLIDAY2", "V", "C", "00:00:00:00", "00:00:01:00", "00:00:03:10", "00:00:04:10"],
    ]
    assert "* FROM CLIP NAME:  holiday 2024.mp4" in text
    assert "* COMMENT: a door opens" in text
    read = otio.adapters.read_from_string(text, "cmx_3600", rate=25)
    assert [clip.source_range.start_time.to_seconds() for clip in read.find_clips()] == [62.0, 3600.0, 0.0]
    american = [ExportMoment(film, 60.0, 61.0, fps=29.97)]
    export_moments(american, "edl", tmp_path / "american.edl")
    assert "FCM: DROP FRAME" in (tmp_path / "american.edl").read_text("utf-8")


def test_without_opentimelineio_the_message_holds_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "opentimelineio", None)
    for form in ("edl", "otio"):
        with pytest.raises(MissingExtra, match=r'pip install "prvr\[export\]"'):
            export_moments([ExportMoment(tmp_path / "a.mp4", 0.0, 1.0, fps=25.0)], form, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", ["edl", "otio"])
def test_a_timeline_is_written_without_files_that_are_gone(films: Path, tmp_path: Path, form: ExportFormat) -> None:
    pytest.importorskip("opentimelineio", reason='timelines need: pip install "prvr[export]"')
    pytest.importorskip("otio_cmx3600_adapter", reason='timelines need: pip install "prvr[export]"')
    gone, good = ExportMoment(films / "gone.mp4", 0.0, 1.0), ExportMoment(films / "steady.mp4", 1.0, 2.0)
    report = export_moments([gone, good, gone], form, tmp_path / "out")
    assert report.written == 1
    assert [moment for moment, _ in report.failed] == [gone, gone]
    assert "does not exist" in report.failed[0][1]
    assert "steady.mp4" in (tmp_path / "out").read_text("utf-8")
    assert "gone.mp4" not in (tmp_path / "out").read_text("utf-8")
    with pytest.raises(ExportError, match=r"nothing was written: .*gone\.mp4: does not exist"):
        export_moments([gone], form, tmp_path / "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("form", ["csv", "otio"])
def test_a_margin_ends_with_the_video(films: Path, tmp_path: Path, form: ExportFormat) -> None:
    """The film lasts four seconds, which the moment does not say."""
    if form == "otio":
        otio = pytest.importorskip("opentimelineio", reason='timelines need: pip install "prvr[export]"')
    report = export_moments([ExportMoment(films / "steady.mp4", 1.0, 2.0)], form, tmp_path / f"out.{form}", margin=5.0)
    assert report.written == 1
    if form == "csv":
        (found,) = parse_moments((tmp_path / "out.csv").read_text("utf-8"))
        assert (found.start, found.end) == (0.0, pytest.approx(4.0))
    else:
        (clip,) = otio.adapters.read_from_file(str(tmp_path / "out.otio")).find_clips()
        assert clip.source_range.duration.to_seconds() == pytest.approx(4.0)


def test_no_moments_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="no moments"):
        export_moments([], "csv", tmp_path / "out.csv")
