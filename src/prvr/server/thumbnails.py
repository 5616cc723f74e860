"""Thumbnails, decoded in a separate process: a broken file can crash that process only."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict

from prvr.library import Video
from prvr.media import THUMBNAIL_PROGRAM
from prvr.server import processes
from prvr.server.problems import Problem

_KEPT = 64 << 20  # bytes of pictures kept in memory
_PATIENCE = 20.0  # seconds for one picture
_WAITING = 200  # pictures that may wait for the decoder


class Thumbnails:
    """Pictures of videos. The latest are kept in memory."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, float, int], bytes] = OrderedDict()
        self._bytes = self._waiting = 0
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()

    async def get(self, video: Video, time: float, width: int) -> bytes:
        at = round(min(time, max(0.0, (video.duration or 0.0) - 0.05)), 2)
        key = (video.digest, at, width)
        if key not in self._kept:
            if self._waiting >= _WAITING:
                raise Problem(503, "too many pictures are waiting", "try again in a moment", {"Retry-After": "1"})
            self._waiting += 1
            try:
                async with self._turn:  # one decoder at a time: searches need the other core
                    if key not in self._kept:
                        self._keep(key, await self._decode(video, at, width))
            finally:
                self._waiting -= 1
        self._kept.move_to_end(key)
        return self._kept[key]

    def _keep(self, key: tuple[str, float, int], picture: bytes) -> None:
        """Keep a picture, and drop those that were not used for longest."""
        self._kept[key] = picture
        self._bytes += len(picture)
        while self._bytes > _KEPT and len(self._kept) > 1:
            self._bytes -= len(self._kept.popitem(last=False)[1])

    async def _decode(self, video: Video, at: float, width: int) -> bytes:
        remedy = "add the video again; if that does not help, the file is damaged there"
        request = {"path": str(video.path), "time": at, "width": width}
        try:
            answer, picture = await asyncio.wait_for(self._ask(json.dumps(request).encode() + b"\n"), _PATIENCE)
        except asyncio.CancelledError:  # the next request must not read the answer to this one
            self._drop()
            raise
        except (TimeoutError, OSError, ValueError, EOFError):
            self._drop()
            raise Problem(409, "no thumbnail: the decoder gave up on this file", remedy) from None
        if "problem" in answer:
            raise Problem(409, f"no thumbnail: the file {answer['problem']}", remedy)
        return picture

    async def _ask(self, line: bytes) -> tuple[dict[str, str], bytes]:
        if self._process is None or self._process.returncode is not None:
            self._process = await processes.start(THUMBNAIL_PROGRAM)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line)
        await self._process.stdin.drain()
        answer = json.loads(await self._process.stdout.readline())
        return answer, await self._process.stdout.readexactly(int(answer.get("size", 0)))

    def _drop(self) -> None:
        """Stop the process; the next picture starts a new one."""
        processes.stop(self._process)
        self._process = None

    async def close(self) -> None:
        process = self._process
        self._drop()
        if process is not None:
            await process.wait()
