"""Thumbnails, decoded in a separate process, so that a broken file cannot crash the server."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from prvr.library import Video
from prvr.media import THUMBNAIL_PROGRAM, ExpectedFile
from prvr.server.problems import Problem, as_sentence
from prvr.server.processes import DecoderProcess

_CACHE_BYTES = 64 << 20  # of pictures kept in memory
_TIMEOUT = 20.0  # seconds for one picture
_MAX_WAITING = 200  # pictures that may wait for the decoder


class Thumbnails:
    """Decodes pictures of videos, and keeps the latest in memory."""

    def __init__(self) -> None:
        self._cache: OrderedDict[tuple[str, float, int], bytes] = OrderedDict()
        self._bytes = self._waiting = 0
        self._decoder = DecoderProcess(THUMBNAIL_PROGRAM, _TIMEOUT, _TIMEOUT)
        self._turn = asyncio.Lock()

    async def get(self, video: Video, expected: ExpectedFile, time: float, width: int) -> bytes:
        """The picture at a time in seconds, at most ``width`` pixels wide, as a JPEG."""
        at = round(min(time, max(0.0, (video.duration or 0.0) - 0.05)), 2)
        key = (video.digest, at, width)
        if key not in self._cache:
            if self._waiting >= _MAX_WAITING:
                raise Problem(503, "Too many thumbnails are waiting.", "Try again in a moment.", {"Retry-After": "1"})
            self._waiting += 1
            try:
                async with self._turn:  # one decoder at a time, so that searches are not slowed down
                    if key not in self._cache:
                        self._store(key, await self._decode(video, expected, at, width))
            finally:
                self._waiting -= 1
        self._cache.move_to_end(key)
        return self._cache[key]

    def _store(self, key: tuple[str, float, int], picture: bytes) -> None:
        """Store a picture, and drop those that were not used for the longest time."""
        self._cache[key] = picture
        self._bytes += len(picture)
        while self._bytes > _CACHE_BYTES and len(self._cache) > 1:
            self._bytes -= len(self._cache.popitem(last=False)[1])

    async def _decode(self, video: Video, expected: ExpectedFile, at: float, width: int) -> bytes:
        request = {"path": str(video.path), "expected": expected, "time": at, "width": width}
        answer, picture = await self._decoder.ask(request)
        if "problem" in answer:
            remedy = "Add the video again. If that does not help, the file is damaged at this time."
            raise Problem(409, as_sentence(f"No thumbnail of {video.path.name}: {answer['problem']}"), remedy)
        return picture

    async def close(self) -> None:
        await self._decoder.close()
