"""Jobs: videos that are being added."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import StreamingResponse

from prvr.server.models import JobList, JobModel, Number
from prvr.server.problems import documented
from prvr.server.state import Shared

router = APIRouter(tags=["jobs"])
JobId = Annotated[Number, Path(examples=[1])]


@router.get("/jobs")
async def list_jobs(state: Shared) -> JobList:
    """All jobs since the server was started, latest first."""
    return JobList(jobs=[JobModel.of(job) for job in reversed(state.jobs.all.values())])


@router.get("/jobs/{job_id}", responses=documented(404, 422))
async def job(job_id: JobId, state: Shared) -> JobModel:
    """The state of one job."""
    return JobModel.of(state.jobs.get(job_id))


@router.post("/jobs/{job_id}/cancel", responses=documented(404, 422))
async def cancel_job(job_id: JobId, state: Shared) -> JobModel:
    """Stop a job if it has not ended. Videos added so far are kept."""
    found = state.jobs.get(job_id)
    await state.jobs.cancel(found)
    return JobModel.of(found)


@router.get(
    "/jobs/{job_id}/events",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "`event: job` with a job as data at every change, until it has ended",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
        **documented(404, 422),
    },
)
async def job_events(job_id: JobId, state: Shared) -> StreamingResponse:
    """The progress of a job, as server-sent events."""
    found = state.jobs.get(job_id)

    async def events() -> AsyncIterator[str]:
        async for now in state.jobs.follow(found):
            yield ": still here\n\n" if now is None else f"event: job\ndata: {JobModel.of(now).model_dump_json()}\n\n"

    return StreamingResponse(events(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
