"""Videos of the library: list, detail, add, remove, media, thumbnails."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from prvr.library import LibraryError
from prvr.server.models import (
    AddRequest,
    Cursor,
    FolderList,
    FolderModel,
    JobModel,
    Number,
    Place,
    Tag,
    VideoModel,
    VideoPage,
    read_cursor,
    write_cursor,
)
from prvr.server.problems import Problem, documented
from prvr.server.ranges import file_response
from prvr.server.state import Shared

router = APIRouter(tags=["videos"])
VideoId = Annotated[Number, Path(examples=[1])]
_BYTES = {"schema": {"type": "string", "format": "binary"}}


@router.get("/videos", responses=documented(422))
def list_videos(
    state: Shared,
    status: Annotated[Literal["ok", "failed"] | None, Query(description="only these")] = None,
    folder: Annotated[Place | None, Query(description="only videos in it")] = None,
    tag: Annotated[Tag | None, Query(description="only videos with it")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: Annotated[Cursor | None, Query()] = None,
) -> VideoPage:
    """All files of the library, in the order in which they were added."""
    places, offset = state.places(), read_cursor(cursor)
    base = places.path(folder) if folder else None
    found = [
        video
        for video in state.library.videos(status)
        if (base is None or video.path.is_relative_to(base)) and (tag is None or tag in video.tags)
    ]
    page = found[offset : offset + limit]
    further = write_cursor(offset + limit) if offset + limit < len(found) else None
    return VideoPage(videos=[VideoModel.of(v, places) for v in page], total=len(found), next_cursor=further)


@router.post("/videos", status_code=202, responses=documented(400, 403, 404, 422, 429))
async def add_videos(asked: AddRequest, state: Shared, response: Response) -> JobModel:
    """Add a file or a folder from an allowed root. Answers at once with a job; its `events_url` reports progress."""
    found = await run_in_threadpool(state.roots.files, asked.root, asked.path)
    if not found.files:
        left_out = f" ({found.outside} led out of the root)" if found.outside else ""
        raise Problem(404, f"there is no video in this place{left_out}", "choose a folder with videos: GET /v1/folders")
    job = state.jobs.add(f"{asked.root}/{asked.path}".rstrip("/"), found.files, tuple(asked.tags), asked.retry)
    response.headers["Location"] = f"/v1/jobs/{job.id}"
    return JobModel.of(job)


@router.get("/folders", responses=documented(403, 404, 422))
def list_folders(
    state: Shared,
    root: Annotated[Tag | None, Query(description="one of the roots; without it, all of them")] = None,
    path: Annotated[Place, Query(description="inside the root")] = "",
) -> FolderList:
    """Folders that videos may be added from: the roots, or the folders inside one."""
    if root is None:
        found = [state.roots.folders(name, "")[0] for name in state.roots.by_name]
    else:
        found = state.roots.folders(root, path)
    return FolderList(folders=[FolderModel(**vars(folder)) for folder in found])


@router.get("/videos/{video_id}", responses=documented(404, 422))
def video(video_id: VideoId, state: Shared) -> VideoModel:
    """One video."""
    return VideoModel.of(state.video(video_id), state.places())


@router.delete("/videos/{video_id}", status_code=204, responses=documented(404, 409, 422))
def remove_video(video_id: VideoId, state: Shared) -> None:
    """Remove a video from the library. The file itself is not touched."""
    found = state.video(video_id)
    try:
        state.library.remove([found.path])
    except LibraryError:
        remedy = "check whether it is still listed, then try again; the disk may be full or the library read-only"
        raise Problem(409, f"video {video_id} could not be removed", remedy) from None


@router.head("/videos/{video_id}/media", include_in_schema=False)
@router.get(
    "/videos/{video_id}/media",
    response_class=Response,
    responses={
        200: {"description": "the file", "content": {"video/mp4": _BYTES, "application/octet-stream": _BYTES}},
        206: {"description": "a part of it", "content": {"video/mp4": _BYTES, "application/octet-stream": _BYTES}},
        **documented(404, 409, 410, 416, 422),
    },
)
def media(
    request: Request,
    video_id: VideoId,
    state: Shared,
    range_: Annotated[str | None, Header(alias="Range", max_length=200)] = None,
    if_range: Annotated[str | None, Header(alias="If-Range", max_length=200)] = None,
) -> Response:
    """The video file itself, seekable by byte range."""
    return file_response(state.video(video_id), request.method, range_, if_range)


@router.get(
    "/videos/{video_id}/thumbnail",
    response_class=Response,
    responses={200: {"description": "a picture", "content": {"image/jpeg": _BYTES}}, **documented(404, 409, 422, 503)},
)
async def thumbnail(
    video_id: VideoId,
    state: Shared,
    time: Annotated[float, Query(ge=0, le=1e6, description="seconds")] = 0.0,
    width: Annotated[int, Query(ge=32, le=640, description="pixels, at most")] = 320,
) -> Response:
    """The picture on screen at a given time, as a JPEG."""
    found = await run_in_threadpool(state.video, video_id)
    picture = await state.thumbnails.get(found, time, width)
    return Response(picture, media_type="image/jpeg", headers={"Cache-Control": "private, max-age=86400"})
