"""The route that says what is being done to the library now."""

from __future__ import annotations

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from prvr.library import ActivityKind, ActivityState, LibraryActivity
from prvr.media import video_path
from prvr.server.access import access_of
from prvr.server.jobs import ENDED, Job
from prvr.server.problems import without_paths
from prvr.server.roots import LibraryFolders
from prvr.server.state import Shared

router = APIRouter(tags=["service"])


class ActivityModel(BaseModel):
    """Work on the library: a watcher, an add or a reindexing."""

    what: ActivityKind
    folder: str = Field(description="what is watched or added, named as folders of videos are; '' if that is unknown")
    state: ActivityState = Field(description="`waiting`: nothing is being indexed at this moment")
    done: int = Field(description="files of the current work that are done")
    total: int = Field(description="files of the current work")
    file: str | None = Field(description="name of the file that is being indexed")
    message: str = Field(description="what it waits for, for people; an empty string if there is nothing to say")

    @staticmethod
    def of_job(job: Job) -> ActivityModel:
        now = job.progress
        return ActivityModel(
            what="add",
            folder=job.what,
            state="indexing" if job.state == "running" else "waiting",
            done=now.get("files_done", 0),
            total=now.get("files", len(job.files)),
            file=now.get("path"),
            message="",
        )

    @staticmethod
    def of(activity: LibraryActivity, folders: LibraryFolders, library: str) -> ActivityModel:
        """No answer contains a path of this machine."""
        return ActivityModel(
            what=activity.what,
            folder=", ".join(_folder_name(folder, folders) for folder in activity.folders),
            state=activity.state,
            done=activity.done,
            total=activity.total,
            file=None if activity.file is None else video_path(activity.file).name,
            message=without_paths(activity.message, (*activity.folders, library)) or "",
        )


class ActivityList(BaseModel):
    """What is being done to the library now, the oldest first."""

    running: list[ActivityModel]


@router.get("/activity")
def activity(state: Shared, request: Request) -> ActivityList:
    """What is being done to the library now: watchers, adds and reindexing, of this server and of other processes.

    Of a lake, only the jobs of this server are known. With a token for viewing, folders, files and messages are empty.
    """
    jobs = [job for job in state.jobs.all.values() if job.state not in ENDED]
    own = {job.process.pid for job in jobs if job.process is not None}
    others = [each for each in state.library.activities() if each.process not in own]
    folders = state.lister().folders
    running = [*(ActivityModel.of(each, folders, state.library.address) for each in others)]
    running += map(ActivityModel.of_job, jobs)
    if access_of(request) == "view":
        running = [each.model_copy(update={"folder": "", "file": None, "message": ""}) for each in running]
    return ActivityList(running=running)


def _folder_name(folder: str, folders: LibraryFolders) -> str:
    path = video_path(folder)
    return folders.name(path / "video") or path.name
