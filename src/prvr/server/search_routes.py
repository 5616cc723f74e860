"""Routes for searches, and for the evidence of a hit."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Annotated

from fastapi import APIRouter, Path, Query, Response
from fastapi.concurrency import run_in_threadpool

from prvr.library import LibraryError, MomentQuery, NoCandidates, QueryInput, split_moment
from prvr.server.evidence_models import EvidenceModel
from prvr.server.models import Id, QueryText
from prvr.server.problems import Problem, as_sentence, from_user_error, problem_responses
from prvr.server.search_models import SearchBody, SearchResponse
from prvr.server.state import Shared

router = APIRouter(tags=["search"])


@router.post("/search", response_model=SearchResponse, responses=problem_responses(400, 404, 409, 422, 503))
async def search(request: SearchBody, state: Shared) -> Response:
    """Find the moments that a sentence describes, or that look like a picture or another moment.

    Concurrent searches share one pass over the library.
    """
    if request.kind == "like":
        await run_in_threadpool(state.video, request.like.video)
    try:
        async with AsyncExitStack() as stack:
            if request.kind == "picture":
                request = request.with_picture(await stack.enter_async_context(state.pictures.decoded(request.picture)))
            return Response(await state.batcher.submit(request), media_type="application/json")
    except NoCandidates as problem:
        remedy = problem.remedy.replace("search exactly", "leave `approximate` out")
        raise Problem(409, as_sentence(problem.found), as_sentence(remedy)) from None


@router.get("/videos/{video_id}/evidence", responses=problem_responses(404, 422))
def video_evidence(
    video_id: Annotated[Id, Path(description="number of the video", examples=[1])],
    state: Shared,
    query: Annotated[
        QueryText | None, Query(description="a sentence", examples=["a red square moves to the left"])
    ] = None,
    like: Annotated[
        str | None, Query(description="or a moment: VIDEO@START-END", max_length=80, examples=["1@12.5-18"])
    ] = None,
    picture: Annotated[
        str | None, Query(description="or the picture of a search, as its `evidence_url` names it", max_length=80)
    ] = None,
    track: Annotated[str | None, Query(description="`frames` or `text`; by default frames", max_length=20)] = None,
    trace: Annotated[bool, Query(description="find moments with TRACE; false: with plain max pooling")] = True,
) -> EvidenceModel:
    """The evidence for a query over the time of one video: curves, register activation, peaks and moments.

    Give one of `query`, `like` and `picture`.
    """
    state.video(video_id)
    try:
        asked, text = _asked(query, like, picture, state)
        explanation = state.library.explain(asked, video_id, track=track, trace=trace)
        return EvidenceModel.of(video_id, text, explanation)
    except LibraryError as error:
        remedy = "Search again and follow the `evidence_url` of a hit."
        raise from_user_error(error, state.library.address, 404, remedy) from None


def _asked(query: str | None, like: str | None, picture: str | None, state: Shared) -> tuple[QueryInput, str]:
    """The query that an address names, and the same in words."""
    if sum(each is not None for each in (query, like, picture)) != 1:
        raise LibraryError("the address must have one of `query`, `like` and `picture`")
    if picture is not None:
        return state.pictures.get(picture).image, "a picture"
    if like is None:
        assert query is not None
        return query, query
    video, start, end = split_moment(like)
    if not video.isdecimal() or len(video) > 15:
        raise LibraryError(f"{video!r} is not the number of a video")
    moment = MomentQuery(int(video), start, end)
    return moment, str(moment)
