"""Pictures that clients search with, decoded in a separate process, so that a hostile file cannot crash the server."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import numpy as np

from prvr.media import PICTURE_PROGRAM, Image
from prvr.server.problems import Problem
from prvr.server.processes import DecoderProcess

MAX_TEXT = 11 << 20  # of a picture file in base64: 8 MiB and a little
_SIDE = 1024  # pixels; larger pictures are scaled down, encoders use fewer
_CACHE_BYTES = 64 << 20  # of decoded pictures kept in memory
_TIMEOUT = 20.0  # seconds for one picture
_MAX_OPEN = 64  # pictures that may wait for the decoder, or be searched with, at the same time


def unusable(reason: str) -> Problem:
    """The answer to a picture that cannot be searched with."""
    return Problem(409, f"The picture cannot be used: {reason}.", "Send a still .jpg, .png or .webp picture.")


class DecodedPicture(NamedTuple):
    """A picture, and the name under which it is kept for a while: the hash of its file."""

    name: str
    image: Image  # (H, W, 3)


class Pictures:
    """Decodes pictures, and keeps the latest, for the evidence of what was found with them."""

    def __init__(self) -> None:
        self._cache: OrderedDict[str, Image] = OrderedDict()
        self._bytes = self._open = 0
        self._decoder = DecoderProcess(PICTURE_PROGRAM, _TIMEOUT, _TIMEOUT)
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def decoded(self, text: str) -> AsyncIterator[DecodedPicture]:
        """Decode a .jpg, .png or .webp file that is written in base64, for a search within a ``with`` statement."""
        if self._open >= _MAX_OPEN:
            raise Problem(503, "Too many pictures are waiting.", "Try again in a moment.", {"Retry-After": "1"})
        self._open += 1
        try:
            content = base64.b64decode(text, validate=True)
            name = hashlib.sha256(content).hexdigest()
            async with self._turn:
                if name not in self._cache:
                    self._store(name, await self._decode(content))
            yield self.get(name)
        except binascii.Error:
            raise unusable("it is not base64") from None
        finally:
            self._open -= 1

    def get(self, name: str) -> DecodedPicture:
        """A picture that was decoded before."""
        try:
            self._cache.move_to_end(name)
            return DecodedPicture(name, self._cache[name])
        except KeyError:
            raise Problem(404, "The server no longer has this picture.", "Search with the picture again.") from None

    async def _decode(self, content: bytes) -> Image:
        response, pixels = await self._decoder.ask({"size": len(content), "side": _SIDE}, content)
        if "problem" in response:
            raise unusable(response["problem"])
        image = np.frombuffer(pixels, np.uint8).reshape(response["height"], response["width"], 3)
        return image.copy()  # writable, as encoders expect

    def _store(self, name: str, image: Image) -> None:
        """Keep a picture, and drop those that were not used for the longest time."""
        self._cache[name] = image
        self._bytes += image.nbytes
        while self._bytes > _CACHE_BYTES and len(self._cache) > 1:
            self._bytes -= self._cache.popitem(last=False)[1].nbytes

    async def close(self) -> None:
        await self._decoder.close()
