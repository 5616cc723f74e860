"""Send a video file, or a byte range of it (RFC 9110) so that a player can seek."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator
from pathlib import PurePath
from typing import BinaryIO

import anyio.to_thread
from starlette.responses import Response, StreamingResponse

from prvr.errors import UserError
from prvr.library import Video
from prvr.media import ExpectedFile, FileChanged, MediaError, StorageError, open_checked
from prvr.server.problems import Problem

_log = logging.getLogger("prvr.server")
_CHUNK = 256 * 1024
_TYPES = {
    ".mp4": "video/mp4", ".m4v": "video/mp4", ".mov": "video/quicktime", ".webm": "video/webm", ".ogv": "video/ogg",
    ".mkv": "video/x-matroska", ".avi": "video/x-msvideo", ".mpg": "video/mpeg", ".mpeg": "video/mpeg",
    ".ts": "video/mp2t", ".3gp": "video/3gpp", ".gif": "image/gif",
}  # fmt: skip


def parse_range(header: str | None, size: int) -> tuple[int, int] | None:
    """First and last byte of a Range header, or None for the whole file.

    Raises:
        ValueError: if the range begins after the end of the file.

    >>> parse_range("bytes=0-99", 1000), parse_range("bytes=900-", 1000), parse_range("bytes=-10", 1000)
    ((0, 99), (900, 999), (990, 999))
    >>> parse_range("bytes=0-1,5-6", 1000) is None  # for several ranges, the whole file may be sent
    True
    """
    match = re.fullmatch(r"bytes=(\d{0,18})-(\d{0,18})", (header or "").replace(" ", ""))
    if match is None or match.group(0) == "bytes=-":
        return None
    first, last = match.groups()
    if not first:
        if int(last) == 0 or size == 0:
            raise ValueError
        return max(0, size - int(last)), size - 1
    if last and int(last) < int(first):
        return None
    if int(first) >= size:
        raise ValueError
    return int(first), min(int(last) if last else size - 1, size - 1)


def file_response(
    video: Video, expected: ExpectedFile, method: str, range_header: str | None, if_range: str | None
) -> Response:
    """Respond with the file of a video, or a part of it. A file that has changed since it was added is refused."""
    file, etag = _open(video, expected), f'"{video.digest[:32]}"'
    kind = _TYPES.get(video.path.suffix.lower(), "application/octet-stream")
    return ranged_response(file, video.size, etag, kind, method, range_header, if_range)


def require_unchanged_file(video: Video, expected: ExpectedFile) -> None:
    """Refuse a video whose file is gone, has changed since it was added, or was never read."""
    _open(video, expected).close()


def ranged_response(
    file: BinaryIO, size: int, etag: str, kind: str, method: str, range_header: str | None, if_range: str | None
) -> Response:
    """Respond with an open file, which is closed at the end, or with the part of it that a Range header asks for."""
    if if_range is not None and if_range != etag:
        range_header = None
    try:
        part = parse_range(range_header, size)
    except ValueError:
        file.close()
        raise Problem(
            416,
            f"The range begins after the end of the file, which has {size} bytes.",
            "Request a range inside the file.",
            {"Content-Range": f"bytes */{size}"},
        ) from None
    first, last = part if part is not None else (0, size - 1)
    headers = {
        "Accept-Ranges": "bytes",
        "Content-Length": str(last - first + 1),
        "ETag": etag,
        "Cache-Control": "private, max-age=3600",
        "Content-Disposition": "inline",
    }
    if part is not None:
        headers["Content-Range"] = f"bytes {first}-{last}/{size}"
    status = 206 if part is not None else 200
    if method == "HEAD":
        file.close()
        return Response(status_code=status, headers=headers, media_type=kind)
    return StreamingResponse(_content(file, first, last), status, headers, kind)


def _open(video: Video, expected: ExpectedFile) -> BinaryIO:
    """Open the file and check that it is the one that was added. It is closed with the last reference to it."""
    if video.state != "ok":  # it was never read as a video, so it may be anything
        raise Problem(409, f"The file of {title(video.path)!r} could not be read as a video.", "Add it again.")
    remedy = "Add it again, or remove it from the library."
    try:
        return open_checked(video.path, expected)
    except FileChanged:
        raise Problem(409, f"The file of {title(video.path)!r} has changed since it was added.", remedy) from None
    except (OSError, MediaError):
        raise Problem(410, f"The file of {title(video.path)!r} is gone or cannot be read.", remedy) from None
    except StorageError as problem:
        _log.warning("%s", problem)
        detail = f"The storage that holds {title(video.path)!r} cannot be read."
        raise Problem(503, detail, "Try again later. The server's log says more.", {"Retry-After": "10"}) from None


async def _content(file: BinaryIO, first: int, last: int) -> AsyncIterator[bytes]:
    with file:
        file.seek(first)
        while first <= last:
            try:
                data = await anyio.to_thread.run_sync(file.read, min(_CHUNK, last - first + 1))
            except UserError as problem:  # the bucket went away
                _log.warning("%s", problem)
                return
            if not data:  # the file became shorter; players understand a connection that ends early
                return
            first += len(data)
            yield data


def title(path: PurePath) -> str:
    """The title of a video: its file's name without the suffix.

    >>> title(PurePath("/films/summer_holiday.mp4"))
    'summer_holiday'
    """
    return path.stem
