"""A library of videos that lie in a bucket."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from prvr.library import Filters, Library, LibraryError, find_videos
from prvr.media import BucketPath, StorageError, open_video
from prvr.worlds import RenderedWorld
from tests.library.ingest.test_add import SENTENCE, found
from tests.library.search.test_search import Words
from tests.s3 import S3Server

SAID = b"1\n00:00:01,000 --> 00:00:02,000\na red square\n"
NAMES = ("a.mp4", "b #1.mp4", "inner/c?d.mp4", "inner/deep/100%.mp4", "inner/Größe 映画.mp4", "z.mp4")


@pytest.fixture
def bucket(films: RenderedWorld, s3: S3Server) -> str:
    """An address with six films in three folders, and files that are left out."""
    address = f"{s3.make_bucket()}/all films"
    for name, path in zip(NAMES, sorted(films.videos.values()), strict=False):
        s3.put(f"{address}/{name}", path)
    for name in (".hidden.mp4", ".cache/x.mp4", "inner/.x/y.mp4", "notes.txt", "inner/a.jpg"):
        s3.put(f"{address}/{name}", b"no video")
    return address


@pytest.fixture
def local(films: RenderedWorld, tmp_path: Path) -> Path:
    """The same films in a folder."""
    folder = tmp_path / "all films"
    for name, path in zip(NAMES, sorted(films.videos.values()), strict=False):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, folder / name)
    return folder


def names(paths: object) -> list[str]:
    assert isinstance(paths, list)
    return [str(path).partition("all films/")[2] for path in paths]


def test_videos_of_a_bucket_are_found_as_on_a_disk(bucket: str, local: Path) -> None:
    assert names(find_videos([bucket])) == names(find_videos([local]))
    assert len(find_videos([bucket, f"{bucket}/inner", f"{bucket}/a.mp4", f"{bucket}/"])) == len(NAMES)
    assert find_videos([Path(bucket)]) == find_videos([bucket])  # as `Path` writes it
    with pytest.raises(LibraryError, match="nothing here does not exist: name a video file or a folder"):
        find_videos([f"{bucket}/nothing here"])


def test_answers_are_those_of_the_same_files_on_a_disk(
    bucket: str, local: Path, library: Library, tmp_path: Path
) -> None:
    on_disk = Library.create(tmp_path / "other", encoder="plain", rate=2.0)
    on_disk.add([local])
    report = library.add([bucket])
    assert (len(report.added), report.failed, report.damaged) == (len(NAMES), {}, {})
    assert found(library) == found(on_disk)
    for one, other in zip(library.videos(), on_disk.videos(), strict=True):
        assert str(one.path) == f"{bucket}/{names([other.path])[0]}"
        assert (one.size, one.digest, one.duration, one.frames) == (
            other.size,
            other.digest,
            other.duration,
            other.frames,
        )
    sections = library.snapshot().tracks["frames"], on_disk.snapshot().tracks["frames"]
    evidence = [library.search(SENTENCE)[0].evidence, on_disk.search(SENTENCE)[0].evidence]
    np.testing.assert_array_equal(evidence[0].routed, evidence[1].routed)
    assert sections[0].by_video.videos.tolist() == sections[1].by_video.videos.tolist()
    assert library.verify().ok
    assert library.verify().missing == []


def test_adding_fetches_little_and_adding_again_almost_nothing(bucket: str, in_folder: Library, s3: S3Server) -> None:
    s3.requests.clear()
    in_folder.add([bucket])
    size = sum(video.size for video in in_folder.videos())
    assert size <= s3.downloaded(".mp4") < 1.1 * size
    s3.requests.clear()
    again = in_folder.add([bucket])
    assert len(again.unchanged) == len(NAMES)
    assert s3.downloaded(".mp4") == 0
    assert len(s3.requests) < 5  # however many files there are


def test_what_changed_moved_or_went_is_noticed(
    bucket: str, library: Library, films: RenderedWorld, s3: S3Server
) -> None:
    library.add([bucket], tags=["kept"])
    data = sorted(films.videos.values())[0].read_bytes()
    s3.delete(f"{bucket}/a.mp4")
    s3.put(f"{bucket}/elsewhere/other name.mp4", data)
    s3.put(f"{bucket}/z.mp4", sorted(films.videos.values())[7])
    report = library.add([bucket])
    assert names(report.moved) == ["elsewhere/other name.mp4"]
    assert names(report.added) == ["z.mp4"]
    assert len(report.unchanged) == len(NAMES) - 2
    s3.delete(f"{bucket}/z.mp4")
    BucketPath(bucket).forget()
    assert names(library.verify().missing) == ["z.mp4"]
    assert names([video.path for video in library.remove(missing=True)]) == ["z.mp4"]


def test_a_folder_of_the_bucket_can_be_searched_and_removed(bucket: str, library: Library, local: Path) -> None:
    library.add([bucket, local])
    inside = library.search(SENTENCE, limit=50, filters=Filters(folder=BucketPath(f"{bucket}/inner")))
    assert {str(hit.video.path) for hit in inside} == {f"{bucket}/{name}" for name in NAMES if "inner" in name}
    same = library.search(SENTENCE, limit=50, filters=Filters(folder=Path(f"{bucket}/inner")))
    assert [hit.video.id for hit in same] == [hit.video.id for hit in inside]
    assert len(library.search(SENTENCE, limit=50, filters=Filters(folder=local))) == len(NAMES)
    assert len(library.remove([f"{bucket}/inner"])) == 3
    assert len(library.remove([f"{bucket}/a.mp4"])) == 1
    with pytest.raises(LibraryError, match="is not in the library"):
        library.remove([f"{bucket}/a.mp4"])
    assert len(library.videos()) == 2 * len(NAMES) - 4


def test_subtitles_beside_a_video_are_searched_and_watched(bucket: str, tmp_path: Path, s3: S3Server) -> None:
    library = Library.create(tmp_path / "library", encoder="plain", rate=2.0, text_encoder=Words())
    s3.put(f"{bucket}/inner/c?d.en.srt", SAID)
    library.add([f"{bucket}/inner"])
    (hit,) = [hit for hit in library.search("a red square") if hit.track == "text"][:1]
    assert (hit.video.name, hit.line) == ("c?d.mp4", "a red square")
    assert library.add([f"{bucket}/inner"]).added == []
    s3.put(f"{bucket}/inner/Größe 映画.srt", SAID)
    assert [path.name for path in library.add([f"{bucket}/inner"]).added] == ["Größe 映画.mp4"]
    assert library.add([f"{bucket}/inner/c?d.mp4"]).added == []


def test_a_broken_file_is_reported_and_retried(
    bucket: str, in_folder: Library, films: RenderedWorld, s3: S3Server
) -> None:
    s3.put(f"{bucket}/a.mp4", b"not a film" * 100)
    report = in_folder.add([bucket])
    assert names(list(report.failed)) == ["a.mp4"]
    assert len(report.added) == len(NAMES) - 1
    s3.put(f"{bucket}/a.mp4", sorted(films.videos.values())[0])
    assert names(in_folder.add([bucket]).added) == ["a.mp4"]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prvr.media.bucket_files._TRIES", 2)


@pytest.mark.usefixtures("impatient")
def test_a_store_that_goes_away_marks_no_file_as_failed(bucket: str, library: Library, s3: S3Server) -> None:
    def leave(path: str) -> None:
        if path.endswith("100%.mp4") and s3.running:
            s3.stop()

    s3.before = leave
    with pytest.raises(StorageError, match=f"^{bucket.rpartition('/')[0]}: "):
        library.add([bucket])
    assert [video.state for video in library.videos()] == ["ok"] * len(library.videos())
    assert 0 < len(library.videos()) < len(NAMES)
    BucketPath(bucket).forget()
    with pytest.raises(StorageError):  # it does not look as if all files were gone
        library.remove(missing=True)
    s3.before = lambda path: None
    s3.start()
    report = library.add([bucket])
    assert len(report.added) + len(report.unchanged) == len(NAMES)
    assert library.videos("failed") == []


@pytest.mark.usefixtures("impatient")
def test_one_file_that_cannot_be_read_does_not_stop_the_others(bucket: str, in_folder: Library, s3: S3Server) -> None:
    s3.before = lambda path: "500 Internal Error" if path.endswith("100%.mp4") else None
    report = in_folder.add([bucket])
    assert names(list(report.failed)) == ["inner/deep/100%.mp4"]
    assert "cannot be read from the bucket" in next(iter(report.failed.values()))
    assert len(report.added) == len(NAMES) - 1
    s3.before = lambda path: None
    assert names(in_folder.add(retry=True).added) == ["inner/deep/100%.mp4"]
    with open_video(f"{bucket}/inner/deep/100%.mp4") as video:
        assert video.info.duration
