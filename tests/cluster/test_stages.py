"""The stages of adding on a cluster, without one: what arrives late, twice or never."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from prvr import __version__
from prvr.cluster.connecting import ClusterError, same_version
from prvr.cluster.decoding import Decode, Row
from prvr.cluster.encoding import EncodeFrames, Finish, opened_library
from prvr.cluster.object_pieces import ObjectPieces
from prvr.cluster.pieces import PIECES, FolderPieces
from prvr.cluster.run import Run, job_of
from prvr.library import Library, LibraryError, SearchOptions
from prvr.library.ingest.add import Adder
from prvr.library.ingest.files import Source
from prvr.library.ingest.tracks import FRAMES
from prvr.media.encoders.base import Encoder
from prvr.objects import WorkingCopy
from prvr.worlds import RenderedWorld
from tests.cluster.alike import SENTENCES, same_answers, same_library
from tests.cluster.conftest import RATE
from tests.cluster.standin import actors, searcher
from tests.library.test_searching import Words


class Stop(Exception):
    """The one who commits was killed."""


@dataclass
class Stages:
    """A ``Work``: all stages in this process, their rows in any order and some of them twice."""

    seed: int = 0
    stop_after: int | None = None  # videos
    copy: WorkingCopy | None = None  # of a library on object storage

    def __call__(self, adder: Adder, todo: list[Source], began: float) -> None:
        pieces = FolderPieces(adder.folder) if self.copy is None else ObjectPieces(self.copy.store, self.copy)
        jobs = [job_of(adder, source) for source in todo if not adder.known_after_all(source)]
        run = Run(adder, jobs, began, pieces)
        run.commit_ready()
        self.decoded = len(run.open)
        opening = (run.pieces.address, __version__)
        encode, finish = EncodeFrames(*opening), Finish(*opening)
        rows = [encode(row) for row in _decoded(run)]
        random.Random(self.seed).shuffle(rows)
        for count, row in enumerate([*rows, *rows[::3]]):
            arrived = run.take(row)
            if arrived is None:
                continue
            if self.stop_after is not None and count >= self.stop_after:
                raise Stop
            problem, job = arrived.ending.failed, run.jobs[arrived.number]
            if problem is None:
                problem = finish.finish(job.key, job.video, arrived.ending, arrived.chunks)
            run.finished(arrived.number, problem)
        assert not run.open
        run.pieces.tidy()


def _decoded(run: Run) -> Iterator[Row]:
    encoder = run.adder.tracks()[FRAMES].encoder
    assert isinstance(encoder, Encoder)
    decode = Decode(run.pieces.address, encoder.fit, 5, run.adder.rate)  # chunks of five pictures
    for number in run.open:
        job = run.jobs[number]
        yield from decode({"video": number, "path": str(job.source.path), "key": job.key})


def test_rows_in_any_order_and_twice_make_the_same_library(
    films: RenderedWorld, whole: Library, library: Library
) -> None:
    report = library.add([films.folder], tags=["rendered"], work=Stages())
    assert len(report.added) == len(films.videos)
    assert [path.name for path in report.failed] == ["broken.mp4"]
    same_library(library, whole)


def test_finished_pieces_are_used_again(films: RenderedWorld, whole: Library, library: Library) -> None:
    stopped = Stages(seed=3, stop_after=40)
    with pytest.raises(Stop):
        library.add([films.folder], tags=["rendered"], work=stopped)
    lying = {path.stem for path in (library.folder / PIECES).glob("*.safetensors")}
    assert lying  # later ones are done before earlier ones, and wait
    assert library.verify().ok
    going_on = Stages(seed=4)
    library.add([films.folder], tags=["rendered"], work=going_on)
    assert going_on.decoded <= stopped.decoded - len(lying)
    same_library(library, whole)


def test_a_damaged_piece_is_made_again(films: RenderedWorld, whole: Library, library: Library) -> None:
    with pytest.raises(Stop):
        library.add([films.folder], tags=["rendered"], work=Stages(seed=3, stop_after=40))
    for path in (library.folder / PIECES).glob("*.safetensors"):
        os.truncate(path, path.stat().st_size // 2)
    library.add([films.folder], tags=["rendered"], work=Stages())
    same_library(library, whole)


def test_a_file_that_kills_its_decoder_is_given_up(films: RenderedWorld, library: Library) -> None:
    """Every begun attempt leaves a mark, which an ended one takes away."""
    path = sorted(films.videos.values())[0]
    crashing, tries = Stages(), []

    def work(adder: Adder, todo: list[Source], began: float) -> None:
        pieces = FolderPieces(adder.folder)
        tries.extend(pieces.begin(job_of(adder, source).key) for source in todo for _ in range(6))
        crashing(adder, todo, began)

    report = library.add([path], work=work)
    assert tries == [True] * 5 + [False]
    assert "may crash" in report.failed[path]
    assert library.add([path], retry=True, work=Stages()).added == [path]  # and tried again when asked


def test_a_node_that_does_not_see_the_videos_is_an_error_of_the_cluster(
    films: RenderedWorld, library: Library, tmp_path: Path
) -> None:
    path = tmp_path / "film.mp4"
    shutil.copy2(sorted(films.videos.values())[0], path)

    def elsewhere(adder: Adder, todo: list[Source], began: float) -> None:
        run = Run(adder, [job_of(adder, source) for source in todo], began, FolderPieces(adder.folder))
        run.jobs[0] = replace(run.jobs[0], source=replace(run.jobs[0].source, path=tmp_path / "not there.mp4"))
        (row,) = (EncodeFrames(str(adder.folder), __version__)(each) for each in _decoded(run))
        run.jobs[0] = job_of(adder, todo[0])
        run.take(row)

    with pytest.raises(ClusterError, match=r"does not see .*film\.mp4"):
        library.add([path], work=elsewhere)
    assert not library.videos()


def test_a_node_without_the_library_or_with_another_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="does not see the library"):
        opened_library(str(tmp_path / "nowhere"), __version__)
    with pytest.raises(LibraryError, match="same version"):
        same_version("0.0.0")


def test_another_process_was_first(films: RenderedWorld, whole: Library, library: Library) -> None:
    """The same folder is added on this machine meanwhile: nothing is there twice."""
    stages = Stages()

    def late(adder: Adder, todo: list[Source], began: float) -> None:
        Library.open(library.folder).add([films.folder], tags=["rendered"])
        stages(adder, todo, began)

    report = library.add([films.folder], tags=["rendered"], work=late)
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
    """A second track, through the stages and through shards of which some have none of it."""
    monkeypatch.setattr("prvr.library.ingest.setup.open_text_encoder", lambda name: Words())
    made: list[Library] = []
    works: list[Callable[..., None] | None] = [None, Stages()]
    for number, work in enumerate(works):
        lib = Library.create(tmp_path / f"library{number}", text_encoder="words", rate=RATE)
        lib.add([spoken], work=work)
        made.append(lib)
    same_library(made[1], made[0])
    asked = [*SENTENCES, "a red line", "of film"]
    for options in (SearchOptions(limit=4), SearchOptions(limit=2, offset=3), SearchOptions(group_by="moment")):
        for shards in (2, 6):
            found = searcher(made[1], actors(made[1], shards)).search_many(asked, options)
            same_answers(found, made[0].search_many(asked, options))
