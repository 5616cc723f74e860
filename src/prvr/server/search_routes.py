"""Searches, and the evidence for a hit."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from prvr.library import LibraryError, NoCandidates
from prvr.server.models import Number, Words
from prvr.server.problems import Problem, documented, from_user_error
from prvr.server.search_models import EvidenceModel, SearchBody, SearchResponse
from prvr.server.state import Shared

router = APIRouter(tags=["search"])


@router.post("/search", response_model=SearchResponse, responses=documented(400, 409, 422, 503))
async def search(request: SearchBody, state: Shared) -> Response:
    """Find the moments that a sentence describes. Concurrent searches share one pass over the library."""
    try:
        return Response(await state.batcher.ask(request), media_type="application/json")
    except NoCandidates as problem:
        raise Problem(409, problem.found, problem.remedy.replace("search exactly", "leave `approximate` out")) from None


@router.get("/videos/{video_id}/evidence", responses=documented(404, 422))
def video_evidence(
    video_id: Annotated[Number, Path(examples=[1])],
    state: Shared,
    query: Annotated[Words, Query(examples=["a red square moves to the left"])],
    track: Annotated[str | None, Query(max_length=20, pattern="^(frames|text)$")] = None,
    trace: bool = True,
) -> EvidenceModel:
    """Evidence for a sentence over the time of one video: direct, supported and routed; registers; both peaks."""
    state.video(video_id)
    try:
        explanation = state.library.explain(query, video_id, track=track, trace=trace)
        return EvidenceModel.of(video_id, query, explanation)
    except LibraryError as error:
        remedy = "search again and follow `evidence_url` of a hit"
        raise from_user_error(error, state.library.folder, 404, remedy) from None
