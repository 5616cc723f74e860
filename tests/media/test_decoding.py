"""Several processes decode what one would, in the same order, and a bad file or a killed decoder harms no other."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest

from prvr.errors import UserError
from prvr.library import LibrarySettings, start_decoders
from prvr.library.ingest import index
from prvr.media import (
    DecodedFile,
    EncoderError,
    FileChanged,
    Fit,
    Image,
    MediaError,
    MissingExtra,
    Sampling,
    StorageError,
    decode_server,
    decode_videos,
    decoder_pool,
    decoder_process,
    decoding,
    drop_early_decoders,
    open_video,
    start_decoders_early,
    stretches,
    write_video,
)
from tests.waiting import until

HOW = Sampling(5.0, Fit(32, 24), batch=8)
pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")


def moving(seconds: float, seed: int = 0, fps: int = 25) -> Iterator[Image]:
    """A square that moves over noise: every picture differs."""
    rng = np.random.default_rng(seed)
    ground = rng.integers(0, 200, (72, 96, 3), np.uint8)
    for number in range(round(seconds * fps)):
        image = ground.copy()
        x = 3 * number % 80
        image[20:40, x : x + 16] = (255, number % 256, 0)
        yield image


@pytest.fixture(scope="module")
def long_films(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Films of 30 s, with key frames every two seconds or so."""
    folder = tmp_path_factory.mktemp("long")
    kinds = {
        "closed.mp4": ("libx264", {"g": "50", "bf": "3"}),
        "open.mp4": ("libx264", {"g": "50", "bf": "3", "x264-params": "open-gop=1"}),
        "old.avi": ("mpeg4", {"g": "50"}),
        "many.mkv": ("libx264", {"g": "50"}),
    }
    return {
        name: write_video(folder / name, moving(30, number), codec=codec, options=options)
        for number, (name, (codec, options)) in enumerate(kinds.items())
    }


def read(file: DecodedFile) -> list[tuple[float, bytes]]:
    return [
        (float(time), image.tobytes())
        for batch in file.batches()
        for time, image in zip(batch.times, batch.images, strict=True)
    ]


def one_pass(path: Path) -> tuple[list[tuple[float, bytes]], str | None]:
    with open_video(path) as video:
        return [(frame.time, frame.image.tobytes()) for frame in video.frames(HOW.rate, HOW.fit)], video.problem


def test_processes_give_the_files_of_one_process_in_order(long_films: dict[str, Path], tmp_path: Path) -> None:
    """Some are cut into stretches, one is damaged in the middle, one is no video, some are short."""
    whole = long_films["closed.mp4"].read_bytes()
    damaged, text = tmp_path / "damaged.mp4", tmp_path / "text.mp4"
    middle = len(whole) // 2
    damaged.write_bytes(whole[:middle] + b"\xff" * 3000 + whole[middle + 3000 :])
    text.write_text("no video\n" * 100)
    short = [write_video(tmp_path / f"{number}.mp4", moving(1.0, number)) for number in range(5)]
    paths = [*short[:2], text, *long_films.values(), damaged, *short[2:]]
    found = list[tuple[list[tuple[float, bytes]], str | None]]()
    for path, file in zip(paths, decode_videos(paths, HOW, 2, start_after=0, wait=True), strict=True):
        if path == text:
            with pytest.raises(MediaError, match="not a video"):
                read(file)
            continue
        samples = read(file)
        assert file.info is not None
        assert file.info.path == path
        found.append((samples, file.problem))
    assert found == [one_pass(path) for path in paths if path != text]
    assert found[-4][1] is not None  # the damage was noticed


@pytest.mark.parametrize("name", ["closed.mp4", "open.mp4", "old.avi", "many.mkv"])
def test_stretches_are_cut_where_there_is_an_index(name: str, long_films: dict[str, Path]) -> None:
    with open_video(long_films[name]) as video:
        first, cuts = stretches.find_cuts(video, HOW.rate)  # type: ignore[arg-type]
        assert len(cuts) >= 1
        edges = [0, *cuts, None]
        found = [
            frame
            for start, end in itertools.pairwise(edges)
            for frame in stretches.stretch_frames(video, HOW, first, start, end)  # type: ignore[arg-type]
        ]
    assert [(frame.time, frame.image.tobytes()) for frame in found] == one_pass(long_films[name])[0]


def started(program: bytes, parents: Iterable[int] = ()) -> list[int]:
    """The processes that run a program for this one, or for others."""
    found, parents = [], {*parents} or {os.getpid()}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            facts = dict(line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line)
            command = (status.parent / "cmdline").read_bytes()
        except (OSError, ValueError):
            continue
        if int(facts["PPid"]) in parents and program in command:
            found.append(int(status.parent.name))
    return found


def fork_servers(parent: int | None = None) -> list[int]:
    return started(b"fork_server", [parent or os.getpid()])


def decoders(parent: int | None = None) -> list[int]:
    """The processes that decode for this one: forks, or programs of their own."""
    parent = parent or os.getpid()
    servers = fork_servers(parent)
    return [*(started(b"fork_server", servers) if servers else ()), *started(b"decode_server", [parent])]


@pytest.mark.parametrize(
    ("number", "reason"), [(signal.SIGSEGV, "crashed the decoder"), (signal.SIGSTOP, "hangs on this file")]
)
def test_a_decoder_that_crashes_or_hangs_harms_one_file(
    number: signal.Signals, reason: str, long_films: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoder_pool, "_PATIENCE", 1.0)
    monkeypatch.setattr(decoder_pool, "_LOOK", 0.2)
    monkeypatch.setattr(decoder_process, "_SLOTS", 2)  # so that it must wait in the middle of a file
    path = long_films["many.mkv"]
    files = decode_videos([path] * 6, HOW, 2, start_after=0, wait=True)
    reasons = []
    for turn, file in enumerate(files):
        try:
            for place, batch in enumerate(file.batches()):
                if (turn, place) == (1, 1):
                    for process in decoders():
                        os.kill(process, number)
                assert len(batch.times)
        except MediaError as problem:
            reasons.append(problem.reason)
    assert 1 <= len(reasons) <= 2  # both decoders were hit
    assert all(reason in each for each in reasons)
    assert (fork_servers(), decoders()) == ([], [])


def test_forks_scale_with_torch_as_one_process_does(long_films: dict[str, Path]) -> None:
    """Whoever forks them has imported torch and started no thread."""
    how, paths = Sampling(1.0, Fit(40, 30, "cover", "bicubic"), batch=8), [*long_films.values()]
    for number, file in enumerate(decode_videos(paths, how, 2, start_after=0, wait=True)):
        if number == 0:
            [server] = fork_servers()
            assert len([*Path(f"/proc/{server}/task").iterdir()]) == 1
            assert b"libtorch" in Path(f"/proc/{server}/maps").read_bytes()
            assert len(started(b"fork_server", [server])) == 2
        with open_video(paths[number]) as video:
            assert read(file) == [(frame.time, frame.image.tobytes()) for frame in video.frames(how.rate, how.fit)]


def test_after_the_fork_server_was_killed_decoders_are_programs_of_their_own(long_films: dict[str, Path]) -> None:
    path, reasons, whole = long_films["many.mkv"], [], 0
    for turn, file in enumerate(decode_videos([path] * 12, HOW, 2, start_after=0, wait=True)):
        if turn == 1:
            [server] = fork_servers()
            os.kill(server, signal.SIGKILL)
        try:
            whole += read(file) == one_pass(path)[0]
        except MediaError as problem:
            reasons.append(problem.reason)
    assert whole + len(reasons) == 12
    assert len(reasons) <= 2
    assert all("memory ran out" in each for each in reasons)
    assert decoders() == []


def test_a_pool_that_is_closed_at_once_does_not_wait_for_imports() -> None:
    how = Sampling(1.0, Fit(40, 30, "cover", "bicubic"))
    pool = decoder_pool.DecoderPool(how, 2, 2)
    [server] = fork_servers()
    pool.close()
    assert not pool.ready()
    assert not Path(f"/proc/{server}").exists()
    assert decoders() == []


def test_what_was_started_early_serves_the_next_pool_that_it_fits(long_films: dict[str, Path]) -> None:
    path = long_films["closed.mp4"]
    for needs_torch in (HOW.needs_torch, not HOW.needs_torch):
        start_decoders_early(needs_torch=needs_torch)
        start_decoders_early(needs_torch=needs_torch)
        until(fork_servers)  # its name shows a moment after its start
        early, servers = fork_servers(), set()
        for file in decode_videos([path] * 4, HOW, 2, start_after=0, wait=True):
            servers |= set(fork_servers())
            assert read(file) == one_pass(path)[0]
        assert len(servers) == 1
        assert (set(early) == servers) == (needs_torch == HOW.needs_torch)
        assert fork_servers() == decoders() == []


def test_a_library_of_many_files_starts_decoders_early(long_films: dict[str, Path]) -> None:
    start_decoders([long_films["closed.mp4"]] * 30, LibrarySettings("plain"), 2)
    until(fork_servers)
    drop_early_decoders()
    assert fork_servers() == []


@pytest.mark.parametrize(("encoder", "needs_torch"), [("plain", False), ("plain-2", False), ("siglip2", True)])
def test_decoders_import_torch_early_only_if_they_will_need_it(
    long_films: dict[str, Path], monkeypatch: pytest.MonkeyPatch, encoder: str, needs_torch: bool
) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(index, "start_decoders_early", lambda *, needs_torch: asked.append(needs_torch))
    start_decoders([long_films["closed.mp4"]] * 30, LibrarySettings(encoder), 2)
    assert asked == [needs_torch]
    start_decoders([long_films["closed.mp4"]] * 30, LibrarySettings("", model="run"), 2)  # the run names its encoder
    assert asked == [needs_torch]


def test_a_fork_leaves_what_was_started_early_to_its_parent() -> None:
    code = (
        "import os, sys; from prvr.media import decoder_start, start_decoders_early\n"
        "start_decoders_early(needs_torch=False)\n"
        "server = decoder_start._early[0]._server\n"
        "if os.fork() == 0: sys.exit()\n"
        "os.wait()\n"
        "try: print(server.wait(3))\n"
        "except Exception as problem: print(type(problem).__name__)"
    )
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert said == ["TimeoutExpired"]  # it is still there


def test_what_was_started_early_ends_with_a_process_that_never_decodes() -> None:
    code = (
        "from prvr.media import decoder_start, start_decoders_early; start_decoders_early(needs_torch=True);"
        "print(decoder_start._early[0]._server.pid)"
    )
    server = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
    assert server.isdigit()
    assert not Path(f"/proc/{server}").exists()


def test_a_decoder_that_had_nothing_to_do_fails_no_file(
    long_films: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not taken to hang; and if it is gone when it is given a file, another one decodes the file."""
    monkeypatch.setattr(decoder_pool, "_PATIENCE", 0.3)
    monkeypatch.setattr(decoder_pool, "_LOOK", 0.1)
    path = long_films["many.mkv"]
    pool = decoder_pool.DecoderPool(HOW, 1, 2)
    try:
        assert pool.ready(wait=1)
        before = decoders()
        time.sleep(0.8)
        assert decoders() == before
        monkeypatch.setattr(decoder_pool, "_PATIENCE", 900.0)
        os.kill(before[0], signal.SIGKILL)
        wait_until_gone(before)
        assert read(pool.submit(path)) == one_pass(path)[0]
    finally:
        pool.close()


def test_without_decoders_files_are_decoded_here(long_films: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("too many processes")

    monkeypatch.setattr(decoder_pool, "FrameServerProcess", refuse)
    path, pool = long_films["closed.mp4"], decoder_pool.DecoderPool(HOW, 2, 2)
    try:
        file = pool.submit(path)
        assert read(file) == one_pass(path)[0]
        assert file.info is not None
    finally:
        pool.close()


def test_few_paths_are_pulled_while_that_is_slow(long_films: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "_AT_ONCE_SECONDS", 0.0)
    pulled = 0

    def paths() -> Iterator[Path]:
        nonlocal pulled
        for _ in range(20):
            pulled += 1
            yield long_films["closed.mp4"]

    files = decode_videos(paths(), HOW, 2, start_after=0, wait=True)
    for turn in range(1, 4):
        next(files)
        assert pulled == 2 * turn
    files.close()


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (FileChanged("a.mp4", "was replaced"), MediaError),
        (StorageError("s3://films", "is down"), StorageError),
        (EncoderError("there is no GPU"), UserError),
        (MissingExtra("av", "media"), UserError),
        (OSError(5, "Input/output error", "a.mp4"), OSError),
        (ZeroDivisionError("by zero"), ValueError),
        (RuntimeError("a mistake"), RuntimeError),
    ],
)
def test_errors_keep_their_kind_between_processes(raised: Exception, kind: type[Exception]) -> None:
    sent = json.loads(json.dumps(decode_server.describe_error(raised)))
    found = decoder_pool._error(Path("a.mp4"), *sent)
    assert isinstance(found, kind)
    assert str(raised) in str(found)


def test_a_file_that_nobody_reads_to_its_end_blocks_no_other(long_films: dict[str, Path]) -> None:
    path = long_films["closed.mp4"]
    seen = 0
    for turn, file in enumerate(decode_videos([path] * 8, HOW, 2, start_after=0, wait=True)):
        batches = file.batches()
        first = next(batches)
        if turn % 2:
            seen += len(first.times) + sum(len(batch.times) for batch in batches)
        batches.close()
    assert seen == 4 * len(one_pass(path)[0])


def test_a_killed_process_leaves_no_decoder(long_films: dict[str, Path]) -> None:
    program = f"""
import os, time
from prvr.media import Fit, Sampling, decode_videos, video_path
films = [video_path({str(long_films["many.mkv"])!r})] * 50
files = decode_videos(films, Sampling(25.0, Fit(32, 24)), 2, start_after=0, wait=True)
batches = next(files).batches()
next(batches)  # kept: nobody waits for a file whose batches are dropped, so its decoder is replaced
print(os.getpid(), flush=True)
time.sleep(60)
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    servers, children = fork_servers(process.pid), decoders(process.pid)
    assert len(servers) == 1
    assert len(children) == 2
    process.kill()
    process.communicate()
    wait_until_gone([*servers, *children])


def wait_until_gone(processes: list[int]) -> None:
    deadline = time.monotonic() + 60
    for process in processes:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            place = Path(f"/proc/{process}")  # a thread of it may hold its files a little longer
            while place.joinpath("stat").read_text().rpartition(") ")[2][0] != "Z" or len([*place.glob("task/*")]) > 1:
                assert time.monotonic() < deadline
                time.sleep(0.02)
