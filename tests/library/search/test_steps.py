"""Each step of a search alone, on a handful of vectors: query, score, rank, explain, result."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from prvr.library import (
    FRAMES,
    TEXT,
    Filters,
    IndexedVideo,
    Library,
    NewVideo,
    Piece,
    SearchRequest,
    SectionBuffer,
)
from prvr.library.search.confidence import Standing
from prvr.library.search.explain import EvidenceRequest, evidence_in_videos, explain_pages
from prvr.library.search.knowledge import Knowledge
from prvr.library.search.moment_rank import line_moments
from prvr.library.search.pipeline import search_words
from prvr.library.search.query import TrackQuery, encode_queries, track_queries
from prvr.library.search.rank import rank_requests
from prvr.library.search.rank_fusion import fuse_ranks
from prvr.library.search.results import result_of
from prvr.library.search.score import score_queries, score_sections
from prvr.library.search.track_rank import TrackRanking, rank_track
from prvr.library.search.words import WORDS, TextMatch, VideoMatch
from prvr.library.store.background import Background
from prvr.library.store.sections import SectionsByVideo
from tests.library.search.drawn_library import WIDTH, DrawnEncoder, draw

NAMES = ("one", "two", "three", "four")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """Four videos of ten seconds. Second 3 of each is the sentence of its own name."""
    folder = tmp_path_factory.mktemp("small") / "library"
    library = Library.create(folder, encoder=DrawnEncoder("pictures"), local="frames", storage="fp32")
    videos = []
    for number, name in enumerate(NAMES):
        vectors = 0.1 * draw(10, number)
        vectors[3] = DrawnEncoder("pictures").encode_texts([name])[0]
        buffer = SectionBuffer(folder)
        times = np.arange(10.0)
        for section in library.tracks[FRAMES].sections([Piece(vectors, np.stack([times, times + 1], 1))]):
            buffer.add(section)
        video = NewVideo(Path(f"/films/{name}.mp4"), 1, 0, name, duration=10.0, frames=10, tags=(name,))
        videos.append(IndexedVideo(video, {FRAMES: buffer}))
    library.store.commit(videos)
    return library


def vectors(library: Library, *sentences: str) -> NDArray[np.float32]:
    return encode_queries(sentences, library.tracks[FRAMES])


def test_encode_gives_a_zero_row_for_what_is_not_understood(small: Library) -> None:
    rows = vectors(small, "two", "blind")
    assert rows.shape == (2, WIDTH)
    assert rows.any(1).tolist() == [True, False]


def test_queries_see_the_sections_that_filters_leave(small: Library) -> None:
    snapshot = small.snapshot()
    requests = [SearchRequest("two"), SearchRequest("two", filters=Filters(tags=("three",))), SearchRequest("blind")]
    rows = vectors(small, "two", "two", "blind")
    everything, some, nothing = track_queries(requests, {FRAMES: rows}, snapshot, {})
    assert everything[FRAMES].sections is snapshot.tracks[FRAMES].by_video
    assert [snapshot.videos[number].name for number in some[FRAMES].sections.videos] == ["three.mp4"]
    assert nothing == {}


def test_scores_of_some_sections_are_those_of_all(small: Library) -> None:
    sections = small.snapshot().tracks[FRAMES]
    rows = vectors(small, "one", "four")
    everything = score_sections(rows, sections, small.scorer).fused(sections.fusion_weight)
    some = score_sections(rows, sections, small.scorer, np.array([3, 1])).fused(sections.fusion_weight)
    assert some == pytest.approx(everything[:, [3, 1]], abs=1e-5)
    assert everything.argmax(1).tolist() == [0, 3]
    queries = [TrackQuery(row, 0.0, sections.by_video, sections.by_video) for row in rows]
    plain = score_queries(queries, sections, small.scorer)
    assert np.stack(plain) == pytest.approx(score_sections(rows, sections, small.scorer).base, abs=1e-5)


def test_ranking_needs_scores_alone() -> None:
    """No library: an order of videos from plain arrays, fused by rank where there are two tracks."""

    def track(owners: list[int], scores: list[float]) -> TrackRanking:
        groups = SectionsByVideo.of(np.array(owners, np.int64))
        best = groups.best(np.array(scores, np.float32)[groups.numbers])
        query = TrackQuery(np.ones(2, np.float32), 0.0, groups, groups)
        return TrackRanking(query, best, Standing(best, Background(np.zeros(0, np.float32))))

    frames = track([5, 5, 7, 9], [0.1, 0.8, 0.9, 0.3])  # video 5 has two sections
    assert frames.top(3) == [7, 5, 9]
    assert (frames.place(5), frames.place(6)) == (1, None)
    (alone,) = rank_requests([SearchRequest("x", limit=2)], [{FRAMES: frames}])
    assert alone is not None
    assert [entry.video for entry in alone.page] == [7, 5]
    assert (alone.more, alone.total, alone.page[1].places) == (True, 3, {FRAMES: 2})
    two = {FRAMES: frames, TEXT: track([9, 4], [0.9, 0.2])}
    (both,) = rank_requests([SearchRequest("x", limit=5)], [two])
    assert both is not None
    assert [entry.video for entry in both.page] == [9, 7, 5, 4]  # 9 stands third and first; 4 has no pictures
    assert both.total == 4
    assert [entry.track for entry in both.page] == [TEXT, FRAMES, FRAMES, TEXT]
    assert both.page[0].score == pytest.approx(1 / 63 + 1 / 61)
    others = {TEXT: two[TEXT], "tags": track([4, 8], [0.5, 0.4])}  # neither track is the frames
    (without,) = rank_requests([SearchRequest("x")], [others])
    assert without is not None
    assert (without.lead, [entry.video for entry in without.page]) == (TEXT, [4, 9, 8])
    assert rank_requests([SearchRequest("x")], [{}]) == [None]


def test_words_join_the_fusion_and_answer_alone() -> None:
    groups = SectionsByVideo.of(np.arange(1, 7))
    scores = np.linspace(1, 0, 6, dtype=np.float32)
    standing = Standing(scores, Background(np.zeros(0, np.float32)))
    frames = TrackRanking(TrackQuery(np.ones(2, np.float32), 0.0, groups, groups), scores, standing)
    line = TextMatch("subtitles", "a line", 1.0, 2.0)
    few = {6: VideoMatch(0, 0, (line,)), 8: VideoMatch(1, 1, (line,))}  # 8 has no pictures
    many = {number: VideoMatch(0, 150, (line,)) for number in range(3, 7)}
    request = SearchRequest("x", limit=4)
    first, common, alone = rank_requests([request] * 3, [{FRAMES: frames}, {FRAMES: frames}, {}], [few, many, few])
    assert first is not None
    assert [(entry.video, entry.track) for entry in first.page] == [(6, FRAMES), (1, FRAMES), (2, FRAMES), (8, WORDS)]
    assert first.page[0].places == {FRAMES: 6, WORDS: 1}
    assert first.total == 7
    assert common is not None
    assert [entry.video for entry in common.page] == [1, 2, 3, 4]  # as the pictures alone
    assert alone is not None
    assert [(entry.video, entry.confidence) for entry in alone.page] == [(6, None), (8, None)]


def test_a_line_that_ends_where_it_starts_is_a_moment_that_can_be_shown() -> None:
    lines = (TextMatch("subtitles", "a line", 2.0, 2.0), TextMatch("subtitles", "another", 5.0, 5.4))
    found = line_moments(VideoMatch(0, 0, lines), None)
    assert [(moment.start, moment.end) for moment in found] == [(2.0, 3.0), (5.0, 5.4)]


def test_fusion_counts_the_first_hundred_places() -> None:
    points = fuse_ranks({FRAMES: list(range(150)), TEXT: [149]})
    assert points[99] == pytest.approx(1 / 160)
    assert points[149] == pytest.approx(1 / 61)  # its place among the pictures counts nothing


def test_evidence_peaks_where_the_sentence_is(small: Library) -> None:
    sections = small.snapshot().tracks[FRAMES]
    request = EvidenceRequest(vectors(small, "two")[0], sections.by_video.of_video(2), sections.fusion_weight)
    (evidence,) = evidence_in_videos(sections, [request], small.scorer)
    assert evidence.spans[evidence.direct_peak].tolist() == [3.0, 4.0]
    assert len(evidence.direct) == 10


def test_the_steps_together_are_a_search(small: Library) -> None:
    snapshot, request = small.snapshot(), SearchRequest("three", limit=2)
    rows = {FRAMES: vectors(small, "three")}
    (queries,) = track_queries([request], rows, snapshot, {})
    sections = snapshot.tracks[FRAMES]
    scores = score_queries([queries[FRAMES]], sections, small.scorer)
    words = search_words([request], snapshot, lambda: small.store.words(snapshot))
    assert list(words[0]) == [3]  # the name and the tag of the third video
    ranked = rank_track([queries[FRAMES]], scores, sections, Knowledge())[0]
    (ranking,) = rank_requests([request], [{FRAMES: ranked}], words)
    assert ranking is not None
    (page,) = explain_pages([ranking], snapshot, small.scorer)
    assert page is not None
    assert page.more
    result = result_of(ranking, page, snapshot, Knowledge(), small.lines)
    whole = small.search_many([request])[0]
    assert result == replace(whole, seconds=0.0, hits=result.hits)
    assert [(hit.video, hit.start, hit.end, hit.score) for hit in result] == [
        (hit.video, hit.start, hit.end, hit.score) for hit in whole
    ]
    assert (result[0].video.name, result[0].start, result[0].end) == ("three.mp4", 3.0, 4.0)
