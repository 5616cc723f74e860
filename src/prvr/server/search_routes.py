"""Routes for searches, and for the evidence of a hit."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from prvr.library import LibraryError, NoCandidates
from prvr.server.models import Id, QueryText
from prvr.server.problems import Problem, as_sentence, from_user_error, problem_responses
from prvr.server.search_models import EvidenceModel, SearchBody, SearchResponse
from prvr.server.state import Shared

router = APIRouter(tags=["search"])


@router.post("/search", response_model=SearchResponse, responses=problem_responses(400, 409, 422, 503))
async def search(request: SearchBody, state: Shared) -> Response:
    """Find the moments that a sentence describes. Concurrent searches share one pass over the library."""
    try:
        return Response(await state.batcher.submit(request), media_type="application/json")
    except NoCandidates as problem:
        remedy = problem.remedy.replace("search exactly", "leave `approximate` out")
        raise Problem(409, as_sentence(problem.found), as_sentence(remedy)) from None


@router.get("/videos/{video_id}/evidence", responses=problem_responses(404, 422))
def video_evidence(
    video_id: Annotated[Id, Path(description="number of the video", examples=[1])],
    state: Shared,
    query: Annotated[QueryText, Query(description="a sentence", examples=["a red square moves to the left"])],
    track: Annotated[str | None, Query(description="`frames` or `text`; by default frames", max_length=20)] = None,
    trace: Annotated[bool, Query(description="find moments with TRACE; false: with plain max pooling")] = True,
) -> EvidenceModel:
    """The evidence for a sentence over the time of one video: curves, register activation, peaks and moments."""
    state.video(video_id)
    try:
        explanation = state.library.explain(query, video_id, track=track, trace=trace)
        return EvidenceModel.of(video_id, query, explanation)
    except LibraryError as error:
        remedy = "Search again and follow the `evidence_url` of a hit."
        raise from_user_error(error, state.library.address, 404, remedy) from None
