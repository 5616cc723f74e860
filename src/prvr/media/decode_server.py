"""A program that decodes videos for another process: ``python -m prvr.media.decode_server``.

The first line of its standard input is JSON: ``memory`` (what ``SharedMemory`` of the other process is called) and
``sampling`` (the fields of ``Sampling``). It answers with ``{"ready": true}``. Then come requests, one line each:
``path``, ``threads``, ``part`` (null, or arguments of ``stretch_frames``) and ``slot``, the place in the shared memory
for the first batch. It answers with lines:

    {"info": {…}, "parts": [[…], …]}            the fields of VideoInfo; if it decodes only a part, the other parts
    {"times": […], "kept": […], "images": n}    a batch, whose pictures lie in the slot
    {"slot": null}                              it needs a slot for the next batch, and reads a line with its number
    {"end": null}                               or the problem of a file that is partly damaged
    {"error": ["MediaError", "reason", …]}      instead of the end
    {"irregular": "reason"}                     instead of the end: a part might not have the samples of one pass

It ends when its input does, or when the process that started it is gone. A file that crashes the decoder ends this
process only.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from prvr.errors import UserError
from prvr.media.errors import MediaError, StorageError
from prvr.media.frame_batches import Sampling, read_batches
from prvr.media.frames import Fit
from prvr.media.pyav_reader import PyAVReader
from prvr.media.reader import Backend, VideoReader, open_video
from prvr.media.shared_memory import SharedMemory
from prvr.media.stretches import Irregular, find_cuts, stretch_frames

_LOOK = 2.0  # seconds between looks for the process that started this one
_PRIORITY = 5


def serve_frames(parent: int) -> None:
    """Answer requests until standard input ends, or the process ``parent`` does, which started this one."""
    step_back()
    with suppress(OSError):  # exists on Linux only: this process is killed first if memory runs out
        Path("/proc/self/oom_score_adj").write_text("1000")
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints must not get between the answers
    threading.Thread(target=_end_with_parent, args=[parent], daemon=True).start()
    setup = json.loads(sys.stdin.buffer.readline())
    sampling = setup["sampling"]
    how = Sampling(**{**sampling, "fit": Fit(**sampling["fit"])})
    slots = SharedMemory.attach(setup["memory"]).array(-1, *how.shape)
    if how.needs_torch:  # the first file would wait for it
        use_one_thread()
    _write(answers, {"ready": True})
    for line in sys.stdin.buffer:
        request = json.loads(line)
        try:
            answer: dict[str, Any] = {"end": _decode(request, how, slots, answers)}
        except Irregular as problem:
            answer = {"irregular": str(problem)}
        except Exception as problem:
            answer = {"error": describe_error(problem)}
        _write(answers, answer)


def describe_error(problem: Exception) -> list[Any]:
    """The kind of an error, which decides what becomes of the file or the command, and what is said of it."""
    if isinstance(problem, MediaError):
        return ["MediaError", problem.reason]
    if isinstance(problem, StorageError):
        return ["StorageError", problem.reason, str(problem.address)]
    if isinstance(problem, UserError):
        return ["UserError", str(problem)]
    if isinstance(problem, OSError):
        name = None if problem.filename is None else str(problem.filename)
        return ["OSError", problem.errno, problem.strerror or str(problem), name]
    if isinstance(problem, (ValueError, ArithmeticError)):
        return ["ValueError", str(problem)]
    return ["RuntimeError", f"{type(problem).__name__}: {problem}"]


def _decode(request: dict[str, Any], how: Sampling, slots: NDArray[np.uint8], answers: BinaryIO) -> str | None:
    """Decode a file, and return its problem."""
    slot: int | None = request["slot"]

    def place() -> NDArray[np.uint8]:
        nonlocal slot
        if slot is None:
            _write(answers, {"slot": None})
            slot = int(sys.stdin.buffer.readline() or _exit())
        found, slot = slots[slot], None
        return found

    video = _opened(request["path"], how.decoder)
    part = request["part"]
    if part is None:
        first, cuts = find_cuts(video, how.rate) if isinstance(video, PyAVReader) else (0.0, [])
        ends = [*cuts, None]
        parts = [[first, start, end] for start, end in zip([0, *cuts], ends, strict=True)] if cuts else []
        about = asdict(replace(video.info, path=request["path"]))
        _write(answers, {"info": about, "parts": parts[1:]})
        part = parts[0] if parts else None
    if part is None:
        video.threads = request["threads"]
        frames = video.frames(how.rate, how.fit)
    else:
        assert isinstance(video, PyAVReader)
        frames = stretch_frames(video, how, *part)
    for batch in read_batches(frames, how, place):
        _write(answers, {"times": batch.times.tolist(), "kept": batch.kept.tolist(), "images": len(batch.images)})
    return video.problem


@functools.lru_cache(maxsize=8)
def _opened(path: str, decoder: Backend) -> VideoReader:
    """A file, inspected once for all its parts. Nothing stays open."""
    return open_video(path, decoder, threads=1)


def step_back() -> None:
    """Take a lower priority than the process that started this one: what is decoded must also be encoded, there."""
    with suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, 0, _PRIORITY)


def use_one_thread() -> None:
    """Import torch. Other processes have the other cores."""
    import torch

    torch.set_num_threads(1)


def _write(answers: BinaryIO, line: dict[str, Any]) -> None:
    try:
        answers.write(json.dumps(line).encode() + b"\n")
        answers.flush()
    except BrokenPipeError:
        _exit()


def _exit() -> str:
    os._exit(0)


def _end_with_parent(parent: int) -> None:
    """A file on which the decoder hangs must not keep this process alive after the one that wants it."""
    while os.getppid() == parent:
        time.sleep(_LOOK)
    _exit()


if __name__ == "__main__":
    serve_frames(os.getppid())
