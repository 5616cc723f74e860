"""Asking by a moment or a picture instead of a sentence."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from prvr.library import FRAMES, Filters, IndexSettings, Library, LibraryError, MomentQuery, SearchRequest, split_moment
from prvr.library.search import candidates
from prvr.library.search.query import moment_vector
from prvr.library.search.score import score_sections
from prvr.media import Image, open_video, unit_rows
from prvr.worlds import RenderedWorld
from tests.library.search.test_probabilities import calibrated  # noqa: F401


def still(path: Path, second: int = 2) -> Image:
    with open_video(path) as video:
        return [frame.image for frame in video.frames(1.0)][second]


def number(library: Library, name: str) -> int:
    return next(video.id for video in library.videos() if video.name == f"{name}.mp4")


def test_a_moment_asks_with_the_mean_of_its_tokens(whole: Library) -> None:
    snapshot, video = whole.snapshot(), number(whole, "test0003")
    sections = snapshot.tracks[FRAMES]
    spans, tokens = sections.tokens_of_video(video)
    assert spans[:2].tolist() == [[0.0, 2.0], [1.0, 3.0]]  # windows of two seconds
    one = moment_vector(MomentQuery(video, 0.25), snapshot)
    assert one == pytest.approx(unit_rows(tokens[0]))
    # 0.5 to 2 s: 1.5 s of the first window, 1 s of the second
    several = unit_rows(1.5 * tokens[0] + 1.0 * tokens[1])
    assert moment_vector(MomentQuery(video, 0.5, 2.0), snapshot) == pytest.approx(several, abs=1e-6)


def test_what_is_most_alike_comes_first_and_the_video_itself_is_left_out(whole: Library) -> None:
    video = number(whole, "test0003")
    query = MomentQuery(video, 1.0, 3.0)
    found = whole.search(query, limit=100)
    snapshot = whole.snapshot()
    sections = snapshot.tracks[FRAMES]
    scores = score_sections(moment_vector(query, snapshot)[None], sections, whole.scorer).fused(sections.fusion_weight)[
        0
    ]
    expected = {int(owner): float(score) for owner, score in zip(sections.owners, scores, strict=True)}
    assert expected.pop(video) == max(expected.values(), default=0) or video not in expected
    assert {hit.video.id: hit.score for hit in found} == pytest.approx(expected, abs=1e-5)
    assert found[0].video.id == max(expected, key=expected.__getitem__)
    assert found.query == f"video {video} at 1–3 s"


def test_nothing_is_said_that_is_known_of_sentences_only(whole: Library, calibrated: Library) -> None:  # noqa: F811
    for library in (whole, calibrated):
        image = still(Path(str(library.videos()[0].path)))
        for query in (MomentQuery(1, 0.5, 2.0), image):
            found = library.search(query)
            assert len(found) > 0
            assert (found.presence.word, found.presence.probability, found.understood, found.message) == (
                None, None, None, "",
            )  # fmt: skip
            assert {(hit.confidence, hit.verdict) for hit in found} == {(None, None)}
            with pytest.raises(LibraryError, match="for sentences only"):
                library.search(query, min_confidence=0.5)


def test_moments_pictures_and_sentences_share_a_pass(whole: Library, films: RenderedWorld) -> None:
    queries = ["a red square moves left", MomentQuery(2, 1.0, 2.0), still(films.videos["val0001"]), "something blue"]
    together = whole.search_many([SearchRequest(query, limit=4) for query in queries])
    for query, found in zip(queries, together, strict=True):
        alone = whole.search(query, limit=4)
        assert [hit.video.id for hit in found] == [hit.video.id for hit in alone]
        assert (found.presence, found.understood) == (alone.presence, alone.understood)


def test_copies_are_left_out_and_filters_hold(library: Library, own: Path) -> None:
    paths = sorted(own.iterdir())
    shutil.copy2(paths[0], own / "copy.mp4")
    library.add([own], tags=["some"])
    query = MomentQuery(number(library, paths[0].stem), 1.0, 3.0)
    found = library.search(query, limit=50)
    assert sorted(hit.video.name for hit in found) == sorted(path.name for path in paths[1:])
    assert [hit.video.name for hit in library.search(query, group_by="moment", limit=1)] == [found[0].video.name]
    assert len(library.search(query, filters=Filters(tags=("none",)))) == 0
    library.remove(paths[1:])
    assert library.search(query).message == "No other video in the library can be searched."


def test_candidates_answer_a_moment(whole: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("lance", reason='needs Lance: pip install "prvr[candidates]"')
    monkeypatch.setattr(candidates, "FEWEST_TOKENS", 10)
    shutil.copytree(whole.folder, tmp_path / "library")
    library = Library.open(tmp_path / "library")
    library.index(IndexSettings(videos=4))
    query = MomentQuery(number(library, "test0003"), 1.0, 3.0)
    exact, found = (library.search(query, limit=1, approximate=way) for way in (False, True))
    assert (found[0].video.id, found[0].score) == (exact[0].video.id, pytest.approx(exact[0].score))
    assert all(hit.video.id != query.video for hit in library.search(query, limit=50, approximate=True))


def test_a_trained_model_answers_moments_and_pictures(trained: Library, films: RenderedWorld) -> None:
    query = MomentQuery(number(trained, "test0001"), 1.0, 3.0)
    found = trained.search(query, limit=100)
    assert len(found) == len(films.videos) - 1
    itself = trained.explain(query, query.video).evidence
    start, end = itself.spans[itself.direct_peak]
    assert start < 3.0
    assert end > 1.0  # the moment is most like itself
    path = films.videos["val0001"]
    vector = trained.encode(FRAMES, [still(path)])[0]
    assert float(np.linalg.norm(vector)) == pytest.approx(1, abs=1e-5)
    assert len(trained.search(still(path), limit=100)) == len(films.videos)


def test_evidence_explains_a_moment(whole: Library) -> None:
    query = MomentQuery(2, 1.0, 2.0)
    hit = whole.search(query, limit=1)[0]
    found = whole.explain(query, hit.video.id)
    assert found.evidence.direct == pytest.approx(np.asarray(hit.evidence.direct), abs=1e-5)
    assert found.why.startswith("The moment is closest to")
    assert found.verdict is None


def test_a_moment_that_does_not_exist_is_one_sentence(whole: Library) -> None:
    for start, end in ((-1.0, 2.0), (3.0, 2.0), (0.0, float("inf")), (float("nan"), None)):
        with pytest.raises(LibraryError, match="a moment needs"):
            MomentQuery(1, start, end)
    with pytest.raises(LibraryError, match="there is no video 999"):
        whole.search(MomentQuery(999, 0.0))
    with pytest.raises(LibraryError, match=r"ends after .* there is nothing at 5000 s"):
        whole.search(MomentQuery(1, 5000.0))


def test_moments_are_written_as_people_write_them() -> None:
    assert split_moment("me@home.mp4@1:02:03.5–1:02:09") == ("me@home.mp4", 3723.5, 3729.0)
    assert split_moment(MomentQuery(7, 12.5, 18.25).address) == ("7", 12.5, 18.25)
    for text in ("film.mp4", "film.mp4@", "film.mp4@soon", "@3", "film.mp4@1.2.3", "film.mp4@-3"):
        with pytest.raises(LibraryError, match="names no moment"):
            split_moment(text)
