"""Routes for jobs, which add videos in the background."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import StreamingResponse

from prvr.server.models import Id, JobList, JobModel
from prvr.server.problems import problem_responses
from prvr.server.state import Shared

router = APIRouter(tags=["jobs"])
JobId = Annotated[Id, Path(description="number of the job", examples=[1])]


@router.get("/jobs")
async def list_jobs(state: Shared) -> JobList:
    """The jobs since the server was started, newest first."""
    return JobList(jobs=[JobModel.of(job) for job in reversed(state.jobs.all.values())])


@router.get("/jobs/{job_id}", responses=problem_responses(404, 422))
async def job(job_id: JobId, state: Shared) -> JobModel:
    """The state of one job."""
    return JobModel.of(state.jobs.get(job_id))


@router.post("/jobs/{job_id}/cancel", responses=problem_responses(404, 422))
async def cancel_job(job_id: JobId, state: Shared) -> JobModel:
    """Stop a job if it has not ended. Videos added so far are kept."""
    job = state.jobs.get(job_id)
    await state.jobs.cancel(job)
    return JobModel.of(job)


@router.get(
    "/jobs/{job_id}/events",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "an event `job` at every change, with the job as its data, until the job has ended",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
        **problem_responses(404, 422),
    },
)
async def job_events(job_id: JobId, state: Shared) -> StreamingResponse:
    """The progress of a job, as server-sent events."""
    job = state.jobs.get(job_id)

    async def events() -> AsyncIterator[str]:
        async for change in state.jobs.follow(job):
            if change is None:  # a comment keeps the connection open
                yield ": still here\n\n"
            else:
                yield f"event: job\ndata: {JobModel.of(change).model_dump_json()}\n\n"

    return StreamingResponse(events(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
