"""The stages of adding on a cluster, without one: rows that arrive late, twice or never."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from prvr import __version__
from prvr.cluster import ClusterError
from prvr.cluster.add import add_with
from prvr.cluster.connection import require_same_version
from prvr.cluster.decode import Decode, Row
from prvr.cluster.encode import EncodeFrames, SectionWriter, open_library
from prvr.cluster.jobs import ClusterAdd, plan_jobs
from prvr.cluster.object_pieces import ObjectPieces
from prvr.cluster.pieces import PIECES, FolderPieces, Pieces
from prvr.library import FRAMES, Adder, AddReport, Fingerprint, Library, LibraryError, SourceFile, find_videos
from prvr.media import Encoder
from prvr.objects import WorkingCopy
from prvr.worlds import RenderedWorld
from tests.cluster.alike import SENTENCES, requests, same_answers, same_library
from tests.cluster.conftest import RATE
from tests.cluster.made import WordEncoder
from tests.cluster.standin import searcher, start_actors

Index = Callable[[Adder, Sequence[SourceFile]], None]


def add(library: Library, paths: Sequence[Path], index: Index, **options: Any) -> AddReport:
    return add_with(index, library, find_videos(paths), **options)


class Killed(Exception):
    """Stands for a kill of the process that commits."""


@dataclass
class Stages:
    """Indexes with all stages in this process: their rows in any order, and some of them twice."""

    seed: int = 0
    stop_after: int | None = None  # rows
    copy: WorkingCopy | None = None  # of a library on object storage
    decoded: int = 0  # files

    def __call__(self, adder: Adder, sources: Sequence[SourceFile]) -> None:
        pieces: Pieces = FolderPieces(adder.folder)
        if self.copy is not None:
            pieces = ObjectPieces(self.copy.store, self.copy)
        state = ClusterAdd(adder, list(plan_jobs(adder, sources)), pieces)
        state.commit_finished()
        self.decoded = len(state.unfinished)
        opening = (pieces.address, __version__)
        encode, finish = EncodeFrames(*opening), SectionWriter(*opening)
        rows = [encode(row) for row in _decoded(state)]
        random.Random(self.seed).shuffle(rows)
        for count, row in enumerate([*rows, *rows[::3]]):
            video = state.receive(row)
            if video is None:
                continue
            if self.stop_after is not None and count >= self.stop_after:
                raise Killed
            problem, job = video.ending.failed, state.jobs[video.number]
            if problem is None:
                problem = finish.finish(job.key, job.video, video.ending, video.chunks)
            state.finish(video.number, problem)
        assert not state.unfinished
        pieces.tidy()


def _decoded(state: ClusterAdd) -> Iterator[Row]:
    encoder = state.adder.tracks()[FRAMES].encoder
    assert isinstance(encoder, Encoder)
    decode = Decode(state.pieces.address, encoder.fit, 5, state.adder.rate)  # chunks of five frames
    for number in state.unfinished:
        job = state.jobs[number]
        yield from decode({"video": number, "path": str(job.source.path), "key": job.key})


def test_rows_in_any_order_and_twice_make_the_same_library(
    films: RenderedWorld, whole: Library, library: Library
) -> None:
    report = add(library, [films.folder], Stages(), tags=["rendered"])
    assert len(report.added) == len(films.videos)
    assert [path.name for path in report.failed] == ["broken.mp4"]
    same_library(library, whole)


def test_finished_pieces_are_used_again(films: RenderedWorld, whole: Library, library: Library) -> None:
    stopped = Stages(seed=3, stop_after=40)
    with pytest.raises(Killed):
        add(library, [films.folder], stopped, tags=["rendered"])
    left = {path.stem for path in (library.folder / PIECES).glob("*.safetensors")}
    assert left  # later files are done before earlier ones, and wait for them
    assert library.verify().ok
    continued = Stages(seed=4)
    add(library, [films.folder], continued, tags=["rendered"])
    assert continued.decoded <= stopped.decoded - len(left)
    same_library(library, whole)


def test_a_damaged_piece_is_made_again(films: RenderedWorld, whole: Library, library: Library) -> None:
    with pytest.raises(Killed):
        add(library, [films.folder], Stages(seed=3, stop_after=40), tags=["rendered"])
    for path in (library.folder / PIECES).glob("*.safetensors"):
        os.truncate(path, path.stat().st_size // 2)
    add(library, [films.folder], Stages(), tags=["rendered"])
    same_library(library, whole)


def test_a_file_that_crashes_its_decoder_is_given_up(films: RenderedWorld, library: Library) -> None:
    """Each try leaves a mark when it starts, and removes it when it ends."""
    path = sorted(films.videos.values())[0]
    tries: list[bool] = []

    def crash(adder: Adder, sources: Sequence[SourceFile]) -> None:
        pieces = FolderPieces(adder.folder)
        tries.extend(pieces.begin(job.key) for job in plan_jobs(adder, sources) for _ in range(6))
        Stages()(adder, sources)

    report = add(library, [path], crash)
    assert tries == [True] * 5 + [False]
    assert "may crash" in report.failed[path]
    assert add(library, [], Stages(), retry=True).added == [path]


def test_a_node_that_does_not_see_the_videos_is_an_error_of_the_cluster(
    films: RenderedWorld, library: Library, tmp_path: Path
) -> None:
    path = tmp_path / "film.mp4"
    shutil.copy2(sorted(films.videos.values())[0], path)

    def index_elsewhere(adder: Adder, sources: Sequence[SourceFile]) -> None:
        (job,) = plan_jobs(adder, sources)
        unseen = replace(job, source=replace(job.source, path=tmp_path / "missing.mp4"))
        (row,) = _decoded(ClusterAdd(adder, [unseen], FolderPieces(adder.folder)))
        encode = EncodeFrames(str(adder.folder), __version__)
        ClusterAdd(adder, [job], FolderPieces(adder.folder)).receive(encode(row))

    with pytest.raises(ClusterError, match=r"does not see .*film\.mp4"):
        add(library, [path], index_elsewhere)
    assert not library.videos()


def test_a_node_without_the_library_or_with_another_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="does not see the library"):
        open_library(str(tmp_path / "nowhere"), __version__)
    with pytest.raises(LibraryError, match="same version"):
        require_same_version("0.0.0")


def test_another_process_was_first(films: RenderedWorld, whole: Library, library: Library) -> None:
    """The same folder is added on this machine meanwhile: no video is added twice."""

    def index_late(adder: Adder, sources: Sequence[SourceFile]) -> None:
        Library.open(library.folder).add([films.folder], tags=["rendered"])
        Stages()(adder, sources)

    report = add(library, [films.folder], index_late, tags=["rendered"])
    assert not report.added
    assert len(report.unchanged) == len(films.videos)
    same_library(library, whole)


@pytest.fixture
def spoken(films: RenderedWorld, tmp_path: Path) -> Path:
    """Six films, some with subtitles."""
    folder = tmp_path / "spoken"
    folder.mkdir()
    for number, path in enumerate(sorted(films.videos.values())[:6]):
        shutil.copy2(path, folder)
        if number % 2:
            line = f"1\n00:00:01,000 --> 00:00:02,000\na red line of film {number}\n"
            (folder / f"{path.stem}.srt").write_text(line)
    return folder


def test_subtitles(spoken: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second track, through the stages and through shards of which some have no section of it."""
    monkeypatch.setattr("prvr.library.ingest.setup.open_text_encoder", lambda name: WordEncoder())
    alone, library = (Library.create(tmp_path / name, text_encoder="words", rate=RATE) for name in ("alone", "cluster"))
    alone.add([spoken])
    add(library, [spoken], Stages())
    same_library(library, alone)
    queries = [*SENTENCES, "a red line", "of film"]
    for options in ({"limit": 4}, {"limit": 2, "offset": 3}, {"limit": 10, "group_by": "moment"}):
        for shards in (2, 6):
            found = searcher(library, start_actors(library, shards)).search_many(requests(queries, **options))
            same_answers(found, alone.search_many(requests(queries, **options)))


def test_each_file_is_hashed_once(films: RenderedWorld, library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[Path] = []
    fingerprint = Fingerprint.of

    def counted(path: Path) -> Fingerprint:
        hashed.append(path)
        return fingerprint(path)

    monkeypatch.setattr(Fingerprint, "of", counted)
    paths = sorted(films.videos.values())[:3]
    add(library, paths, Stages())
    assert hashed == paths
