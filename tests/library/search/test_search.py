"""Searching: exact, in pages, filtered, by moment or video, by picture, with subtitles."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from prvr.backbones import build
from prvr.library import BACKGROUND_SENTENCES, Filters, Library, LibraryError, MomentOptions, SearchRequest
from prvr.media import Understanding
from prvr.media.encoders import PlainEncoder, TextEncoder
from prvr.media.encoders.base import Array, unit_rows
from prvr.media.features import video_features
from prvr.media.pictures import save_picture
from prvr.media.reader import open_video
from prvr.trace import trace_evidence
from prvr.worlds import RenderedWorld

RATE = 2.0


@cache
def features(path: Path) -> torch.Tensor:
    """A film's vectors (1, M, D); it is decoded once for all tests."""
    return torch.from_numpy(video_features(path, PlainEncoder(), RATE).vectors)[None]


def brute_force(films: RenderedWorld, sentence: str, local: str, weight: float) -> dict[str, float]:
    """Straight from the equations, in full floats, one film at a time."""
    encoder = PlainEncoder()
    queries = torch.from_numpy(encoder.encode_texts([sentence, *BACKGROUND_SENTENCES]))
    queries = queries[queries.any(1)]  # that it understands
    backbone = build("frozen", visual_width=encoder.width, query_width=encoder.width, local=local, window=4, stride=2)
    found = {}
    for path in films.videos.values():
        vectors = features(path)
        tokens = backbone.encode_videos(vectors, torch.ones(vectors.shape[:2]), vectors[:, :0])
        assert tokens.registers is not None
        evidence = trace_evidence(queries, tokens.registers, tokens.frames, tokens.frame_mask)
        own, *others = (backbone.base_score(queries, tokens) + weight * evidence.score)[:, 0].tolist()
        found[path.name] = own - 0.25 * 0.1 * float(np.log(np.mean(np.exp(np.array(others) / 0.1))))
    return found


@pytest.mark.parametrize(
    ("local", "trace"), [("windows", True), ("windows", False), ("frames", True), ("moments", True)]
)
def test_scores_equal_brute_force(films: RenderedWorld, tmp_path: Path, local: str, trace: bool) -> None:
    settings = {"rate": RATE, "local": local, "storage": "fp32", "repeats": 0.0}
    lib = Library.create(tmp_path / "library", encoder="plain", **settings)
    lib.add([films.folder])
    for query in films.queries["test"][:4]:
        expected = brute_force(films, query.sentence, local, 0.03 if trace else 0.0)
        hits = lib.search(query.sentence, limit=100, trace=trace)
        assert {h.video.name: h.score for h in hits} == pytest.approx(expected, abs=1e-5)
        order = sorted(expected, key=lambda name: -expected[name])
        gaps = np.diff([expected[name] for name in order])
        for place in range(5):
            if gaps[place] < -1e-5 and (place == 0 or gaps[place - 1] < -1e-5):
                assert hits[place].video.name == order[place]


def test_half_floats_stay_close_to_brute_force(whole: Library, films: RenderedWorld) -> None:
    sentence = films.queries["test"][0].sentence
    expected = brute_force(films, sentence, "windows", 0.03)
    assert {h.video.name: h.score for h in whole.search(sentence, limit=100)} == pytest.approx(expected, abs=2e-3)


def test_pages_are_cut_from_one_list(whole: Library) -> None:
    for group_by in ("video", "moment"):
        everything = whole.search("a red square", limit=100, group_by=group_by)  # type: ignore[arg-type]
        assert everything.next_offset is None
        pages, offset = [], 0
        while offset is not None:
            page = whole.search("a red square", limit=5, offset=offset, group_by=group_by)  # type: ignore[arg-type]
            pages += [(h.video.id, h.start, h.score) for h in page]
            offset = page.next_offset  # type: ignore[assignment]
        assert pages == [(h.video.id, h.start, h.score) for h in everything]
        scores = [h.score for h in everything]
        assert scores == sorted(scores, reverse=True)


def test_moments_of_one_video_stand_apart(films: RenderedWorld, tmp_path: Path) -> None:
    whole = Library.create(tmp_path / "library", encoder="plain", rate=RATE, local="frames")
    whole.add([films.folder])
    hits = whole.search("a red square", limit=500, group_by="moment", moments=MomentOptions(other=0.3, merge=0))
    videos = [h.video.id for h in hits]
    assert len(set(videos)) == 16
    assert len(videos) > 16
    by_video = {h.video.id: h for h in whole.search("a red square", limit=100)}
    for hit in hits:
        assert 0 <= hit.start < hit.end <= (hit.video.duration or 0) + 1e-6
        assert hit.score <= by_video[hit.video.id].score + 1e-6


def test_several_queries_in_one_pass_equal_one_at_a_time(whole: Library, films: RenderedWorld) -> None:
    sentences = [query.sentence for query in films.queries["test"]]
    together = whole.search_many([SearchRequest(sentence, limit=3) for sentence in sentences])
    for sentence, found in zip(sentences, together, strict=True):
        alone = whole.search(sentence, limit=3)
        assert [h.score for h in found] == pytest.approx([h.score for h in alone], abs=1e-3)


def test_filters(whole: Library, films: RenderedWorld, own: Path, library: Library) -> None:
    paths = sorted(own.iterdir())
    (own / "sub").mkdir()
    paths[0] = paths[0].rename(own / "sub" / paths[0].name)
    for day, path in enumerate(paths):
        os.utime(path, (0, 86400 * (365 + day) + 43200))  # noon of 1971-01-01, 02, …
    library.add([own / "sub"], tags=["home", "dog"])
    library.add([own], tags=["home"])

    def names(**given: object) -> set[str]:
        return {h.video.name for h in library.search("a red square", limit=50, filters=Filters(**given))}  # type: ignore[arg-type]

    assert len(names()) == 6
    assert names(folder=own / "sub") == {paths[0].name}
    assert names(after="1971-01-04") == {p.name for p in paths[3:]}
    assert names(after="1971-01-02", before="1971-01-04") == {p.name for p in paths[1:3]}
    lengths = {video.name: video.duration or 0 for video in library.videos()}
    middle = sorted(lengths.values())[3]
    assert names(min_duration=middle) == {name for name, length in lengths.items() if length >= middle}
    assert names(max_duration=middle) == {name for name, length in lengths.items() if length <= middle}
    assert names(tags=("home",)) == names()
    assert names(tags=("home", "dog")) == {paths[0].name}
    assert (
        library.search("red", filters=Filters(tags=("cat",))).message == "No video in the library passes the filters."
    )
    with pytest.raises(LibraryError, match="is not a date"):
        names(after="yesterday")


def test_a_library_without_a_calibrated_model_answers_in_words(whole: Library) -> None:
    found = whole.search("a red square moves to the left", limit=100)
    assert found.presence.word in ("stands out", "maybe", "nothing stands out")
    assert found.presence.probability is None
    assert all(hit.confidence is None and hit.verdict is None for hit in found)
    with pytest.raises(LibraryError, match="no probabilities"):
        whole.search("a red square moves to the left", min_confidence=0.5)


def test_what_a_search_says_of_itself_does_not_depend_on_filters_pages_or_neighbours(whole: Library) -> None:
    sentence = "a red square moves to the left"
    alone = whole.search(sentence).presence
    assert whole.search(sentence, filters=Filters(max_duration=10)).presence == alone
    assert whole.search(sentence, limit=2, offset=4).presence == alone
    mates = [SearchRequest(text) for text in ("something blue falls", sentence, "a yellow ring")]
    assert whole.search_many(mates)[1].presence == alone


def test_what_stands_out_must_be_shown_first(whole: Library, tmp_path: Path) -> None:
    sentence = "a red square moves left"
    found = whole.search(sentence)
    assert found.presence.word == "stands out"
    best = found[0].video
    assert best.duration is not None
    shorter = whole.search(sentence, filters=Filters(max_duration=best.duration - 0.01))
    assert best not in [hit.video for hit in shorter]
    assert shorter.presence.word == "maybe"
    assert not shorter.confident
    tagged = Library.open(shutil.copytree(whole.folder, tmp_path / "tagged"))
    other = next(video for video in tagged.videos() if video.id != best.id)
    tagged.change_tags(other.id, add=[sentence])
    by_words = tagged.search(sentence)
    assert by_words[0].video.id == other.id
    assert by_words.presence.word == "maybe"


def test_words_that_are_ignored_are_named_and_nothing_is_sure(whole: Library) -> None:
    found = whole.search("grandma opens the red door")
    assert found.understood == Understanding(("red",), ("grandma", "opens", "door"))
    assert not found.confident
    assert "ignored" in found.message
    assert [hit.video for hit in found] == [hit.video for hit in whole.search("red")]


def test_nothing_stands_out_is_said_and_the_nearest_are_shown(whole: Library) -> None:
    found = whole.search("a white square")
    assert not found.confident
    assert found.message.startswith("Nothing stands out")
    assert len(found) == 10
    nothing = whole.search("xyzzy plugh")
    assert len(nothing) == 0
    assert nothing.understood == Understanding((), ("xyzzy", "plugh"))
    assert "reindex --encoder" in nothing.message  # what to do


def test_evidence_curves_explain_the_score(whole: Library) -> None:
    hit = whole.search("a red square moves to the left", limit=1)[0]
    e = hit.evidence
    assert len(e.spans) == len(e.direct) == len(e.expected_support) == len(e.routed)
    assert float(e.activation.sum()) == pytest.approx(1, abs=1e-4)
    assert hit.start <= e.spans[e.routed_peak, 0]
    assert hit.end >= min(e.spans[e.routed_peak, 1], hit.video.duration or 0) - 1e-6
    assert hit.score == pytest.approx(e.value.max(), abs=2e-3)
    assert hit.score < e.direct.max()  # a part of what the video scores with everybody was taken off
    assert json.loads(json.dumps(hit.to_dict()))["evidence"]["direct_peak"] == e.direct_peak


def test_a_picture_finds_its_film(whole: Library, films: RenderedWorld, tmp_path: Path) -> None:
    path = films.videos["val0001"]
    with open_video(path) as video:
        image = [frame.image for frame in video.frames(1.0)][2]
    assert whole.search(image)[0].video.path == path
    assert whole.search(save_picture(tmp_path / "still.png", image))[0].video.path == path


class Words(TextEncoder):
    """Sentences as sets of words: enough to find a line."""

    name, width, word_width = "words", 64, 64

    def encode_texts(self, texts: Sequence[str]) -> Array:
        rows = np.zeros((len(texts), self.width), np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in text.lower().split():
                row[sum(map(ord, word)) % self.width] += 1
        return unit_rows(rows)

    def encode_words(self, text: str) -> Array:
        return self.encode_texts(text.split() or [""])


def test_subtitles_are_a_second_track_fused_by_rank(own: Path, tmp_path: Path) -> None:
    lines = "1\n00:00:01,000 --> 00:00:02,000\nnobody expected\n\n2\n00:00:04,000 --> 00:00:05,500\nthe purple parrot\n"
    (own / "test0003.srt").write_text(lines)
    lib = Library.create(tmp_path / "spoken", text_encoder=Words(), encoder="plain", rate=RATE)
    lib.add([own])
    assert lib.status().lines == 2
    hit = lib.search("the purple parrot")[0]
    assert (hit.video.name, hit.track, hit.line) == ("test0003.mp4", "text", "the purple parrot")
    assert (hit.start, hit.end) == (4.0, 5.5)
    assert hit.ranks["text"] == 1
    assert hit.ranks["words"] == 1
    assert hit.score == pytest.approx(1 / (60 + hit.ranks["frames"]) + 2 / 61)
    only = lib.search("nobody expected")  # words that the picture encoder does not know
    assert [(h.video.name, h.line) for h in only] == [("test0003.mp4", "nobody expected")]
    (own / "test0001.srt").write_text(lines.replace("parrot", "ferret"))
    assert [p.name for p in lib.add([own]).added] == ["test0001.mp4"]
    assert {h.video.name: h.ranks.get("text") for h in lib.search("the purple ferret")}["test0001.mp4"] == 1
    assert lib.verify().ok


def test_moments_of_fused_tracks_stand_in_order_of_their_own_places(own: Path, tmp_path: Path) -> None:
    (own / "test0003.srt").write_text(
        "1\n00:00:01,000 --> 00:00:02,000\na red line\n\n2\n00:00:05,000 --> 00:00:06,000\na red line again\n"
    )
    lib = Library.create(tmp_path / "spoken", text_encoder=Words(), encoder="plain", rate=RATE)
    lib.add([own])
    everything = MomentOptions(other=0.3, merge=0)
    hits = lib.search("a red line", group_by="moment", limit=50, moments=everything)
    assert {h.video.name for h in hits} == {p.name for p in own.glob("*.mp4")}
    assert [h.score for h in hits] == sorted((h.score for h in hits), reverse=True)
    said = [h for h in hits if h.line]
    assert said[0].line == "a red line"
    assert 2 / 61 <= said[0].score <= 3 / 61  # the line by its words and by its meaning, and perhaps the pictures
    for one, hit in enumerate(hits):  # no moment is told twice
        for other in hits[one + 1 :]:
            if other.video.id == hit.video.id and (other.track, other.line is None) != (hit.track, hit.line is None):
                assert other.end <= hit.start or hit.end <= other.start


def test_lines_that_have_nothing_to_do_with_a_query_do_not_vote(own: Path, tmp_path: Path) -> None:
    for number, said in enumerate(("grammar lesson", "quarterly figures", "weather report")):
        (own / f"test000{number}.srt").write_text(f"1\n00:00:01,000 --> 00:00:02,000\n{said}\n")
    lib = Library.create(tmp_path / "spoken", text_encoder=Words(), encoder="plain", rate=RATE)
    lib.add([own])
    frames = Library.create(tmp_path / "silent", encoder="plain", rate=RATE)
    frames.add([own])
    query = "a red square moves to the left"
    assert [h.video.name for h in lib.search(query)] == [h.video.name for h in frames.search(query)]
    assert {h.track for h in lib.search(query)} == {"frames"}
    assert lib.search("weather report")[0].line == "weather report"


def test_options_that_make_no_sense_are_refused() -> None:
    for given in ({"limit": 0}, {"offset": -1}, {"min_confidence": 2.0}):
        with pytest.raises(LibraryError):
            SearchRequest("red", **given)  # type: ignore[arg-type]
    for given in ({"keep": 0.0}, {"most": 0}, {"pad": -1.0}):
        with pytest.raises(LibraryError):
            MomentOptions(**given)  # type: ignore[arg-type]


def test_a_sentence_of_absurd_length_is_refused() -> None:
    with pytest.raises(LibraryError, match="at most 2,000 characters, not 120,000"):
        SearchRequest("red " * 30_000)
