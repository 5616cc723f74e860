"""Adding, skipping, moving, failing, removing."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from prvr.cli import main
from prvr.library import FRAMES, AddProgress, Filters, FolderStore, Library, LibraryError
from prvr.library.ingest import add, frozen, index
from prvr.library.store import arrays, buffer
from prvr.media import decoding
from prvr.media.encoders import PlainEncoder
from prvr.media.recipe import RecipeMismatch
from prvr.media.writer import write_video
from prvr.worlds import RenderedWorld

SENTENCE = "a red square moves to the left"


def found(lib: Library, sentence: str = SENTENCE) -> list[tuple[str, float, float, float]]:
    return [(h.video.name, h.start, h.end, h.score) for h in lib.search(sentence, limit=100)]


def test_adding_again_does_nothing(library: Library, own: Path) -> None:
    first = library.add([own])
    assert len(first.added) == 6
    assert first.video_seconds > 30
    before = found(library), library.status().bytes
    second = library.add([own, own / first.added[0].name])
    assert (len(second.added), len(second.unchanged)) == (0, 6)
    assert (found(library), library.status().bytes) == before
    assert library.verify().ok


def test_decoders_of_many_files_start_early_and_end_with_the_add(
    library: Library, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    monkeypatch.setattr(index, "_MUCH_BYTES", 0)
    monkeypatch.setattr(index, "start_decoders_early", lambda *, needs_torch: order.append(f"torch {needs_torch}"))
    monkeypatch.setattr(add, "drop_early_decoders", lambda: order.append("dropped"))
    monkeypatch.setattr(add, "index_files", lambda *args: order.append("indexing") or index.index_files(*args))
    library.add([own], processes=2)
    assert order == ["torch False", "indexing", "dropped"]
    library.add([own], processes=2)  # there is nothing to do
    assert len(order) == 3


def test_a_touched_file_is_recognised_and_a_changed_one_is_indexed_anew(library: Library, own: Path) -> None:
    paths = library.add([own]).added
    os.utime(paths[0])
    assert library.add([own]).unchanged.count(paths[0]) == 1
    shutil.copyfile(paths[1], paths[0])
    assert library.add([own]).added == [paths[0]]
    assert len(library.videos()) == 6
    (hit,) = (hit for hit in library.search(SENTENCE, limit=100) if hit.also_at)  # the same film twice now
    assert [hit.video.path, *hit.also_at] == paths[:2]
    assert library.verify().ok


def test_a_change_in_the_middle_of_a_file_is_seen(library: Library, own: Path) -> None:
    path = library.add([own]).added[0]
    with path.open("ab") as file:  # players ignore what follows the last box
        file.write(bytes(4 << 20))
    assert library.add([own]).added == [path]
    with path.open("r+b") as file:  # as many bytes, and those at the beginning, the middle and the end are the same
        file.seek(path.stat().st_size - (1 << 20))
        file.write(b"changed")
    assert library.add([own]).added == [path]
    os.utime(path)
    assert library.add([own]).unchanged.count(path) == 1
    assert library.videos()[0].mtime == path.stat().st_mtime_ns


def test_a_moved_file_keeps_its_number_tags_and_vectors(library: Library, own: Path) -> None:
    path = library.add([own], tags=["kept"]).added[2]
    before = {video.digest: video.id for video in library.videos()}
    (own / "elsewhere").mkdir()
    path.rename(own / "elsewhere" / "other name.mp4")
    report = library.add([own])
    assert [p.name for p in report.moved] == ["other name.mp4"]
    assert {video.digest: video.id for video in library.videos()} == before
    moved = library.search(SENTENCE, filters=Filters(folder=own / "elsewhere"))
    assert [hit.video.tags for hit in moved] == [("kept",)]


def test_a_copy_is_a_video_of_its_own(library: Library, own: Path) -> None:
    path = library.add([own]).added[0]
    shutil.copy(path, own / "copy.mp4")
    assert [p.name for p in library.add([own]).added] == ["copy.mp4"]


def test_what_cannot_be_read_is_listed_with_a_reason_and_retried_on_request(library: Library, own: Path) -> None:
    good = (own / "test0000.mp4").read_bytes()
    (own / "empty.mp4").write_bytes(b"")
    (own / "text.mp4").write_text("not a video at all\n" * 50)
    (own / "cut.mp4").write_bytes(good[: len(good) // 3])
    (own / "folder.mp4").mkdir()
    report = library.add([own])
    assert len(report.added) == 6
    assert {path.name for path in report.failed} == {"empty.mp4", "text.mp4", "cut.mp4"}
    assert all(len(reason) > 10 for reason in report.failed.values())
    assert library.status().failed == 3
    again = library.add([own])
    assert again.failed == report.failed  # said again, without decoding again
    (own / "text.mp4").write_bytes(good)  # changed: tried by itself
    assert [p.name for p in library.add([own]).added] == ["text.mp4"]
    retried = library.add(retry=True)
    assert {p.name for p in retried.failed} == {"empty.mp4", "cut.mp4"}
    assert library.search(SENTENCE, limit=50).total == 7


def test_several_processes_make_the_library_of_one(own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (own / "text.mp4").write_text("not a video at all\n" * 50)
    (own / "test0000.srt").write_text("1\n00:00:01,000 --> 00:00:02,000\nHello\n")
    alone = Library.create(tmp_path / "alone", encoder="plain", rate=2.0)
    expected = alone.add([own], processes=1)
    monkeypatch.setattr(decoding, "_LARGE", -1)  # every file is decoded in another process
    monkeypatch.delattr(decoding, "_LocalFile")
    together = Library.create(tmp_path / "together", encoder="plain", rate=2.0)
    report = together.add([own], processes=2)
    assert (report.added, report.failed) == (expected.added, expected.failed)
    assert found(together) == found(alone)
    facts = [[(v.path, v.duration, v.width, v.frames, v.subtitles) for v in lib.videos()] for lib in (alone, together)]
    assert facts[0] == facts[1]


def test_a_good_file_that_goes_bad_leaves_the_search(library: Library, own: Path) -> None:
    library.add([own])
    (own / "test0000.mp4").write_text("overwritten by mistake")
    library.add([own])
    assert "test0000.mp4" not in [row[0] for row in found(library)]
    assert library.verify().ok


def test_removal_frees_space_and_leaves_the_rest_as_it_was(library: Library, own: Path) -> None:
    library.add([own])
    before, size = found(library), library.status().bytes
    gone = library.remove([own / "test0000.mp4", own / "test0001.mp4"])
    assert len(gone) == 2
    left = [row for row in before if row[0] not in ("test0000.mp4", "test0001.mp4")]
    assert found(library) == left
    assert library.status().bytes < size
    assert library.verify().ok
    library.remove([own])
    assert library.search(SENTENCE).message == "The library holds no videos yet."
    if isinstance(library.store, FolderStore):
        assert list((library.folder / "shards").iterdir()) == []
    assert len(library.add([own]).added) == 6
    assert sorted(found(library)) == sorted(before)
    with pytest.raises(LibraryError, match="is not in the library"):
        library.remove(["nowhere.mp4"])


def test_videos_whose_files_are_gone_are_reported_and_can_be_removed(library: Library, own: Path) -> None:
    path = library.add([own]).added[0]
    path.unlink()
    assert library.verify().missing == [path]
    assert len(library.search(SENTENCE, limit=50)) == 6  # still found, until somebody decides
    assert [video.path for video in library.remove(missing=True)] == [path]


def test_a_video_in_a_folder_that_may_not_be_entered_is_not_gone(
    library: Library, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = own / "closed"
    closed.mkdir()
    hidden = (own / "test0000.mp4").rename(closed / "test0000.mp4")
    library.add([own])
    stat = Path.stat

    def refuse(path: Path, **options: bool) -> os.stat_result:
        if closed in path.parents:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return stat(path, **options)

    copy = shutil.copy2(hidden, own / "copy.mp4")
    monkeypatch.setattr(Path, "stat", refuse)
    assert library.verify().missing == []
    assert library.remove(missing=True) == []
    report = library.add([copy])
    assert (report.added, report.moved) == ([copy], [])
    assert {video.path for video in library.videos()} >= {hidden, copy}


def test_many_shards_give_the_same_answers(
    whole: Library, films: RenderedWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrays, "SHARD_LIMIT", 20_000)
    lib = Library.create(tmp_path / "small", encoder="plain", rate=whole.settings.rate)
    lib.add([films.folder])
    assert len(list((lib.folder / "shards").iterdir())) > 3
    assert found(lib) == found(whole)
    removed = [films.videos["test0000"], films.videos["train0003"], films.videos["val0002"]]
    lib.remove(removed)
    names = {path.name for path in removed}
    assert found(lib) == [row for row in found(whole) if row[0] not in names]
    assert lib.verify().ok


@pytest.mark.parametrize("local", ["windows", "frames", "moments"])
def test_a_long_video_in_sections_is_one_video(
    local: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, films: RenderedWorld
) -> None:
    rng = np.random.default_rng(0)
    pictures = (np.full((48, 64, 3), rng.integers(0, 255, 3), np.uint8) for _ in range(150))
    film = write_video(tmp_path / "long.mp4", pictures, fps=1)
    one = Library.create(tmp_path / "one", encoder="plain", rate=1.0, local=local)
    one.add([film])
    monkeypatch.setattr(frozen, "SECTION_SAMPLES", 32)
    monkeypatch.setattr(buffer, "MEMORY_LIMIT", 0)
    several = Library.create(tmp_path / "several", encoder="plain", rate=1.0, local=local)
    several.add([film])
    assert (len(one.snapshot().tracks["frames"]), len(several.snapshot().tracks["frames"])) == (1, 5)
    a, b = one.search("a red picture", trace=False), several.search("a red picture", trace=False)
    assert len(a) == len(b) == 1
    if local != "moments":  # moments depend on where a chapter is cut
        assert (a[0].start, a[0].end) == (b[0].start, b[0].end)
        assert a[0].score == pytest.approx(b[0].score, abs=1e-6)
        assert np.array_equal(a[0].evidence.spans, b[0].evidence.spans)
    assert several.videos()[0].frames == 150


def test_progress_is_told(library: Library, own: Path) -> None:
    told: list[AddProgress] = []
    library.add([own], progress=told.append)
    assert told[-1].files == 6
    assert told[-1].bytes_done <= told[-1].bytes
    assert [p.video_seconds for p in told] == sorted(p.video_seconds for p in told)
    assert told[-1].speed > 0
    assert told[-1].left is not None


def test_progress_is_told_while_files_are_read_to_recognise_them(library: Library, own: Path) -> None:
    paths = library.add([own]).added
    for path in paths:
        os.utime(path)
    told: list[AddProgress] = []
    assert len(library.add([own], progress=told.append).unchanged) == 6
    assert [p.path for p in told] == paths
    assert [p.files_done for p in told] == [0, 1, 2, 3, 4, 5]


def test_pipes_and_names_that_are_no_text_are_listed_and_the_rest_is_added(library: Library, own: Path) -> None:
    pipe, odd = own / "pipe.mp4", own / os.fsdecode(b"caf\xe9.mp4")
    shutil.copy(min(own.glob("*.mp4")), odd)
    os.mkfifo(pipe)  # which nobody writes to
    report = library.add([own])
    assert len(report.added) == 6
    assert "a pipe" in report.failed[pipe]
    assert "rename it" in report.failed[odd]
    assert main(["library", "add", str(own), "--library", library.address]) == 1  # it can be said, too
    with pytest.raises(LibraryError, match="not in the library"):
        library.remove([odd])


def test_opening_refuses_what_it_cannot_read(tmp_path: Path, in_folder: Library) -> None:
    with pytest.raises(LibraryError, match=r"is not a library.*--library NEW_FOLDER VIDEOS…` creates one"):
        Library.open(tmp_path)
    with pytest.raises(LibraryError, match=r"is not a library.*--library .*nothing VIDEOS…` creates one"):
        Library.open(tmp_path / "nothing")
    with pytest.raises(LibraryError, match="already holds a library"):
        Library.create(in_folder.folder, encoder="plain")
    with pytest.raises(LibraryError, match="holds something else"):
        Library.create(tmp_path, encoder="plain")
    about = in_folder.folder / "library.json"
    text = about.read_text()
    about.write_text(text.replace('"format": 1', '"format": 9'))
    with pytest.raises(LibraryError, match=r"newer prvr \(format 9"):
        Library.open(in_folder.folder)
    for broken in ("", "[]", "{", '{"format": 1}', '{"format": 1, "settings": 3, "recipes": {}, "made_by": ""}'):
        about.write_text(broken)
        with pytest.raises(LibraryError, match=r"library\.json"):
            Library.open(in_folder.folder)


def test_another_encoder_is_refused_side_by_side(library: Library) -> None:
    class Other(PlainEncoder):
        name = "plain-9"

    with pytest.raises(RecipeMismatch, match=rf"library +encoder\nencoder +\* {PlainEncoder.name} +plain-9"):
        Library(library.store, {FRAMES: Other()})


def test_a_path_that_is_not_there_is_an_error(library: Library, tmp_path: Path) -> None:
    with pytest.raises(LibraryError, match="does not exist: name a video file or a folder"):
        library.add([tmp_path / "nowhere"])


def test_folders_give_videos_and_named_files_are_tried_whatever_their_name(library: Library, own: Path) -> None:
    (own / "notes.txt").write_text("x")
    (own / ".hidden.mp4").write_bytes(b"x")
    (own / "no suffix").write_bytes((own / "test0000.mp4").read_bytes())
    assert len(library.add([own]).added) == 6
    assert len(library.add([own / "no suffix"]).added) == 1


def test_index_size(whole: Library) -> None:
    """Everything on disk counts: vectors in half floats, two of three frames shared by two windows."""
    status = whole.status()
    arrays = sum(p.stat().st_size for p in (whole.folder / "shards").rglob("*.bin"))
    assert status.bytes >= arrays
    assert status.frames == sum(video.frames for video in whole.videos())


def test_a_kill_while_a_library_is_created_leaves_nothing_in_the_way(own: Path, tmp_path: Path) -> None:
    folder = tmp_path / "library"
    folder.mkdir()
    (folder / "..library.json.123.123.part").write_text("{")  # half of library.json, under its temporary name
    library = Library.create(folder, encoder="plain", rate=2.0)
    assert len(library.add([own]).added) == 6
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("Dear")
    with pytest.raises(LibraryError, match="holds something else"):
        Library.create(tmp_path / "other", encoder="plain")
