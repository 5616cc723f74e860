"""Videos in a bucket, read from a real S3 server."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from prvr.media import (
    BucketPath,
    Image,
    MediaError,
    MissingExtra,
    StorageError,
    cut_clip,
    open_video,
    subtitle_tracks,
    thumbnail,
    video_path,
    write_video,
)
from tests.s3 import S3Server

NAMES = ("plain.mp4", "with blanks.mp4", "a#b?c%20d&e+f.mp4", "Größe 映画.mp4", "it's [1] {2}.mp4", "100%.mp4")


def test_an_address_behaves_like_a_path() -> None:
    film = video_path("s3://films/summer 1/a b.mp4")
    assert isinstance(film, BucketPath)
    assert str(film) == f"{film}" == os.fspath(film) == "s3://films/summer 1/a b.mp4"
    assert (film.name, film.stem, film.suffix) == ("a b.mp4", "a b", ".mp4")
    assert str(film.parent) == "s3://films/summer 1"
    assert str(film.parent.parent) == "s3://films"
    assert film.parent / "a b.mp4" == film
    assert film.is_relative_to(BucketPath("s3://films"))
    assert film.is_relative_to(BucketPath("s3://films/summer 1/"))
    assert not film.is_relative_to(BucketPath("s3://films/summer"))
    assert not film.is_relative_to(BucketPath("gs://films"))
    assert not film.is_relative_to(Path("/films"))
    assert not Path("/films/a.mp4").is_relative_to(film.parent)
    assert str(film.relative_to(BucketPath("s3://films"))) == "summer 1/a b.mp4"
    assert {film: 1}[BucketPath("s3://films/summer 1/a b.mp4")] == 1
    assert film != video_path("gs://films/summer 1/a b.mp4")
    assert sorted([film, film.with_name("a.mp4")]) == [film, film.with_name("a.mp4")]
    assert str(copy.deepcopy(film)) == str(film)
    assert str(pickle.loads(pickle.dumps(film))) == str(film)  # noqa: S301


def test_text_becomes_a_path_in_one_place() -> None:
    assert video_path("/films/a.mp4") == Path("/films/a.mp4")
    assert video_path("s3.mp4") == Path("s3.mp4")
    assert str(video_path(Path("s3://films/a.mp4"))) == "s3://films/a.mp4"  # pathlib drops a slash
    assert str(video_path("s3://films/")) == "s3://films"
    with pytest.raises(StorageError, match="leave keys out of the address") as refused:
        video_path("s3://KEY:secret@films/a.mp4")
    assert "secret" not in str(refused.value)
    with pytest.raises(StorageError, match="name a bucket"):
        video_path("s3://")
    with pytest.raises(MediaError, match="s3://, gs:// and az://"):
        video_path("https://example.org/a.mp4?token=secret")


@pytest.mark.parametrize("name", NAMES)
def test_frames_are_those_of_the_same_file_on_a_disk(films: Path, s3: S3Server, name: str) -> None:
    address = f"{s3.make_bucket()}/some films/{name}"
    s3.put(address, films / "steady.mp4")
    with open_video(address) as video, open_video(films / "steady.mp4") as local:
        assert str(video.info.path) == address
        assert video.info.duration == local.info.duration
        for one, other in zip(video.frames(5.0), local.frames(5.0), strict=True):
            assert one.time == other.time
            np.testing.assert_array_equal(one.image, other.image)
    assert thumbnail(address, 1.0) == thumbnail(films / "steady.mp4", 1.0)


@pytest.mark.parametrize("name", ["silent.mkv", "variable.mp4", "late.ts", "odd.mkv", "one.mp4", "turned90.mp4"])
def test_every_container_is_read(films: Path, s3: S3Server, name: str) -> None:
    address = f"{s3.make_bucket()}/{name}"
    s3.put(address, films / name)
    with open_video(address) as video, open_video(films / name) as local:
        assert [frame.time for frame in video.frames(5.0)] == [frame.time for frame in local.frames(5.0)]
        assert video.problem == local.problem


@pytest.mark.parametrize(
    "name", ["empty.mp4", "text.mp4", "garbage.mp4", "no-index.mp4", "picture.png", "sound.m4a", "list.m3u8"]
)
def test_what_is_no_video_is_refused_with_the_same_reason(films: Path, s3: S3Server, name: str) -> None:
    address = f"{s3.make_bucket()}/{name}"
    s3.put(address, films / name)
    with pytest.raises(MediaError) as local:
        open_video(films / name)
    with pytest.raises(MediaError) as refused:
        open_video(address)
    assert str(refused.value).startswith(address)
    if name not in ("picture.png", "list.m3u8"):  # FFmpeg names these differently if it does not open them itself
        assert refused.value.reason == local.value.reason


def test_a_play_list_in_a_bucket_opens_no_file_of_this_machine(films: Path, s3: S3Server) -> None:
    address = f"{s3.make_bucket()}/list.mp4"
    for line in (films / "late.ts", f"file://{films / 'late.ts'}"):
        s3.put(address, f"#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXTINF:4,\n{line}\n#EXT-X-ENDLIST\n".encode())
        with pytest.raises(MediaError):
            open_video(address)
    s3.put(address, f"ffconcat version 1.0\nfile '{films / 'late.ts'}'\n".encode())
    with pytest.raises(MediaError):
        open_video(address)


def test_subtitles_beside_the_video_are_found(films: Path, s3: S3Server, tmp_path: Path) -> None:
    bucket = s3.make_bucket()
    said = b"1\n00:00:01,000 --> 00:00:02,000\nhello\n"
    for name in ("a.en.srt", "a.b.srt", "b.srt"):
        s3.put(f"{bucket}/inner/{name}", said)
    for name in ("a.mp4", "a.b.mp4"):
        s3.put(f"{bucket}/inner/{name}", films / "steady.mp4")
    (track,) = subtitle_tracks(f"{bucket}/inner/a.mp4")
    assert (track.source, track.language, track.lines[0].text) == ("a.en.srt", "en", "hello")


def test_a_clip_is_cut_out(films: Path, s3: S3Server, tmp_path: Path) -> None:
    address = f"{s3.make_bucket()}/steady.mp4"
    s3.put(address, films / "steady.mp4")
    clip = cut_clip(address, 1.0, 2.0, tmp_path / "clip.mp4")
    assert clip.read_bytes() == cut_clip(films / "steady.mp4", 1.0, 2.0, tmp_path / "same.mp4").read_bytes()


# -- how much is fetched ----------------------------------------------------------------------------------------------


def _noise(count: int) -> Iterator[Image]:
    rng = np.random.default_rng(0)
    return (rng.integers(0, 256, (180, 320, 3), dtype=np.uint8) for _ in range(count))


@pytest.fixture(scope="module")
def long_films(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A minute in 20 MB: an .mp4 with its index at the end, one with its index at the start, and an .mkv."""
    folder = tmp_path_factory.mktemp("long")
    options = {"crf": "12", "preset": "ultrafast", "g": "10"}
    made = {"late": write_video(folder / "late.mp4", _noise(300), fps=5, options=options, audio_seconds=60)}
    for name, where, muxer in (("early", "early.mp4", {"movflags": "faststart"}), ("matroska", "film.mkv", {})):
        made[name] = folder / where
        with av.open(str(made["late"])) as source, av.open(str(made[name]), "w", options=muxer) as target:
            copies = {stream.index: target.add_stream_from_template(stream) for stream in source.streams}
            packets = [packet for packet in source.demux() if packet.dts is not None]
            for packet in sorted(packets, key=lambda packet: Fraction(packet.dts or 0) * (packet.time_base or 1)):
                packet.stream = copies[packet.stream.index]
                target.mux(packet)
    return made


@pytest.mark.parametrize(("name", "most"), [("late", 0.15), ("early", 0.06), ("matroska", 0.3)])
def test_a_thumbnail_fetches_a_small_part_of_the_file(
    long_films: dict[str, Path], s3: S3Server, name: str, most: float
) -> None:
    film = long_films[name]
    size = film.stat().st_size
    for at in (1.0, 40.0):
        address = f"{s3.make_bucket()}/{film.name}"
        s3.put(address, film)
        s3.requests.clear()
        assert thumbnail(address, at) == thumbnail(film, at)
        assert 0 < s3.downloaded(film.name) < most * size, f"{s3.downloaded(film.name) / size:.0%}"
        s3.requests.clear()
        thumbnail(address, at)  # again: what was fetched is kept
        assert s3.downloaded(film.name) == 0


@pytest.mark.parametrize("name", ["late", "early", "matroska"])
def test_reading_a_video_fetches_it_once_in_few_requests(long_films: dict[str, Path], s3: S3Server, name: str) -> None:
    film = long_films[name]
    address = f"{s3.make_bucket()}/{film.name}"
    s3.put(address, film)
    s3.requests.clear()
    with open_video(address) as video:
        assert sum(1 for _ in video.frames(1.0)) == 60
    assert s3.downloaded(film.name) < 1.05 * film.stat().st_size
    assert len(s3.requests) < 25


@pytest.mark.parametrize(("name", "most"), [("late", 0.4), ("early", 0.4), ("matroska", 0.5)])
def test_sampling_at_a_low_rate_skips_what_is_between(
    long_films: dict[str, Path], s3: S3Server, name: str, most: float
) -> None:
    film = long_films[name]
    address = f"{s3.make_bucket()}/{film.name}"
    s3.put(address, film)
    s3.requests.clear()
    with open_video(address) as video, open_video(film) as local:
        frames = [frame.image for frame in video.frames(0.1)]
        np.testing.assert_array_equal(frames, [frame.image for frame in local.frames(0.1)])
    assert s3.downloaded(film.name) < most * film.stat().st_size


# -- what goes wrong --------------------------------------------------------------------------------------------------


def test_a_file_that_is_not_there(s3: S3Server) -> None:
    bucket = s3.make_bucket()
    with pytest.raises(MediaError, match=r"gone\.mp4: does not exist"):
        open_video(f"{bucket}/gone.mp4")
    assert not BucketPath(f"{bucket}/gone.mp4").exists()
    assert not BucketPath(f"{bucket}/no/gone.mp4").exists()


def test_a_bucket_that_is_not_there(s3: S3Server) -> None:
    with pytest.raises(StorageError, match=r"^s3://no-such-bucket: there is no such bucket; create it"):
        open_video("s3://no-such-bucket/a.mp4")
    with pytest.raises(StorageError, match="no such bucket"):  # and it does not look like a missing file
        BucketPath("s3://no-such-bucket/a.mp4").exists()


def test_keys_that_do_not_fit(films: Path, s3: S3Server) -> None:
    bucket = s3.make_bucket()
    s3.require_keys()
    with pytest.raises(StorageError, match=f"^{bucket}: access is denied; check the keys"):
        open_video(f"{bucket}/a.mp4")


def test_a_server_that_does_not_answer(s3: S3Server) -> None:
    bucket = s3.make_bucket()
    s3.stop()
    with pytest.raises(StorageError, match=f"^{bucket}: no server answers .*check the network and AWS_ENDPOINT_URL"):
        open_video(f"{bucket}/a.mp4")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prvr.media.bucket_files._TRIES", 2)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    "name", ["matroska", *(pytest.param(name, marks=pytest.mark.slow) for name in ("late", "early"))]
)
def test_a_server_that_goes_away_while_a_file_is_read(long_films: dict[str, Path], s3: S3Server, name: str) -> None:
    film = long_films[name]
    address = f"{s3.make_bucket()}/{film.name}"
    s3.put(address, film)
    with open_video(address) as video:
        frames = video.frames(5.0)
        for _ in range(100):
            next(frames)
        s3.stop()
        with pytest.raises(StorageError, match="no server answers"):
            list(frames)
        s3.start()
        assert sum(1 for _ in video.frames(5.0)) == 300


@pytest.mark.usefixtures("impatient")
def test_a_file_that_is_deleted_while_it_is_read(long_films: dict[str, Path], s3: S3Server) -> None:
    address = f"{s3.make_bucket()}/film.mkv"
    s3.put(address, long_films["matroska"])
    with open_video(address) as video:
        frames = video.frames(5.0)
        for _ in range(100):
            next(frames)
        s3.delete(address)
        with pytest.raises(MediaError, match=r"film\.mkv: does not exist any more"):
            list(frames)


def test_pyarrow_is_named_where_it_is_missing(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from prvr.media import MissingExtra, open_video\n"
        "try: open_video('s3://films/a.mp4')\n"
        "except MissingExtra as problem: print(problem)"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert 'pip install "prvr[scale]"' in told
    assert issubclass(MissingExtra, ImportError)


def test_azure_needs_the_name_of_the_account(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(StorageError, match="set AZURE_STORAGE_ACCOUNT_NAME"):
        open_video("az://films/a.mp4")
