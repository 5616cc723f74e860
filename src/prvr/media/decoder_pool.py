"""Several processes decode videos for this one. Each has a thread here, which gives it files or parts of files."""

from __future__ import annotations

import functools
import itertools
import math
import queue
import threading
import time
from collections import deque
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from prvr.errors import UserError
from prvr.media.buckets import VideoFile
from prvr.media.decoder_process import LAST, FrameServerProcess
from prvr.media.decoder_start import take_starter
from prvr.media.errors import MediaError, StorageError
from prvr.media.frame_batches import DecodedFile, FrameBatch, OpenFile, Sampling
from prvr.media.frames import StreamInfo, VideoInfo
from prvr.media.reader import longest_decoding, open_video

_PATIENCE = 900.0  # seconds without a sample after which a decoder is taken to hang
_LOOK = 5.0  # seconds between looks for decoders that hang


@dataclass(order=True)
class _Task:
    """A file to decode, or a part of one. Tasks are begun in order of their numbers."""

    number: tuple[float, int]  # of the file, and of its part
    path: VideoFile | None = field(default=None, compare=False)
    part: list[Any] | None = field(default=None, compare=False)
    answers: queue.SimpleQueue[dict[str, Any] | Exception] = field(default_factory=queue.SimpleQueue, compare=False)
    dropped: bool = field(default=False, compare=False)
    lock: threading.Lock = field(default_factory=threading.Lock, compare=False)

    def put(self, answer: dict[str, Any] | Exception) -> None:
        with self.lock:
            self.answers.put(answer)
            if self.dropped:
                self._free_all()

    def drop(self) -> None:
        """Nobody reads the answers: give their places back."""
        with self.lock:
            self.dropped = True
            self._free_all()

    def is_dropped(self) -> bool:
        return self.dropped

    def _free_all(self) -> None:
        with suppress(queue.Empty):
            while True:
                answer = self.answers.get_nowait()
                if isinstance(answer, dict) and "free" in answer:
                    answer["free"]()


class DecoderPool:
    """Several decoders. ``submit`` files in order and read them in the same order, or the decoders may stand still."""

    def __init__(self, how: Sampling, processes: int, expected: int):
        self.how, self.processes, self.expected = how, processes, expected
        self.tasks: queue.PriorityQueue[_Task] = queue.PriorityQueue()
        self.closing = threading.Event()
        self._ready, self._gone = 0, 0  # decoders that take files, and those that cannot be started
        self._news = threading.Condition()
        self._numbers = itertools.count()
        self.starter = take_starter(how)
        self._decoders = [_Decoder(self) for _ in range(processes)]
        for decoder in self._decoders:
            decoder.thread.start()
        threading.Thread(target=self._watch, name="prvr-decoders", daemon=True).start()

    def ready(self, *, wait: int = 0) -> bool:
        """Whether a decoder takes files. Waits until so many do, or cannot be started."""
        with self._news:
            self._news.wait_for(lambda: self._ready >= wait or self._ready + self._gone >= self.processes)
            return self._ready > 0

    def submit(self, path: VideoFile) -> DecodedFile:
        task = _Task((next(self._numbers), 0), path)
        self.tasks.put(task)
        with self._news:
            if self._gone == self.processes:
                self._refuse_all()
        return _PooledFile(path, task, self.how)

    def threads(self) -> int:
        """For a file: more than one where there are fewer files than processes."""
        return max(1, self.processes // max(1, self.expected))

    def close(self) -> None:
        self.closing.set()
        for decoder in self._decoders:
            self.tasks.put(_Task((math.inf, 0)))
            decoder.stop()
        self.starter.close()
        for decoder in self._decoders:
            decoder.thread.join()

    def add_parts(self, task: _Task, parts: list[list[Any]]) -> list[_Task]:
        """Decode the other parts of a file as well."""
        tasks = [_Task((task.number[0], number), task.path, part) for number, part in enumerate(parts, 1)]
        for each in tasks:
            self.tasks.put(each)
        return tasks

    # -- called by decoders --------------------------------------------------------------------------------------------

    def note_ready(self) -> None:
        with self._news:
            self._ready = min(self.processes, self._ready + 1)  # one that crashed was counted before
            self._news.notify_all()

    def note_gone(self) -> None:
        """A decoder cannot be started. After the last one, this process decodes the files."""
        with self._news:
            self._gone += 1
            if self._gone == self.processes:
                self._ready = 0
                self._refuse_all()
            self._news.notify_all()

    def _refuse_all(self) -> None:
        with suppress(queue.Empty):
            while True:
                self.tasks.get_nowait().put({"irregular": "no process that decodes videos can be started"})

    def _watch(self) -> None:
        while not self.closing.is_set():
            for decoder in self._decoders:
                decoder.end_if_hanging()
            self.closing.wait(_LOOK)


class _PooledFile(DecodedFile):
    """A file that other processes decode, as a whole or in parts."""

    def __init__(self, path: VideoFile, task: _Task, how: Sampling):
        self.path, self.how, self._tasks = path, how, deque([task])
        self._samples, self._waited = 0, 0.0  # seconds in which the decoders had nothing for this process

    def batches(self) -> Generator[FrameBatch, None, None]:
        try:
            while self._tasks:
                regular = yield from self._read(self._tasks[0])
                self._tasks.popleft()
                if not regular:
                    self._drop_tasks()  # so that the decoders go on with other files
                    yield from self._in_one_pass()
        finally:
            self._drop_tasks()

    def _drop_tasks(self) -> None:
        while self._tasks:
            self._tasks.popleft().drop()

    def _read(self, task: _Task) -> Generator[FrameBatch, None, bool]:
        """The batches of a task. Returns whether they are sure to be those of one pass."""
        most = self._longest()
        while True:
            began = time.monotonic()
            try:
                answer = task.answers.get(timeout=max(0.0, most - self._waited))
            except queue.Empty:
                raise MediaError(self.path, f"took more than {most / 60:.0f} minutes to decode") from None
            self._waited += time.monotonic() - began
            if isinstance(answer, Exception):
                raise answer
            if "info" in answer:
                about = answer["info"]
                streams = tuple(StreamInfo(**stream) for stream in about["streams"])
                self.info = VideoInfo(**{**about, "path": self.path, "streams": streams})
                self._tasks.extend(answer["tasks"])
            elif "times" in answer:
                self._samples += len(answer["times"])
                try:
                    yield FrameBatch(np.array(answer["times"]), answer["pictures"], np.array(answer["kept"], bool))
                finally:
                    answer["free"]()
            elif "error" in answer:
                raise _error(self.path, *answer["error"])
            else:
                self.problem = answer.get("end")
                return "end" in answer

    def _longest(self) -> float:
        """Seconds to wait for all parts of the file; progress alone does not keep it alive."""
        try:
            return 2 * longest_decoding(self.path.stat().st_size)  # one pass ends by itself before, with what it has
        except (OSError, MediaError, StorageError):  # the decoder says what is wrong
            return 2 * longest_decoding(0)

    def _in_one_pass(self) -> Generator[FrameBatch, None, None]:
        """The rest of a file, decoded in this process: a part is out of the ordinary, or there are no decoders."""
        with open_video(self.path, self.how.decoder) as video:
            opened = OpenFile(video, self.how)
            self.info = opened.info
            yield from opened.batches(self._samples)
            self.problem = opened.problem


def _error(path: VideoFile, kind: str, *about: Any) -> Exception:
    """What a decoder raised."""
    if kind == "MediaError":
        return MediaError(path, about[0])
    if kind == "StorageError":
        return StorageError(about[1], about[0])
    return {"OSError": OSError, "ValueError": ValueError, "UserError": UserError}.get(kind, RuntimeError)(*about)


class _Decoder:
    """A thread that gives tasks to a process. After a crash, it starts another process."""

    def __init__(self, pool: DecoderPool):
        self.pool = pool
        self.process: FrameServerProcess | None = None
        self.thread = threading.Thread(target=self._run, name="prvr-decoder", daemon=True)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()

    def end_if_hanging(self) -> None:
        process = self.process
        if process is not None and process.silence() > _PATIENCE:
            process.death = f"the decoder gave no sign for {_PATIENCE / 60:.0f} minutes: it hangs on this file"
            process.kill()

    def _run(self) -> None:
        while not self.pool.closing.is_set():
            try:
                self.process = process = FrameServerProcess(self.pool.how, self.pool.starter)
            except OSError:  # no memory, or too many processes
                self.pool.note_gone()
                return
            try:
                if self.pool.closing.is_set():  # and this process was not there to be stopped
                    return
                if process.receive() != {"ready": True}:
                    raise EOFError
                self.pool.note_ready()
                self._serve(process)
            except (OSError, EOFError, ValueError):
                if not self.pool.closing.is_set() and not process.was_ready:
                    self.pool.note_gone()
                    return
            finally:
                process.end()

    def _serve(self, process: FrameServerProcess) -> None:
        """Give tasks to a process, until it ends. A task is taken only when there is room for its first batch."""
        process.was_ready = True
        slot: int | None = None
        while not self.pool.closing.is_set():
            slot = process.free_slot() if slot is None else slot
            task = self.pool.tasks.get()
            if task.path is None:
                return
            if task.dropped:
                continue
            try:
                process.send({"path": str(task.path), "part": task.part, "threads": self.pool.threads(), "slot": slot})
            except OSError:  # the process ended while it had nothing to do: another one takes the task
                self.pool.tasks.put(task)
                raise
            try:
                while (answer := process.receive()) is not None:
                    if task.is_dropped() and not answer.keys() & LAST:  # nobody waits for what may take hours
                        process.kill()
                        raise EOFError
                    if "slot" in answer:
                        process.send(slot := process.free_slot())
                        continue
                    if "times" in answer:
                        assert slot is not None
                        answer["pictures"] = process.pictures[slot, : answer.pop("images")]
                        answer["free"], slot = functools.partial(process.slots.put, slot), None
                    if "info" in answer:
                        answer["tasks"] = self.pool.add_parts(task, answer.pop("parts"))
                    task.put(answer)
                    if answer.keys() & LAST:
                        break
            except (OSError, EOFError, ValueError):
                task.put(MediaError(task.path, process.epitaph()))
                raise
