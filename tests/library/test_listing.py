"""Lists of videos, folders and tags, in a folder and in a lake."""

from __future__ import annotations

import itertools
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from prvr.lake import create_library, listing
from prvr.library import IndexedVideo, Library, LibrarySettings, ListRequest, NewVideo, VideoOrder, examples
from prvr.library.ingest import frozen
from prvr.library.store import catalogue

BASE = Path("/films")


def new(name: str, number: int, **more: object) -> IndexedVideo:
    """A video without vectors; what is listed needs none."""
    given = {"duration": 10.0 * number, "tags": (), "added": 1000.0 - number, **more}
    return IndexedVideo(NewVideo(BASE / name, size=1, mtime=number * 10**9, digest=f"d{number}", **given))  # type: ignore[arg-type]


@pytest.fixture
def listed(library: Library) -> Library:
    """Six files in three folders, one of them unreadable."""
    library.store.commit(
        [
            new("b.mp4", 1, tags=("home", 'a "quoted" tag')),
            new("2023/z.mp4", 2, tags=("home",)),
            new("2023/summer/a.mp4", 3),
            new("2024/c.mp4", 6, tags=("homework", "quoted")),
            new("2024/d.mp4", 4, duration=None),
            new("2024/broken.mp4", 5, state="failed", problem="it is empty", duration=None),
        ]
    )
    return library


def names(library: Library, **asked: object) -> list[str]:
    return [video.name for video in library.listing(ListRequest(**asked)).videos]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("order", "first"),
    [
        ("added", ["b.mp4", "z.mp4", "a.mp4", "c.mp4", "d.mp4", "broken.mp4"]),
        ("newest", ["c.mp4", "broken.mp4", "d.mp4", "a.mp4", "z.mp4", "b.mp4"]),
        ("recent", ["b.mp4", "z.mp4", "a.mp4", "d.mp4", "broken.mp4", "c.mp4"]),
        ("name", ["a.mp4", "z.mp4", "broken.mp4", "c.mp4", "d.mp4", "b.mp4"]),
        ("longest", ["c.mp4", "a.mp4", "z.mp4", "b.mp4"]),
    ],
)
def test_orders(listed: Library, order: VideoOrder, first: list[str]) -> None:
    assert names(listed, order=order)[: len(first)] == first


def test_a_part_of_the_list_and_how_long_it_is(listed: Library) -> None:
    part = listed.listing(ListRequest(order="newest", offset=2, limit=2))
    assert ([video.name for video in part.videos], part.total) == (["d.mp4", "a.mp4"], 6)
    assert listed.listing(ListRequest(offset=99)).videos == []


def test_conditions(listed: Library) -> None:
    assert names(listed, state="failed") == ["broken.mp4"]
    assert names(listed, folder=BASE / "2023") == ["z.mp4", "a.mp4"]
    assert names(listed, folder=BASE / "202") == []
    assert names(listed, tag="home") == ["b.mp4", "z.mp4"]
    assert names(listed, tag="quoted") == ["c.mp4"]
    assert names(listed, tag='a "quoted" tag') == ["b.mp4"]
    assert names(listed, tag="home", folder=BASE / "2023", state="ok") == ["z.mp4"]


def test_folders_in_a_folder(listed: Library) -> None:
    assert listed.folders(BASE) == {"2023": 2, "2024": 2}
    assert listed.folders(BASE / "2023") == {"summer": 1}
    assert listed.folders(BASE / "2024") == {}


def test_the_folders_that_are_kept_in_memory_are_bounded(in_folder: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prvr.library.folder._KEPT_FOLDERS", 3)
    in_folder.store.commit([new(f"{number}/inner/a.mp4", number) for number in range(1, 6)])
    for number in range(1, 6):
        assert in_folder.folders(BASE / str(number)) == {"inner": 1}
        assert in_folder.folders(BASE / "nowhere" / str(number)) == {}
    store: Any = in_folder.store
    assert len(store._inner[1]) <= 3


@pytest.mark.skipif(os.sep == "\\", reason="there a backslash separates")
def test_a_backslash_is_part_of_a_name(in_folder: Library) -> None:
    in_folder.store.commit([new("a\\b/c.mp4", 1), new("a\\b/in/d.mp4", 2), new("a\\e.mp4", 3)])
    assert names(in_folder, folder=BASE / "a\\b") == ["c.mp4", "d.mp4"]
    assert in_folder.folders(BASE) == {"a\\b": 2}
    assert in_folder.folders(BASE / "a\\b") == {"in": 1}
    assert in_folder.summary().folders == (BASE, BASE / "a\\b", BASE / "a\\b" / "in")


def test_a_folder_whose_name_is_no_text_holds_nothing(listed: Library) -> None:
    odd = BASE / os.fsdecode(b"caf\xe9")
    assert listed.listing(ListRequest(folder=odd)).total == 0
    assert listed.folders(odd) == {}


def test_the_summary_follows_every_change(listed: Library) -> None:
    summary = listed.summary()
    assert (summary.videos, summary.failed, summary.seconds) == (5, 1, 120.0)
    assert summary.tags == {'a "quoted" tag': 1, "home": 2, "homework": 1, "quoted": 1}
    assert [str(folder) for folder in summary.folders] == [
        "/films", "/films/2023", "/films/2023/summer", "/films/2024",
    ]  # fmt: skip
    assert summary.ends == (BASE / "2023/summer/a.mp4", BASE / "b.mp4")
    listed.change_tags(2, add=["new", "home"], remove=["home", "never had"])
    assert listed.summary().tags == {'a "quoted" tag': 1, "home": 1, "homework": 1, "new": 1, "quoted": 1}
    listed.remove([BASE / "2023"])
    assert listed.summary().videos == 3
    assert listed.video(2) is None
    broken = listed.video(6)
    assert broken is not None
    assert broken.problem == "it is empty"


def test_readers_of_a_lake_count_each_version_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("lance", reason='a lake needs Lance: pip install "prvr[scale]"')
    lake = create_library(str(tmp_path / "library.lance"), LibrarySettings("plain"))
    lake.store.commit([new("a.mp4", 1)])
    summarise, counted = listing.lake_summary, []

    def slow_summary(rows: object) -> object:
        counted.append(rows)
        time.sleep(0.2)
        return summarise(rows)

    monkeypatch.setattr(listing, "lake_summary", slow_summary)
    with ThreadPoolExecutor(4) as readers:
        assert [each.videos for each in readers.map(lambda _: lake.summary(), range(4))] == [1] * 4
    assert len(counted) == 1


def test_an_empty_library_has_an_empty_list(library: Library) -> None:
    assert (library.listing(ListRequest()).total, library.summary().videos, library.summary().ends) == (0, 0, ())
    assert library.folders(BASE) == {}
    assert library.examples() == []


def test_a_part_of_many_videos_reads_no_others(in_folder: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    with in_folder.store.catalogue.writing() as db:  # type: ignore[attr-defined]
        db.executemany(
            "INSERT INTO videos (path, size, mtime, digest, subtitles, state, duration, frames, tags, added) "
            "VALUES (?, 1, ?, ?, '', 'ok', 60.0, 60, '[\"home\"]', ?)",
            [(f"/films/{n % 30}/{n}.mp4", n, str(n), n) for n in range(10_000)],
        )
    made = 0
    usual = catalogue.Video

    def counted(**fields: Any) -> Any:
        nonlocal made
        made += 1
        return usual(**fields)

    monkeypatch.setattr(catalogue, "Video", counted)
    middle = ListRequest("ok", order="newest", offset=5_000, limit=48)
    narrowed = ListRequest("ok", folder=Path("/films/7"), tag="home", order="name", limit=48)
    for asked in (middle, narrowed):
        assert len(in_folder.listing(asked).videos) == 48
    assert in_folder.summary().videos == 10_000
    assert made == 96


def test_examples_are_answered_well(whole: Library) -> None:
    sentences = whole.examples(3)
    assert 1 <= len(sentences) <= 3
    first = set()
    for sentence in sentences:
        found = whole.search(sentence, limit=1)
        assert found.confident
        first.add(found[0].video.id)
    assert len(first) == len(sentences)


def test_a_large_library_without_an_index_is_not_read_for_examples(
    whole: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examples, "_MOST_SECTIONS", 10)
    assert whole.examples() == []


def test_what_is_said_is_an_example(in_folder: Library, own: Path) -> None:
    film = sorted(own.iterdir())[0]
    film.with_suffix(".srt").write_text("1\n00:00:01,000 --> 00:00:02,000\nWe shall never surrender, my friend!\n")
    in_folder.add([own])
    assert "We shall never surrender, my friend" in in_folder.examples(5)


def test_evidence_says_where_the_sections_of_a_long_video_are(
    in_folder: Library, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frozen, "SECTION_SAMPLES", 4)
    film = sorted(own.iterdir())[0]
    in_folder.add([film])
    evidence = in_folder.explain("a red square", 1).evidence
    assert len(evidence.sections) > 1
    assert evidence.sections[0][0] == 0.0
    assert evidence.sections[-1][1] == pytest.approx(float(evidence.spans[:, 1].max()))
    assert all(start <= before for (_, before), (start, _) in itertools.pairwise(evidence.sections))
