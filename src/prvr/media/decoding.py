"""Decode many videos at once: in this process at first, and in several processes where that is worth starting them.

    for file in decode_videos(paths, Sampling.of(encoder, rate=1.0), processes=16):
        for times, images, kept in file.batches():       # (n,), (k, H, W, 3), (n,)
            ...

Files come in the order of ``paths``, whichever is decoded first. Each process decodes with one thread, or with more
where there are fewer files than cores. Pictures come back through shared memory. A file that crashes the decoder or on
which it hangs is a file with a ``MediaError``, and the others go on.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Generator, Iterable

from prvr.media.buckets import VideoFile
from prvr.media.decoder_pool import DecoderPool
from prvr.media.errors import MediaError
from prvr.media.frame_batches import DecodedFile, FrameBatch, OpenFile, Sampling
from prvr.media.reader import open_video
from prvr.processes import usable_cores

_START_AFTER = 1.0  # seconds of work after which processes are started
_LARGE = 64 << 20  # bytes of a file that is decoded in processes from the start
_GPU_PROCESSES = 4  # that decode on a GPU, each with a context of its own
_MOST_PROCESSES = 64  # unless more are asked for: each has memory for pictures
_FILES_AHEAD, _MOST_AHEAD = 4, 64  # that are begun: for each process, and in all
_AT_ONCE, _AT_ONCE_SECONDS = 2, 0.5  # files that are pulled before one is read; more of them while that is quick


def decode_videos(
    paths: Iterable[VideoFile],
    how: Sampling,
    processes: int | None = None,
    expected: int = 1 << 30,
    threads: int = 0,
    start_after: float | None = None,
    *,
    wait: bool = False,
) -> Generator[DecodedFile, None, None]:
    """Decode files, several at once. Read the batches of each before the next is asked for.

    Args:
        paths: files; they are pulled some way ahead of those that are read.
        how: rate and size of the samples.
        processes: that decode; None: one for each core, at most 64; 1: a thread of this process.
        expected: number of paths, where it is known. Fewer than processes are decoded with several threads each.
        threads: of a decoder in this process; 0 uses all cores.
        start_after: seconds of work in this process after which the others are started; None: one.
        wait: for all processes, instead of decoding in this one until they are there.
    """
    processes = min(usable_cores(), _MOST_PROCESSES) if processes is None else processes
    if how.decoder == "nvdec":
        processes = min(processes, _GPU_PROCESSES)
    start_after = _START_AFTER if start_after is None else start_after
    began, left, waiting = time.monotonic(), iter(paths), deque[DecodedFile]()
    pool: DecoderPool | None = None
    try:
        while True:
            turn = time.monotonic()
            for pulled, path in enumerate(left, 1):
                late, large = time.monotonic() - began >= start_after, _is_large(path)
                if pool is None and processes > 1 and (large or (late and expected > 1)):
                    pool = DecoderPool(how, processes, expected)
                if pool is None or not pool.ready(wait=processes if wait else int(large)):
                    waiting.append(_LocalFile(path, how, threads))
                    break
                waiting.append(pool.submit(path))
                slow = pulled >= _AT_ONCE and time.monotonic() - turn > _AT_ONCE_SECONDS
                if slow or len(waiting) >= min(_FILES_AHEAD * processes, _MOST_AHEAD):
                    break
            if not waiting:
                return
            yield waiting.popleft()
    finally:
        if pool is not None:
            pool.close()


def decodes_in_processes(processes: int | None, files: int, largest: int) -> bool:
    """Whether ``decode_videos`` starts processes for so many files, when it has worked for ``start_after`` seconds.

    Args:
        processes: as there.
        files: how many.
        largest: bytes of the largest.
    """
    return (usable_cores() if processes is None else processes) > 1 and (files > 1 or largest > _LARGE)


def _is_large(path: VideoFile) -> bool:
    try:
        return path.stat().st_size > _LARGE
    except (OSError, MediaError):  # which reading it will report
        return False


class _LocalFile(DecodedFile):
    """A file that is decoded in this process."""

    def __init__(self, path: VideoFile, how: Sampling, threads: int):
        self.path, self.how, self.threads = path, how, threads

    def batches(self) -> Generator[FrameBatch, None, None]:
        with open_video(self.path, self.how.decoder, self.threads) as video:
            opened = OpenFile(video, self.how)
            self.info = opened.info
            yield from opened.batches()
            self.problem = opened.problem
