"""Subtitle files as people have them."""

from __future__ import annotations

from pathlib import Path

import av
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prvr.media import MediaError, TimedLine, subtitle_tracks
from prvr.media.subtitles import decode_text, parse_subtitles, read_subtitles, subtitle_files

MESSY = """1
00:00:01,000 --> 00:00:02,500
<i>Hello</i> there,
{\\an8}friend &amp; foe

00:00:02.0-->00:00:04
no index, no comma, overlapping
3
00:00:05,000 --> 00:00:06,000
no blank line before this one

4
00:00:09,000 --> 00:00:08,000
ends before it begins

5
00:00:10,000 --> 00:00:11,000
<font color="red"> </font>

NOTE nothing

garbage --> garbage
"""
EXPECTED = [
    TimedLine(1.0, 2.5, "Hello there, friend & foe"),
    TimedLine(2.0, 4.0, "no index, no comma, overlapping"),
    TimedLine(5.0, 6.0, "no blank line before this one"),
    TimedLine(9.0, 9.0, "ends before it begins"),
]


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
def test_a_messy_file(ends: str) -> None:
    assert parse_subtitles(MESSY.replace("\n", ends)) == EXPECTED


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_encodings(encoding: str) -> None:
    lines = parse_subtitles(decode_text("1\n00:01:00,000 --> 00:01:01,000\nÜber die Brücke\n".encode(encoding)))
    assert lines == [TimedLine(60.0, 61.0, "Über die Brücke")]


def test_webvtt() -> None:
    text = "WEBVTT\n\nSTYLE\n::cue {}\n\nintro\n00:01.000 --> 00:02.000 line:0 position:20%\n<v Ann>Hi <00:01.500>you\n"
    assert parse_subtitles(text) == [TimedLine(1.0, 2.0, "Hi you")]


@given(st.text(alphabet=st.sampled_from("0123456789:,.->\n\r <>{}\\aé\x00\u2028"), max_size=200))
def test_any_text_parses(text: str) -> None:
    lines = parse_subtitles(text)
    assert lines == sorted(lines, key=lambda line: (line.start, line.end))
    assert all(line.text and line.start <= line.end for line in lines)


@given(st.binary(max_size=200))
def test_any_bytes_decode(raw: bytes) -> None:
    parse_subtitles(decode_text(raw))


CUE = st.tuples(st.integers(0, 10**7), st.integers(0, 10**5), st.sampled_from(["hi", "a b", "x-y"]))


@given(st.lists(CUE, max_size=8))
def test_what_was_written_is_read(cues: list[tuple[int, int, str]]) -> None:
    def stamp(ms: int) -> str:
        return f"{ms // 3600000:02}:{ms // 60000 % 60:02}:{ms // 1000 % 60:02},{ms % 1000:03}"

    text = "".join(f"{i}\n{stamp(a)} --> {stamp(a + n)}\n{said}\n\n" for i, (a, n, said) in enumerate(cues))
    found = [(round(line.start * 1000), round(line.end * 1000), line.text) for line in parse_subtitles(text)]
    assert sorted(found) == sorted((a, a + n, said) for a, n, said in cues)


def test_files_beside_a_video(tmp_path: Path) -> None:
    for name in ("a.mp4", "a.b.mp4", "a.srt", "a.en.srt", "a.en-GB.forced.VTT", "a.b.srt", "other.srt", "a.txt"):
        (tmp_path / name).write_text("1\n00:00:01,000 --> 00:00:02,000\nhi\n")
    assert [p.name for p in subtitle_files(tmp_path / "a.mp4")] == ["a.en-GB.forced.VTT", "a.en.srt", "a.srt"]
    assert [p.name for p in subtitle_files(tmp_path / "a.b.mp4")] == ["a.b.srt"]
    assert read_subtitles(tmp_path / "a.en.srt").language == "en"
    with pytest.raises(MediaError, match=r"gone\.srt"):
        read_subtitles(tmp_path / "gone.srt")


def test_tracks_inside_a_file(films: Path, tmp_path: Path) -> None:
    text = tmp_path / "said.srt"
    text.write_text("1\n00:00:00,500 --> 00:00:01,500\n<b>first</b> line\n\n2\n00:00:02,000 --> 00:00:03,000\nsecond\n")
    path = tmp_path / "with.mkv"
    _mux(films / "steady.mp4", text, path)
    (track,) = subtitle_tracks(path)
    assert track.source == "track 1"
    assert [line.text for line in track.lines] == ["first line", "second"]
    assert [line.start for line in track.lines] == pytest.approx([0.5, 2.0], abs=0.06)
    assert [line.end for line in track.lines] == pytest.approx([1.5, 3.0], abs=0.06)


def _mux(video: Path, text: Path, target: Path) -> None:
    """Copy the pictures and add the text as a track."""
    with av.open(str(video)) as pictures, av.open(str(text)) as said, av.open(str(target), "w") as out:
        sources = [(pictures, pictures.streams.video[0]), (said, said.streams.subtitles[0])]
        copies = [out.add_stream_from_template(stream) for _, stream in sources]
        for (container, stream), copy in zip(sources, copies, strict=True):
            for packet in container.demux(stream):
                if packet.dts is not None:
                    packet.stream = copy
                    out.mux(packet)
