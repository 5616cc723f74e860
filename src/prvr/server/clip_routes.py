"""The route for clips: a moment of a video as a file that every browser plays."""

from __future__ import annotations

import os
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from prvr.server.clips import LONGEST_CLIP
from prvr.server.disconnects import unless_gone
from prvr.server.models import Id
from prvr.server.problems import Problem, problem_responses
from prvr.server.ranges import ranged_response, require_unchanged_file, title
from prvr.server.state import Shared

router = APIRouter(tags=["videos"])
_CLIP = {"content": {"video/mp4": {"schema": {"type": "string", "format": "binary"}}}}
_Time = Annotated[float, Query(ge=0, le=1e6, allow_inf_nan=False, description="seconds")]


@router.head("/videos/{video_id}/clip", include_in_schema=False)
@router.get(
    "/videos/{video_id}/clip",
    response_class=Response,
    responses={
        200: {"description": "the clip", **_CLIP},
        206: {"description": "a part of it", **_CLIP},
        **problem_responses(404, 409, 410, 416, 422, 503),
    },
)
async def clip(
    request: Request,
    video_id: Annotated[Id, Path(description="number of the video", examples=[1])],
    state: Shared,
    start: _Time,
    end: _Time,
    margin: Annotated[
        float, Query(ge=0, le=30, allow_inf_nan=False, description="seconds before `start` and after `end`")
    ] = 0.0,
    range_: Annotated[str | None, Header(alias="Range", max_length=200)] = None,
    if_range: Annotated[str | None, Header(alias="If-Range", max_length=200)] = None,
) -> Response:
    """A moment of a video as an .mp4 file (H.264 and AAC, at most 1280 pixels wide or high), whole or by byte range.

    The clip begins at `start` − `margin`, but not before the video, and ends at `end` + `margin`, but not after it.
    With its margins it is at most 120 seconds long."""
    video = await run_in_threadpool(state.video, video_id)
    length = video.duration
    if end <= start:
        raise Problem(409, "The clip ends before it starts.", "Give an `end` that is greater than `start`.")
    if length is not None and start >= length:
        raise Problem(409, f"{title(video.path)!r} is only {length:.1f} s long.", "Give a `start` inside the video.")
    first, last = max(0.0, start - margin), end + margin
    if length is not None:
        last = max(min(last, length), first + 0.1)
    if last - first > LONGEST_CLIP:
        raise Problem(
            409, f"A clip of {last - first:.0f} s is too long.", f"Ask for {LONGEST_CLIP:.0f} s or less, with margins."
        )
    expected = state.roots.expected(video)
    await run_in_threadpool(require_unchanged_file, video, expected)
    file = await unless_gone(request, state.clips.get(video, expected, first, last))
    status = os.fstat(file.fileno())
    etag = f'"{video.digest[:16]}-{status.st_mtime_ns:x}-{status.st_size:x}"'  # cut again, it may have other bytes
    return ranged_response(file, status.st_size, etag, "video/mp4", request.method, range_, if_range)
