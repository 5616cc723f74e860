"""Parts of a file by byte range (RFC 9110), so that a player can seek."""

from __future__ import annotations

import io
import os
import re
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import anyio.to_thread
from starlette.responses import Response, StreamingResponse

from prvr.library import Video
from prvr.server.problems import Problem

_CHUNK = 256 * 1024
_TYPES = {
    ".mp4": "video/mp4", ".m4v": "video/mp4", ".mov": "video/quicktime", ".webm": "video/webm", ".ogv": "video/ogg",
    ".mkv": "video/x-matroska", ".avi": "video/x-msvideo", ".mpg": "video/mpeg", ".mpeg": "video/mpeg",
    ".ts": "video/mp2t", ".3gp": "video/3gpp", ".gif": "image/gif",
}  # fmt: skip


def parse_range(header: str | None, size: int) -> tuple[int, int] | None:
    """First and last byte of a range, or None for the whole file. Raises ``ValueError`` if it begins behind the end.

    >>> parse_range("bytes=0-99", 1000), parse_range("bytes=900-", 1000), parse_range("bytes=-10", 1000)
    ((0, 99), (900, 999), (990, 999))
    >>> parse_range("bytes=0-1,5-6", 1000) is None  # several parts: the whole file is an allowed answer
    True
    """
    found = re.fullmatch(r"bytes=(\d{0,18})-(\d{0,18})", (header or "").replace(" ", ""))
    if found is None or found.group(0) == "bytes=-":
        return None
    first, last = found.groups()
    if not first:
        if int(last) == 0 or size == 0:
            raise ValueError
        return max(0, size - int(last)), size - 1
    if last and int(last) < int(first):
        return None
    if int(first) >= size:
        raise ValueError
    return int(first), min(int(last) if last else size - 1, size - 1)


def file_response(video: Video, method: str, range_header: str | None, if_range: str | None) -> Response:
    """The file that was added, or a part of it. A file that has changed since is refused."""
    if video.state != "ok":  # never read as a video, so it may be anything
        raise Problem(409, f"the file of {title(video.path)!r} could not be read as a video", "add it again")
    file, etag = _open(video), f'"{video.digest[:32]}"'
    if if_range is not None and if_range != etag:
        range_header = None
    try:
        part = parse_range(range_header, video.size)
    except ValueError:
        raise Problem(
            416,
            f"the file has {video.size} bytes and the range begins behind them",
            "ask for a range inside it",
            {"Content-Range": f"bytes */{video.size}"},
        ) from None
    first, last = part if part is not None else (0, video.size - 1)
    headers = {
        "Accept-Ranges": "bytes",
        "Content-Length": str(last - first + 1),
        "ETag": etag,
        "Cache-Control": "private, max-age=3600",
        "Content-Disposition": "inline",
    }
    if part is not None:
        headers["Content-Range"] = f"bytes {first}-{last}/{video.size}"
    status = 206 if part is not None else 200
    kind = _TYPES.get(video.path.suffix.lower(), "application/octet-stream")
    if method == "HEAD":
        return Response(status_code=status, headers=headers, media_type=kind)
    return StreamingResponse(_content(file, first, last), status, headers, kind)


def _open(video: Video) -> io.FileIO:
    """Open the file and check that it is the one that was added. It is closed with the last reference to it."""
    again = "add it again, or remove it from the library"
    try:
        handle = os.open(video.path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except OSError:
        raise Problem(410, f"the file of {title(video.path)!r} is gone or may not be read", again) from None
    file = io.FileIO(handle)
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode) or (found.st_size, found.st_mtime_ns) != (video.size, video.mtime):
        raise Problem(409, f"the file of {title(video.path)!r} has changed since it was added", again)
    return file


async def _content(file: io.FileIO, first: int, last: int) -> AsyncIterator[bytes]:
    with file:
        file.seek(first)
        while first <= last:
            data = await anyio.to_thread.run_sync(file.read, min(_CHUNK, last - first + 1))
            if not data:  # the file became shorter; ending the connection early is what a player understands
                return
            first += len(data)
            yield data


def title(path: Path) -> str:
    """A file's name as people read it.

    >>> title(Path("/films/summer_holiday.mp4"))
    'summer_holiday'
    """
    return path.stem
