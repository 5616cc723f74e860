"""Adding on a cluster without one: a worker in this process, and the results that the command commits."""

from __future__ import annotations

import random
import shutil
import socket
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("lance", reason='lakes need Lance: pip install "prvr[scale]"')

from prvr import __version__
from prvr.lake import ClusterError, add_on_cluster, connected, create_library
from prvr.lake.cluster import FileGroup, GroupResult, IndexWorker, WorkerPool, commit_results, file_groups
from prvr.lake.store import LakeStore
from prvr.library import Adder, AddReport, Library, LibrarySettings, SourceFile, find_videos
from prvr.worlds import RenderConfig, RenderedWorld, render_world
from tests.lake.nodes import require_same

SETTINGS = LibrarySettings("plain", rate=2.0)


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> RenderedWorld:
    """Five films, and a file that is not a video; do not change them."""
    config = RenderConfig(train=1, val=1, test=3, events=(1, 2), seconds=(3.0, 4.0), width=64, height=48, fps=4.0)
    world = render_world(tmp_path_factory.mktemp("rendered") / "films", config)
    (world.folder / "videos" / "broken.mp4").write_text("no video")
    return world


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return create_library(str(tmp_path / "films.lance"), SETTINGS)


def worker_of(library: Library, **options: Any) -> IndexWorker:
    worker = IndexWorker(library.address, __version__, ("drawn",), **options)
    worker.open()
    return worker


def group_of(*paths: Path) -> FileGroup:
    return FileGroup(tuple(SourceFile.of(path) for path in paths))


def add(library: Library, sources: Sequence[SourceFile], results: Iterable[GroupResult], **options: Any) -> AddReport:
    """Commit what workers have returned."""
    adder: Adder = library.adder(tags=["drawn"], **options)
    assert isinstance(library.store, LakeStore)
    try:
        commit_results(library.store, adder, sources, results)
    finally:
        adder.finish()
    return adder.report


def test_workers_make_the_library_of_one_machine(films: RenderedWorld, library: Library, tmp_path: Path) -> None:
    alone = create_library(str(tmp_path / "alone.lance"), SETTINGS)
    alone.add([films.folder], tags=["drawn"])
    sources, shown = group_of(*find_videos([films.folder])).files, list[Any]()
    groups = file_groups(sources, workers=1)
    random.Random(0).shuffle(groups)
    workers = [worker_of(library, threads=threads) for threads in (1, 3)]
    results = [(group, workers[number % 2].index(group)) for number, group in enumerate(groups)]
    report = add(library, sources, results, progress=shown.append)
    assert sorted(report.added) == sorted(films.videos.values())
    assert [path.name for path in report.failed] == ["broken.mp4"]
    assert (shown[-1].bytes_done, shown[-1].files_done + 1) == (shown[-1].bytes, 6)
    assert report.video_seconds == pytest.approx(sum(video.duration or 0 for video in alone.videos("ok")))
    require_same(library, alone)


def test_what_was_finished_before_a_problem_is_kept(films: RenderedWorld, library: Library) -> None:
    first, second, *_ = sorted(films.videos.values())
    group = group_of(first)

    def results() -> Iterator[GroupResult]:
        yield group, worker_of(library).index(group)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        add(library, group_of(first, second).files, results())
    assert [video.path for video in library.videos()] == [first]


def test_a_group_that_two_commands_index_is_kept_once(films: RenderedWorld, library: Library) -> None:
    group = group_of(*sorted(films.videos.values())[:2])
    files = [source.path for source in group.files]
    written = [worker_of(library).index(group) for _ in range(2)]  # both before the first commit
    assert [add(library, group.files, [(group, each)]).added for each in written] == [files, []]
    assert [video.path for video in library.videos()] == files
    assert isinstance(library.store, LakeStore)
    table = library.store.tables["frames"].open()
    assert table is not None
    assert table.count_rows() == len(library.snapshot().tracks["frames"])


def test_a_file_that_a_node_does_not_see_is_an_error_of_the_cluster(
    films: RenderedWorld, library: Library, tmp_path: Path
) -> None:
    path, aside = tmp_path / "film.mp4", tmp_path / "aside.mp4"
    shutil.copy2(sorted(films.videos.values())[0], path)
    group = group_of(path)
    path.rename(aside)
    written = worker_of(library).index(group)
    aside.rename(path)
    with pytest.raises(ClusterError, match=rf"film\.mp4 does not exist on node {socket.gethostname()}"):
        add(library, group.files, [(group, written)])
    assert library.videos() == []


def test_a_file_that_was_deleted_meanwhile_has_failed(films: RenderedWorld, library: Library, tmp_path: Path) -> None:
    path = tmp_path / "film.mp4"
    shutil.copy2(sorted(films.videos.values())[0], path)
    group = group_of(path)
    path.unlink()
    assert "does not exist" in add(library, group.files, [(group, worker_of(library).index(group))]).failed[path]


def test_problems_of_a_node_name_it(tmp_path: Path) -> None:
    worker = IndexWorker(str(tmp_path / "other.lance"), __version__, ())
    with pytest.raises(ClusterError, match=f"node {socket.gethostname()}: there is no library"):
        worker.open()


def test_another_version_is_refused(library: Library) -> None:
    with pytest.raises(ClusterError, match="install the same version on every node"):
        IndexWorker(library.address, "0.0.1", ()).open()


def test_a_library_for_one_machine_is_refused(films: RenderedWorld, tmp_path: Path) -> None:
    library = create_library(str(tmp_path / "films.prvr"), SETTINGS)
    with pytest.raises(ClusterError, match="prvr library copy"):
        add_on_cluster(library, library.adder(), find_videos([films.folder]), "local")


def test_at_least_one_worker(films: RenderedWorld, library: Library) -> None:
    with pytest.raises(ClusterError, match="at least one"):
        add_on_cluster(library, library.adder(), find_videos([films.folder]), "local", workers=0)


def test_moved_files_need_no_cluster(
    films: RenderedWorld, library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, moved = tmp_path / "film.mp4", tmp_path / "moved.mp4"
    shutil.copy2(sorted(films.videos.values())[0], path)
    library.add([path])
    path.rename(moved)
    monkeypatch.setattr("prvr.lake.cluster.connected", lambda address: pytest.fail("nothing is to be done"))
    report = add_on_cluster(library, library.adder(), [moved])
    assert report.moved == [moved]
    assert add_on_cluster(library, library.adder(), [moved]).unchanged == [moved]


def test_groups_hold_every_file_once() -> None:
    numbers = random.Random(0)
    for count, workers in ((1, 4), (7, 2), (100, 3), (5000, 8)):
        sources = [SourceFile(Path(f"{n}.mp4"), numbers.choice((10, 10**6, 10**8, 10**10)), 0) for n in range(count)]
        groups = file_groups(sources, workers)
        assert [source for group in groups for source in group.files] == sources
        assert all(
            len(g.files) <= 32 and (len(g.files) == 1 or sum(s.size for s in g.files) <= 1 << 28) for g in groups
        )
        assert len(groups) >= min(count, 4 * workers)


def test_nothing_listens_there() -> None:
    pytest.importorskip("ray", reason='clusters need Ray: pip install "prvr[scale]"')
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    with pytest.raises(ClusterError, match="no Ray cluster answers"), connected(address):
        pass


class WorkerDied(Exception):
    """Ray's errors, for a worker that is gone."""


class WorkerRaised(WorkerDied):
    def __init__(self, cause: Exception):
        self.cause = cause


@dataclass
class Ray:
    """As much of Ray as the pool uses. Every call of a worker is answered when it is waited for, in any order."""

    seed: int
    exceptions: Any = None
    killed: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.exceptions = type("exceptions", (), {"RayError": WorkerDied, "RayTaskError": WorkerRaised})
        self.numbers = random.Random(self.seed)

    def wait(self, answers: list[Answer]) -> tuple[list[Answer], list[Answer]]:
        chosen = self.numbers.choice(answers)
        return [chosen], [each for each in answers if each is not chosen]

    def get(self, answer: Answer) -> Any:
        return answer.call(*answer.arguments)

    def kill(self, worker: Any) -> None:
        self.killed.append(worker)


@dataclass(eq=False)
class Answer:
    call: Any
    arguments: tuple[Any, ...]


@dataclass(eq=False)
class Remote:
    call: Any

    def remote(self, *arguments: Any) -> Answer:
        return Answer(self.call, arguments)


class Worker:
    """Dies of certain files, and of every tenth group."""

    groups = 0

    def __init__(self, deadly: set[Path], problem: Exception | None = None):
        self.deadly, self.problem = deadly, problem
        self.open, self.index = Remote(lambda: None), Remote(self._index)

    def _index(self, group: FileGroup) -> str:
        Worker.groups += 1
        if self.problem is not None:
            raise WorkerRaised(self.problem)
        if Worker.groups % 10 == 0 or any(source.path in self.deadly for source in group.files):
            raise WorkerDied
        return "written"


def made_groups(count: int, workers: int) -> list[FileGroup]:
    return file_groups([SourceFile(Path(f"{number}.mp4"), 10, 0) for number in range(count)], workers)


@pytest.mark.parametrize("seed", range(5))
def test_files_of_lost_workers_are_tried_again(seed: int) -> None:
    """Only the two files that always end their worker are given up, each after being alone."""
    Worker.groups = 0
    ray, deadly = Ray(seed), {Path("7.mp4"), Path("8.mp4")}
    pool = WorkerPool(ray, lambda: Worker(deadly))
    found = list(pool.results(made_groups(300, 3), 3))
    assert sorted(source.path for group, _ in found for source in group.files) == sorted(
        Path(f"{number}.mp4") for number in range(300)
    )
    assert {group.files[0].path for group, written in found if written is None} == deadly
    assert all(len(group.files) == 1 for group, written in found if written is None)
    pool.close()
    assert len(ray.killed) == len({*map(id, ray.killed)})


def test_a_problem_of_a_worker_is_raised_here() -> None:
    pool = WorkerPool(Ray(0), lambda: Worker(set(), ClusterError("node b: the disk is full")))
    with pytest.raises(ClusterError, match="node b: the disk is full"):
        list(pool.results(made_groups(10, 2), 2))


def test_workers_that_never_begin_end_the_command() -> None:
    def start() -> Worker:
        worker = Worker(set())
        worker.open = Remote(dies)
        return worker

    def dies() -> None:
        raise WorkerDied("No module named 'prvr'")

    with pytest.raises(ClusterError, match="end before they can begin: No module named 'prvr'"):
        list(WorkerPool(Ray(0), start).results(made_groups(10, 2), 2))
