"""Clips and films of moments, cut in separate processes, so that a broken file cannot crash or block the server."""

from __future__ import annotations

import asyncio
import tempfile
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from prvr.library import Video
from prvr.media import CLIP_PROGRAM, ExpectedFile, ExportFormat, ExportMoment
from prvr.server.problems import Problem, as_sentence
from prvr.server.processes import DecoderProcess

ExpectedFiles: TypeAlias = Mapping[str, ExpectedFile]  # by path
_Key: TypeAlias = tuple[str, float, float]  # of a clip: digest of its video, start, end
LONGEST_CLIP = 120.0  # seconds, with its margins
LONGEST_EXPORT = 900.0  # seconds of all moments together, where they are cut
_SIDE = 1280  # pixels of the longer side of a clip, at most
_CACHE_BYTES = 1 << 30  # of clips kept on disk
_MAX_CLIPS, _MAX_EXPORTS = 20, 4  # requests that may wait
_PATIENCE = 45.0  # seconds without progress
_CLIP_TIMEOUT, _EXPORT_TIMEOUT = 240.0, 1800.0  # seconds for one request
_REMEDY = "Add the video again. If that does not help, the file is damaged at this time."


class _Cutter:
    """One process that cuts, and the requests that wait for it."""

    def __init__(self, what: str, most: int, timeout: float):
        self._what, self._most, self._waiting = what, most, 0
        self._process = DecoderProcess(CLIP_PROGRAM, _PATIENCE, timeout)
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until the process is free; one at a time, so that searches are not slowed down."""
        if self._waiting >= self._most:
            raise Problem(503, f"Too many {self._what} are waiting.", "Try again in a moment.", {"Retry-After": "5"})
        self._waiting += 1
        try:
            async with self._turn:
                yield
        finally:
            self._waiting -= 1

    async def cut(
        self, moments: Sequence[ExportMoment], expected: ExpectedFiles, form: str, out: Path, **options: Any
    ) -> None:
        """Write a file. Raises a Problem if one of the videos cannot be read."""
        plain = [{**vars(moment), "video": str(moment.video)} for moment in moments]
        request = {"moments": plain, "expected": expected, "format": form, "out": str(out), **options}
        answer, _ = await self._process.ask(request)
        if "problem" in answer:
            name = f"{moments[0].video.name}: " if len(moments) == 1 else ""
            raise Problem(409, as_sentence(f"Nothing was cut: {name}{answer['problem']}"), _REMEDY)
        for name, reason in answer["failed"]:
            raise Problem(409, as_sentence(f"Nothing was cut: {name}: {reason}"), f"Leave it out. {_REMEDY}")

    async def close(self) -> None:
        await self._process.close()


class Clips:
    """Cuts clips, and keeps the latest in a temporary folder."""

    def __init__(self) -> None:
        self._cutter = _Cutter("clips", _MAX_CLIPS, _CLIP_TIMEOUT)
        self._cache: OrderedDict[_Key, tuple[Path, int]] = OrderedDict()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._bytes = self._count = 0

    async def get(self, video: Video, expected: ExpectedFile, start: float, end: float) -> BinaryIO:
        """An .mp4 file of a stretch (seconds), open to be read."""
        key = (video.digest, round(start, 2), round(end, 2))
        file = self._open(key)
        if file is None:
            async with self._cutter.turn():
                file = self._open(key)  # another request may have cut it meanwhile
                if file is None:
                    moment = ExportMoment(video.path, key[1], key[2])
                    await self._cut(key, moment, {str(video.path): expected})
                    file = self._cache[key][0].open("rb")
        return file

    def _open(self, key: _Key) -> BinaryIO | None:
        """A clip that is kept. None if there is none, or if its file was deleted, as by a cleaner of the folder."""
        if key not in self._cache:
            return None
        path, size = self._cache[key]
        try:
            file = path.open("rb")  # stays open where the file is deleted meanwhile
        except FileNotFoundError:
            del self._cache[key]
            self._bytes -= size
            return None
        self._cache.move_to_end(key)
        return file

    async def _cut(self, key: _Key, moment: ExportMoment, expected: ExpectedFiles) -> None:
        """Cut a clip, and delete those that were not used for the longest time."""
        self._count += 1
        out = self._existing_folder() / f"{self._count}.mp4"
        try:
            await self._cutter.cut([moment], expected, "clip", out, longest_side=_SIDE)
        except BaseException:  # a process that was killed leaves its unfinished file
            for left in (out, *out.parent.glob(f".{out.name}.*")):
                left.unlink(missing_ok=True)
            raise
        self._cache[key] = (out, out.stat().st_size)
        self._bytes += self._cache[key][1]
        while self._bytes > _CACHE_BYTES and len(self._cache) > 1:
            _, (old, size) = self._cache.popitem(last=False)
            old.unlink(missing_ok=True)
            self._bytes -= size

    def _existing_folder(self) -> Path:
        """The folder of the clips, made anew if it was deleted."""
        if self._folder is not None and not Path(self._folder.name).is_dir():
            self._folder.cleanup()
            self._folder = None
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="prvr-clips-", ignore_cleanup_errors=True)
        return Path(self._folder.name)

    async def close(self) -> None:
        await self._cutter.close()
        if self._folder is not None:
            self._folder.cleanup()


class Exports:
    """Cuts films and archives of clips."""

    def __init__(self) -> None:
        self._cutter = _Cutter("exports", _MAX_EXPORTS, _EXPORT_TIMEOUT)

    async def write(
        self, moments: Sequence[ExportMoment], expected: ExpectedFiles, form: ExportFormat, out: Path
    ) -> None:
        """Write a file. If that is stopped, unfinished files stay in its folder."""
        async with self._cutter.turn():
            await self._cutter.cut(moments, expected, form, out)

    async def close(self) -> None:
        await self._cutter.close()
