"""A process that decodes videos for this one: it runs ``decode_server.serve_frames``.

Memory: it has ``_SLOTS`` places for a batch of pictures (at most 3 MB each, or one picture), and waits when all are
full.
"""

from __future__ import annotations

import json
import math
import queue
import signal
import time
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from prvr.media.decoder_start import DecoderStarter
from prvr.media.frame_batches import Sampling
from prvr.media.shared_memory import SharedMemory

LAST = frozenset(("end", "error", "irregular"))  # answers after which a task is done
_SLOTS = 8


class FrameServerProcess:
    """A decoder process with its shared memory."""

    def __init__(self, how: Sampling, starter: DecoderStarter):
        memory = SharedMemory.create(_SLOTS * math.prod(how.shape))
        self.pictures = memory.array(_SLOTS, *how.shape)
        self.slots: queue.SimpleQueue[int] = queue.SimpleQueue()  # those that are free
        for slot in range(_SLOTS):
            self.slots.put(slot)
        self.was_ready, self.death, self._heard = False, "", math.inf
        try:
            self._process, handles = starter.start(memory.handles)
        finally:
            memory.close_handles()
        try:
            self.send({"memory": memory.name_there(handles), "sampling": asdict(how)})
        except OSError:
            self.end()
            raise

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
        if not answer.keys() & {*LAST, "slot", "ready"}:  # after these, it waits for this process
            self._heard = time.monotonic()
        return answer

    def silence(self) -> float:
        """Seconds since it was last heard of, while it decodes."""
        return time.monotonic() - self._heard if self.was_ready else 0.0

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
