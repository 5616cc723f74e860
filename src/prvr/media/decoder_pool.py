"""The processes that decode videos for this one. Each runs ``prvr.media.decode_server`` and has a thread here.

Memory: each process has ``_SLOTS`` places for a batch of pictures (at most 3 MB each, or one picture), and waits when
all are full.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Generator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from prvr.media.buckets import VideoFile
from prvr.media.errors import MediaError, StorageError
from prvr.media.frame_batches import DecodedFile, FrameBatch, Sampling
from prvr.media.frames import StreamInfo, VideoInfo
from prvr.media.shared_memory import SharedMemory
from prvr.processes import python_command

_SLOTS = 8
_PATIENCE = 900.0  # seconds without a sample after which a decoder is taken to hang
_LOOK = 5.0  # seconds between looks for decoders that hang
_PRIORITY = 5  # lower than that of this process


@dataclass(order=True)
class _Task:
    """A file to decode. Tasks are begun in order of their numbers."""

    number: float
    path: VideoFile | None = field(default=None, compare=False)
    answers: queue.SimpleQueue[dict[str, Any] | Exception] = field(default_factory=queue.SimpleQueue, compare=False)


class DecoderPool:
    """Several decoders. ``submit`` files in order and read them in the same order, or the decoders may stand still."""

    def __init__(self, how: Sampling, processes: int, expected: int):
        self.how, self.processes, self.expected = how, processes, expected
        self.tasks: queue.PriorityQueue[_Task] = queue.PriorityQueue()
        self.closed = False
        self._known, self._ready = threading.Event(), False  # whether decoders can be started here
        self._numbers, self._lock = itertools.count(), threading.Lock()
        self._decoders = [_Decoder(self) for _ in range(processes)]
        self._alive = processes
        for decoder in self._decoders:
            decoder.thread.start()
        threading.Thread(target=self._watch, name="prvr-decoders", daemon=True).start()

    def ready(self, *, wait: bool) -> bool:
        """Whether a decoder takes files. With ``wait``, until one does, or none can be started."""
        if wait:
            self._known.wait()
        return self._ready

    def submit(self, path: VideoFile) -> DecodedFile:
        task = _Task(next(self._numbers), path)
        self.tasks.put(task)
        with self._lock:
            if self._alive == 0:
                self._refuse_all()
        return _PooledFile(path, task)

    def threads(self) -> int:
        """For a file: more than one where there are fewer files than processes."""
        return max(1, self.processes // max(1, self.expected))

    def close(self) -> None:
        self.closed = True
        for decoder in self._decoders:
            self.tasks.put(_Task(math.inf))
            decoder.stop()
        for decoder in self._decoders:
            decoder.thread.join()

    # -- called by decoders --------------------------------------------------------------------------------------------

    def note_ready(self) -> None:
        self._ready = True
        self._known.set()

    def note_gone(self) -> None:
        """A decoder cannot be started. After the last one, nobody would take the files."""
        with self._lock:
            self._alive -= 1
            if self._alive == 0:
                self._ready = False
                self._known.set()
                self._refuse_all()

    def _refuse_all(self) -> None:
        with suppress(queue.Empty):
            while True:
                self.tasks.get_nowait().answers.put(RuntimeError("no process that decodes videos can be started"))

    def _watch(self) -> None:
        while not self.closed:
            for decoder in self._decoders:
                decoder.end_if_hanging()
            time.sleep(_LOOK)


class _PooledFile(DecodedFile):
    """A file that another process decodes."""

    def __init__(self, path: VideoFile, task: _Task):
        self.path, self.task = path, task

    def batches(self) -> Generator[FrameBatch, None, None]:
        while True:
            answer = self.task.answers.get()
            if isinstance(answer, Exception):
                raise answer
            if "info" in answer:
                about = answer["info"]
                streams = tuple(StreamInfo(**stream) for stream in about["streams"])
                self.info = VideoInfo(**{**about, "path": self.path, "streams": streams})
            elif "times" in answer:
                yield FrameBatch(np.array(answer["times"]), answer["pictures"], np.array(answer["kept"], bool))
                answer["free"]()
            elif "end" in answer:
                self.problem = answer["end"]
                return
            else:
                raise _error(self.path, *answer["error"])


def _error(path: VideoFile, kind: str, *about: Any) -> Exception:
    """What a decoder raised."""
    if kind == "MediaError":
        return MediaError(path, about[0])
    if kind == "StorageError":
        return StorageError(about[1], about[0])
    return {"OSError": OSError, "ValueError": ValueError}.get(kind, RuntimeError)(*about)


class _Decoder:
    """A thread that gives tasks to a process. After a crash, it starts another process."""

    def __init__(self, pool: DecoderPool):
        self.pool = pool
        self.process: _Process | None = None
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
        while not self.pool.closed:
            self.process = process = _Process(self.pool.how)
            try:
                if self.pool.closed:
                    return
                if process.receive() != {"ready": True}:
                    raise EOFError
                self.pool.note_ready()
                self._serve(process)
            except (OSError, EOFError, ValueError):
                if not self.pool.closed and not process.was_ready:
                    self.pool.note_gone()
                    return
            finally:
                process.end()

    def _serve(self, process: _Process) -> None:
        """Give tasks to a process, until it ends. A task is taken only when there is room for its first batch."""
        process.was_ready = True
        slot: int | None = None
        while not self.pool.closed:
            slot = process.free_slot() if slot is None else slot
            task = self.pool.tasks.get()
            if task.path is None:
                return
            try:
                process.send({"path": str(task.path), "threads": self.pool.threads(), "slot": slot})
                while (answer := process.receive()) is not None:
                    if "slot" in answer:
                        process.send(slot := process.free_slot())
                        continue
                    if "times" in answer:
                        assert slot is not None
                        answer["pictures"] = process.pictures[slot, : answer.pop("images")]
                        answer["free"], slot = functools.partial(process.slots.put, slot), None
                    task.answers.put(answer)
                    if "end" in answer or "error" in answer:
                        break
            except (OSError, EOFError, ValueError):
                task.answers.put(MediaError(task.path, process.epitaph()))
                raise


class _Process:
    """A decoder process with its shared memory."""

    def __init__(self, how: Sampling):
        memory = SharedMemory.create(_SLOTS * math.prod(how.shape))
        self.pictures = memory.array(_SLOTS, *how.shape)
        self.slots: queue.SimpleQueue[int] = queue.SimpleQueue()  # those that are free
        for slot in range(_SLOTS):
            self.slots.put(slot)
        self.was_ready, self.death, self._heard = False, "", math.inf
        self._process = subprocess.Popen(
            python_command("prvr.media.decode_server"), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, pass_fds=memory.handles,
            start_new_session=True,  # Ctrl-C reaches this process only, which then stops that one
        )  # fmt: skip
        memory.close_handles()
        with suppress(OSError, AttributeError):  # what is decoded must also be encoded, here
            os.setpriority(os.PRIO_PROCESS, self._process.pid, _PRIORITY)
        with suppress(OSError):  # exists on Linux only: it is killed first if memory runs out
            Path(f"/proc/{self._process.pid}/oom_score_adj").write_text("1000")
        self.send({"memory": memory.name, "sampling": asdict(how)})

    def send(self, message: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()
        self._heard = time.monotonic()

    def receive(self) -> dict[str, Any]:
        """The next answer. Raises ``EOFError`` if the process has ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        self._heard = math.inf
        if not line:
            raise EOFError
        answer: dict[str, Any] = json.loads(line)
        if not answer.keys() & {"end", "error", "slot"}:
            self._heard = time.monotonic()
        return answer

    def silence(self) -> float:
        """Seconds since it was last heard of, while it decodes."""
        return time.monotonic() - self._heard

    def free_slot(self) -> int:
        """Wait for a free place. Raises ``EOFError`` if the process was killed."""
        slot = self.slots.get()
        if slot < 0:
            raise EOFError
        return slot

    def kill(self) -> None:
        self._process.kill()
        self.slots.put(-1)

    def epitaph(self) -> str:
        """Why it ended, for the file that it was decoding."""
        status = self._process.wait()
        if self.death:
            return self.death
        if status == -getattr(signal, "SIGKILL", 9):
            return "the decoder was killed, probably because memory ran out: try again with --retry"
        return f"crashed the decoder ({f'signal {-status}' if status < 0 else f'exit status {status}'})"

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()
