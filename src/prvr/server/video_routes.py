"""Routes for the videos of the library: list, show, add, remove, play, thumbnails."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from prvr.library import LibraryError, ListRequest, VideoOrder
from prvr.server.models import (
    AddRequest,
    FolderList,
    FolderModel,
    Id,
    JobModel,
    ListCursor,
    Name,
    RelativePath,
    VideoEdit,
    VideoModel,
    VideoPage,
    read_cursor,
    write_cursor,
)
from prvr.server.problems import Problem, problem_responses
from prvr.server.ranges import file_response, require_unchanged_file
from prvr.server.state import Shared

router = APIRouter(tags=["videos"])
VideoId = Annotated[Id, Path(description="number of the video", examples=[1])]
_BYTES = {"schema": {"type": "string", "format": "binary"}}


@router.get("/videos", responses=problem_responses(422))
def list_videos(
    state: Shared,
    status: Annotated[Literal["ok", "failed"] | None, Query(description="only videos in this state")] = None,
    folder: Annotated[RelativePath | None, Query(description="only videos in this folder")] = None,
    tag: Annotated[Name | None, Query(description="only videos with this tag")] = None,
    order: Annotated[
        VideoOrder,
        Query(
            description="`added`: in the order in which they were added; `newest`: the file changed last first; "
            "`recent`: added last first; `name`: by folder and name; `longest`: first"
        ),
    ] = "added",
    limit: Annotated[int, Query(ge=1, le=500, description="number of videos in one response")] = 50,
    cursor: Annotated[ListCursor | None, Query(description="`next_cursor` of the previous response")] = None,
) -> VideoPage:
    """List the videos of the library."""
    describer, offset = state.lister(), read_cursor(cursor)
    base = describer.folders.path(folder) if folder else None
    listed = state.library.listing(ListRequest(status, base, tag, order, offset, limit))
    next_cursor = write_cursor(offset + limit) if offset + limit < listed.total else None
    return VideoPage(videos=[*map(describer.describe, listed.videos)], total=listed.total, next_cursor=next_cursor)


@router.post("/videos", status_code=202, responses=problem_responses(400, 403, 404, 422, 429))
async def add_videos(request: AddRequest, state: Shared, response: Response) -> JobModel:
    """Add a file or folder from an allowed root. Returns a job at once; its `events_url` reports the progress."""
    videos = await run_in_threadpool(state.roots.files, request.root, request.path)
    if not videos.files:
        reason = "Left out because a link leads out of the root or cannot be followed"
        left_out = f" {reason}: {videos.left_out}." if videos.left_out else ""
        raise Problem(404, f"There is no video here.{left_out}", "Choose a folder with videos: GET /v1/folders.")
    what = f"{request.root}/{request.path}".rstrip("/")
    job = state.jobs.add(what, videos.files, tuple(request.tags), request.retry)
    response.headers["Location"] = f"/v1/jobs/{job.id}"
    return JobModel.of(job)


@router.get("/folders", responses=problem_responses(403, 404, 422))
def list_folders(
    state: Shared,
    root: Annotated[Name | None, Query(description="name of a root; without it, all roots are listed")] = None,
    path: Annotated[RelativePath, Query(description="path of a folder inside the root")] = "",
) -> FolderList:
    """List folders that videos may be added from: the roots, or a folder of a root and the folders directly in it."""
    if root is None:
        folders = [state.roots.folders(name, "")[0] for name in state.roots.by_name]
    else:
        folders = state.roots.folders(root, path)
    return FolderList(folders=[FolderModel(**vars(folder)) for folder in folders])


@router.get("/videos/{video_id}", responses=problem_responses(404, 422))
def video(video_id: VideoId, state: Shared) -> VideoModel:
    """Show one video."""
    return state.lister().describe(state.video(video_id))


@router.patch("/videos/{video_id}", responses=problem_responses(400, 404, 409, 422))
def edit_video(video_id: VideoId, edit: VideoEdit, state: Shared) -> VideoModel:
    """Attach tags to a video and take others off. Returns the video as it is then."""
    state.video(video_id)
    state.library.change_tags(video_id, add=edit.add_tags, remove=edit.remove_tags)
    changed = state.library.video(video_id)
    if changed is None:
        raise Problem(404, f"Video {video_id} was removed meanwhile.", "List the videos with GET /v1/videos.")
    return state.lister().describe(changed)


@router.delete("/videos/{video_id}", status_code=204, responses=problem_responses(404, 409, 422))
def remove_video(video_id: VideoId, state: Shared) -> None:
    """Remove a video from the library. The file itself is kept."""
    path = state.video(video_id).path
    try:
        state.library.remove([path])
    except LibraryError:
        remedy = "Try again if it is still listed. The disk may be full, or the library read-only."
        raise Problem(409, f"Video {video_id} could not be removed.", remedy) from None


@router.head("/videos/{video_id}/media", include_in_schema=False)
@router.get(
    "/videos/{video_id}/media",
    response_class=Response,
    responses={
        200: {"description": "the file", "content": {"video/mp4": _BYTES, "application/octet-stream": _BYTES}},
        206: {
            "description": "a part of it",
            "content": {"video/mp4": _BYTES, "application/octet-stream": _BYTES},
        },
        **problem_responses(404, 409, 410, 416, 422, 503),
    },
)
def media(
    request: Request,
    video_id: VideoId,
    state: Shared,
    range_: Annotated[str | None, Header(alias="Range", max_length=200)] = None,
    if_range: Annotated[str | None, Header(alias="If-Range", max_length=200)] = None,
) -> Response:
    """The video file, whole or by byte range."""
    video = state.video(video_id)
    return file_response(video, state.roots.expected(video), request.method, range_, if_range)


@router.get(
    "/videos/{video_id}/thumbnail",
    response_class=Response,
    responses={
        200: {"description": "a picture", "content": {"image/jpeg": _BYTES}},
        **problem_responses(404, 409, 410, 422, 503),
    },
)
async def thumbnail(
    video_id: VideoId,
    state: Shared,
    time: Annotated[float, Query(ge=0, le=1e6, description="seconds")] = 0.0,
    width: Annotated[int, Query(ge=32, le=640, description="greatest width in pixels")] = 320,
) -> Response:
    """The picture at a given time, as a JPEG."""
    video = await run_in_threadpool(state.video, video_id)
    expected = state.roots.expected(video)
    await run_in_threadpool(require_unchanged_file, video, expected)
    picture = await state.thumbnails.get(video, expected, time, width)
    return Response(picture, media_type="image/jpeg", headers={"Cache-Control": "private, max-age=86400"})
