"""The route for exports: moments as clips, as one film, as a table, or as a timeline for editing programs."""

from __future__ import annotations

import tempfile
from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse
from pydantic import ConfigDict, Field
from starlette.background import BackgroundTask

from prvr.media import EXPORT_SUFFIXES, USUAL_RATE, ExportFormat, ExportMoment, export_moments
from prvr.server.clips import LONGEST_EXPORT, ExpectedFiles
from prvr.server.disconnects import unless_gone
from prvr.server.models import Integer, Label, Real, RequestModel, Seconds
from prvr.server.problems import Problem, problem_responses
from prvr.server.ranges import require_unchanged_file
from prvr.server.state import ServerState, Shared

router = APIRouter(tags=["videos"])
MAX_MOMENTS = 500
_TYPES: dict[ExportFormat, str] = {
    "clips": "application/zip",
    "film": "video/mp4",
    "csv": "text/csv; charset=utf-8",
    "edl": "text/plain; charset=utf-8",
    "otio": "application/json",
}
_BYTES = {"schema": {"type": "string", "format": "binary"}}


class MomentToExport(RequestModel):
    """A moment of a video."""

    video: Integer = Field(ge=1, le=2**53, description="number of the video")
    start: Seconds = Field(description="seconds")
    end: Seconds = Field(description="seconds")
    label: Label = Field(default="", description="what is seen; part of tables and timelines")


class ExportRequest(RequestModel):
    """Moments to take away, in their order."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "moments": [{"video": 1, "start": 2.0, "end": 4.5, "label": "a red door"}],
                    "format": "film",
                    "margin": 1.0,
                }
            ]
        },
    )
    moments: list[MomentToExport] = Field(min_length=1, max_length=MAX_MOMENTS)
    format: ExportFormat = Field(
        description="`clips`: a zip of .mp4 files; `film`: one .mp4 file; `csv`: a table; `edl`: an edit decision list "
        "(CMX 3600); `otio`: an OpenTimelineIO document"
    )
    margin: Real = Field(default=0.0, ge=0, le=30, description="seconds added before and after each moment")


@router.post(
    "/export",
    response_class=FileResponse,
    responses={
        200: {
            "description": "a file",
            "content": {kind.partition(";")[0]: _BYTES for kind in _TYPES.values()},
        },
        **problem_responses(400, 404, 409, 410, 422, 503),
    },
)
async def export(body: ExportRequest, request: Request, state: Shared) -> FileResponse:
    """Take moments away: as clips in a zip, as one film, as a table, or as a timeline for editing programs.

    Clips and films are cut before the response begins, which can take minutes. They are at most 900 seconds long in
    all. Tables and timelines name videos as `name` in GET /v1/videos does."""
    moments = await run_in_threadpool(_moments, body, state)
    expected: ExpectedFiles = {}
    if body.format in ("clips", "film"):
        seconds = sum(moment.seconds for moment in moments)
        if seconds > LONGEST_EXPORT:
            remedy = f"Export {LONGEST_EXPORT:.0f} s or less at once, or a timeline, which may be longer."
            raise Problem(409, f"The moments are {seconds:.0f} s long in all.", remedy)
        expected = await run_in_threadpool(_require_files, body, state)
    folder = tempfile.TemporaryDirectory(prefix="prvr-export-", ignore_cleanup_errors=True)  # for this user only
    out = Path(folder.name) / f"moments{EXPORT_SUFFIXES[body.format]}"
    try:
        if body.format in ("clips", "film"):
            await unless_gone(request, state.exports.write(moments, expected, body.format, out))
        else:
            await run_in_threadpool(export_moments, moments, body.format, out)
    except BaseException:
        folder.cleanup()
        raise
    cleanup = BackgroundTask(folder.cleanup)
    return FileResponse(out, media_type=_TYPES[body.format], filename=out.name, background=cleanup)


def _moments(body: ExportRequest, state: ServerState) -> list[ExportMoment]:
    """The moments with their videos. Clients see names of videos, and no paths of this machine."""
    describer, found = state.describer(), []
    for number, moment in enumerate(body.moments, 1):
        video = state.video(moment.video)
        length = video.duration if video.duration is not None else float("inf")
        if moment.end <= moment.start or moment.start >= length:
            detail = f"Moment {number} ({moment.start:g} to {moment.end:g} s) is not a part of video {moment.video}."
            raise Problem(409, detail, "A moment ends after its start, and starts before the video ends.")
        name, rate = describer.name(video.path), video.fps or USUAL_RATE
        end = min(moment.end, length)
        whole = ExportMoment(video.path, moment.start, end, moment.label, name, rate, video.duration)
        found.append(whole.with_margin(body.margin))
    return found


def _require_files(body: ExportRequest, state: ServerState) -> ExpectedFiles:
    """Refuse videos whose files have changed. Returns what must still be true of each when it is cut."""
    found = {}
    for number in {moment.video for moment in body.moments}:
        video = state.video(number)
        found[str(video.path)] = state.roots.expected(video)
        require_unchanged_file(video, found[str(video.path)])
    return found
