"""A library of a model with a witness: the best videos are ranked again, word by word, and nothing else changes."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from prvr.data.resample import normalise_rows
from prvr.files import write_checksums
from prvr.lake import copy_library, open_library
from prvr.library import FRAMES, Filters, IndexSettings, Library, SearchRequest, SearchResult
from prvr.library.ingest.witness import SentenceWords
from prvr.library.search import candidates
from prvr.library.store import shards
from prvr.library.store.rows import WITNESS_FRAMES
from prvr.library.store.sections import ShardSections
from prvr.library.store.shard_files import ShardFiles
from prvr.media.encoders import PlainEncoder
from prvr.media.features import video_features
from prvr.training import FittedWitness, Run, TraceModel, load_preset, load_run_witness
from prvr.worlds import RenderedWorld
from tests.library.conftest import RATE, SLOTS, add_witness, witness_run
from tests.library.ingest.test_trained import SENTENCES, seen_by_hand, windows
from tests.library.search.test_probabilities import with_calibration

WORDS, HUBS = 4.0, 0.5  # λ and μ of ``witness_run``


def model_of(library: Library) -> Run:
    return Run(next(library.folder.glob("model-*")))


def fitted_of(library: Library) -> FittedWitness:
    fitted = load_run_witness(model_of(library))
    assert fitted is not None
    return fitted


def by_hand(library: Library, sentence: str, path: Path) -> float:
    """Straight from the model: ``S − μ·h + λ·S_words`` of the window of a film with the best S."""
    run, fitted = model_of(library), fitted_of(library)
    backbone = run.load_model()[0].backbone
    words = torch.from_numpy(normalise_rows(PlainEncoder().encode_words(sentence)))[None]
    raw, found = video_features(path, PlainEncoder(), RATE).vectors, []
    with torch.no_grad():
        for first, last in windows(len(raw)):
            tokens, query, evidence = seen_by_hand(run, sentence, raw[first:last], clips=4)
            base = float(backbone.base_score(query, tokens) + 0.05 * evidence.score)
            frames = torch.from_numpy(normalise_rows(raw[first:last]))[None, None]
            masks = torch.ones(words.shape[:2]).bool(), torch.ones(frames.shape[:3]).bool()
            states, made = backbone.word_states(words, masks[0]), tokens.frames[None, :, : last - first]
            read = {
                "raw": (words, frames),
                "encoded": (states, made),
                "both": (torch.cat([states, words], -1), torch.cat([made, frames], -1)),
            }[fitted.inputs]
            hub = float(backbone.base_score(fitted.bank, tokens).topk(10, dim=0).values.mean())
            found.append(
                (base, base - HUBS * hub + WORDS * float(fitted.witness(read[0], masks[0], read[1], masks[1]).score))
            )
    return max(found)[1]


def scores(result: SearchResult) -> dict[str, float]:
    return {str(hit.video.path): hit.score for hit in result}


def copied(library: Library, place: Path) -> Library:
    shutil.copytree(library.folder, place)
    return Library.open(place)


def test_scores_are_those_of_the_base_and_of_the_words(trained: Library, witnessed: Library) -> None:
    for sentence in SENTENCES[:2]:
        plain, found = (scores(each.search(sentence, limit=100)) for each in (trained, witnessed))
        assert [*found] != [*plain]
        expected = {path: by_hand(witnessed, sentence, Path(path)) for path in found}
        lowest = min(expected.values()), min(plain.values())  # they stay above all videos that are not looked at again
        for path, score in found.items():
            assert score == pytest.approx(expected[path] - lowest[0] + lowest[1], abs=4e-3)  # frames are half floats


def test_only_the_best_videos_change_places(
    trained: Library, witnessed: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    track = witnessed.tracks[FRAMES].embedding
    assert track.witness is not None
    monkeypatch.setattr(track.witness, "fitted", replace(track.witness.fitted, candidates=5))
    for sentence in SENTENCES:
        before, after = ([*scores(each.search(sentence, limit=100))] for each in (trained, witnessed))
        assert {*before[:5]} == {*after[:5]}
        assert before[5:] == after[5:]
    with_filter = witnessed.search(SENTENCES[0], limit=100, filters=Filters(max_duration=20.0))
    assert {*scores(with_filter)} == {
        *scores(trained.search(SENTENCES[0], limit=100, filters=Filters(max_duration=20.0)))
    }


def test_pictures_and_neighbours_in_a_batch_are_as_before(trained: Library, witnessed: Library) -> None:
    picture = np.zeros((48, 48, 3), np.uint8)
    assert scores(witnessed.search(picture)) == scores(trained.search(picture))
    alone = [scores(witnessed.search(sentence)) for sentence in SENTENCES]
    asked = [SearchRequest(sentence) for sentence in SENTENCES]
    together = [scores(result) for result in witnessed.search_many([asked[0], SearchRequest(picture), *asked[1:]])]
    for one, other in zip(alone, [together[0], *together[2:]], strict=True):
        assert [*one] == [*other]
        assert [*one.values()] == pytest.approx([*other.values()], abs=1e-5)


def test_moments_come_in_the_order_of_their_videos(witnessed: Library) -> None:
    videos = {hit.video.id: hit.score for hit in witnessed.search(SENTENCES[0], limit=100)}
    moments = witnessed.search(SENTENCES[0], limit=100, group_by="moment")
    assert [hit.score for hit in moments] == sorted((hit.score for hit in moments), reverse=True)
    assert all(hit.score <= videos[hit.video.id] + 1e-6 for hit in moments)


def test_all_other_arrays_are_those_of_a_library_without(trained: Library, witnessed: Library) -> None:
    def files(library: Library) -> dict[str, bytes]:
        shards = library.folder / "shards"
        return {path.relative_to(shards).as_posix(): path.read_bytes() for path in sorted(shards.rglob("*.bin"))}

    plain, found = files(trained), files(witnessed)
    assert not any("witness" in name for name in plain)
    assert {name: data for name, data in found.items() if "witness" not in name} == plain
    assert {name for name in found if "witness" in name} == {"1/witness.frames.bin", "1/witness.facts.bin"}


@pytest.fixture
def large(witnessed: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    """The same library, read as a large one: what a witness keeps is read when it is needed."""
    monkeypatch.setattr(shards, "_SMALL_ROWS", 0)
    return copied(witnessed, tmp_path / "large")


def test_a_large_library_answers_the_same(witnessed: Library, large: Library) -> None:
    for sentence in SENTENCES:
        for group_by in ("video", "moment"):
            one, other = (
                each.search(sentence, limit=100, group_by=group_by).to_dict()["hits"] for each in (witnessed, large)
            )
            for hit in [*one, *other]:
                del hit["video"]
            assert one == other
    small, read = (each.snapshot().tracks[FRAMES] for each in (witnessed, large))
    for video in small.by_video.videos.tolist():
        for one, other in zip(small.sections_of(video), read.sections_of(video), strict=True):
            assert one.arrays.keys() == other.arrays.keys()
            assert all(np.array_equal(array, other.arrays[name]) for name, array in one.arrays.items())
    assert large.verify().ok


def test_of_a_large_library_only_the_frames_of_the_best_videos_are_read(
    large: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    track = large.tracks[FRAMES].embedding
    assert track.witness is not None
    monkeypatch.setattr(track.witness, "fitted", replace(track.witness.fitted, candidates=2))
    read, usual = [], ShardFiles.read

    def noting(files: ShardFiles, name: str, place: int, into: memoryview) -> None:
        read.append((name, len(into)))
        usual(files, name, place, into)

    large.search(SENTENCES[0], limit=1)
    monkeypatch.setattr(ShardFiles, "read", noting)
    (hit,) = large.search(SENTENCES[1], limit=1)
    sections = large.snapshot().tracks[FRAMES]
    size = (large.folder / "shards" / "1" / f"{WITNESS_FRAMES}.bin").stat().st_size
    most = 2 + 2 * len(sections.by_video.of_video(hit.video.id))  # the best two; the hit's words, and its checksum
    assert 0 < sum(size for name, size in read if name == WITNESS_FRAMES) <= most * size / len(sections)


def test_a_changed_bit_in_the_frames_of_a_hit_is_noticed_by_a_search(large: Library) -> None:
    best, *_ = large.search(SENTENCES[0], limit=100)
    sections = large.snapshot().tracks[FRAMES]
    assert isinstance(sections, ShardSections)
    (shard,), row = sections.shards, int(sections.row[sections.by_video.of_video(best.video.id)[0]])
    path = large.folder / "shards" / "1" / f"{WITNESS_FRAMES}.bin"
    data = bytearray(path.read_bytes())
    data[int(shard.first_page[row]) * shard.shard.about["arrays"][WITNESS_FRAMES]["item"]] ^= 1
    path.write_bytes(data)
    opened = Library.open(large.folder)
    left = {hit.video.id for hit in opened.search(SENTENCES[0], limit=100)}
    assert left == {video.id for video in large.videos()} - {best.video.id}
    assert opened.damage()


def test_frames_that_are_cut_during_a_search_leave_out_their_videos(large: Library) -> None:
    before = len(large.search(SENTENCES[0], limit=100))
    path = large.folder / "shards" / "1" / f"{WITNESS_FRAMES}.bin"
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)
    assert 0 < len(large.search(SENTENCES[0], limit=100)) < before


@pytest.mark.parametrize("part", ["shards/1/witness.frames.bin", "model-*/weights/witness/model.safetensors"])
def test_a_changed_bit_is_found(witnessed: Library, tmp_path: Path, part: str) -> None:
    library = copied(witnessed, tmp_path / "library")
    assert library.verify().ok
    (path,) = library.folder.glob(part)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)
    assert not library.verify().ok


def test_what_is_removed_is_compacted_away(witnessed: Library, tmp_path: Path) -> None:
    library = copied(witnessed, tmp_path / "library")
    size = (library.folder / "shards" / "1" / "witness.frames.bin").stat().st_size
    names = [video.path for video in library.videos()]
    before = library.search(SENTENCES[0], limit=100)[0].to_dict()["evidence"]["words"]
    best = library.search(SENTENCES[0])[0].video.path
    library.remove([name for name in names[:12] if name != best])
    again = library.search(SENTENCES[0], limit=100)
    assert {hit.video.path: hit for hit in again}[best].to_dict()["evidence"]["words"] == before
    assert sum(path.stat().st_size for path in library.folder.rglob("witness.frames.bin")) < size
    assert library.verify().ok


def test_without_its_arrays_or_its_model_a_library_answers_as_before(
    trained: Library, witnessed: Library, tmp_path: Path
) -> None:
    before = scores(trained.search(SENTENCES[0], limit=100))
    blind = copied(witnessed, tmp_path / "blind")
    shutil.rmtree(model_of(blind).path / "weights" / "witness")
    write_checksums(model_of(blind).path)
    assert scores(Library.open(blind.folder).search(SENTENCES[0], limit=100)) == before
    older = copied(trained, tmp_path / "older")
    assert "witness" not in (older.folder / "library.json").read_text("utf-8")
    shutil.copytree(model_of(witnessed).path / "weights" / "witness", model_of(older).path / "weights" / "witness")
    assert scores(Library.open(older.folder).search(SENTENCES[0], limit=100)) == before


@pytest.mark.parametrize("inputs", ["encoded", "both"])
def test_a_witness_may_read_what_the_base_made_of_the_features(
    inputs: str, films: RenderedWorld, data: Path, tmp_path: Path
) -> None:
    run = witness_run(tmp_path / "run", data, inputs)
    library = Library.create(tmp_path / "library", model=run.path, storage="fp32")
    library.add(sorted(films.videos.values())[:4])
    found = scores(library.search(SENTENCES[0], limit=100))
    assert len(found) == 4
    by_file = {path: by_hand(library, SENTENCES[0], Path(path)) for path in found}
    above = max(by_file.values())
    for path, score in found.items():
        assert score - max(found.values()) == pytest.approx(by_file[path] - above, abs=8e-3)  # frames are half floats


def test_every_frame_is_kept_where_tokens_are_clips(data: Path, films: RenderedWorld, tmp_path: Path) -> None:
    clips, rendered = load_preset("synth", "gmmformer"), load_preset("rendered")
    model = replace(clips.model, frames=SLOTS, clips=4, width=32)
    model = replace(model, visual_width=rendered.model.visual_width, query_width=rendered.model.query_width)
    run = Run(tmp_path / "run")
    run.create(replace(clips, model=model, data=rendered.data), data)
    weights = TraceModel.from_config(run.config).state_dict()
    run.save_weights(run.config.selection, weights, epochs=[0], fusion_weight=0.05)
    add_witness(run)
    library = Library.create(tmp_path / "library", model=run.path)
    library.add([films.videos["test0000"], films.videos["test0001"]])
    assert library.verify().ok
    for hit in library.search(SENTENCES[0]):
        shown = hit.to_dict()["evidence"]
        assert len(shown["words"]["spans"]) > len(shown["spans"])
        sections = library.snapshot().tracks[FRAMES]
        kept = [
            block.witness_of(row)
            for _, block, rows in sections.blocks(np.array(sections.by_video.of_video(hit.video.id)))
            for row in rows.tolist()
        ]
        counts = [len(each[0]) for each in kept if each is not None]
        assert counts == [last - first for first, last in windows(hit.video.frames or 0)]


def test_a_lake_answers_the_same(witnessed: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("lance", reason='a lake needs Lance: pip install "prvr[scale]"')
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    address = str(tmp_path / "library.lance")
    copy_library(witnessed.address, address)
    lake = open_library(address)
    for group_by in ("video", "moment"):
        one, other = (
            each.search(SENTENCES[0], limit=100, group_by=group_by).to_dict()["hits"] for each in (witnessed, lake)
        )
        for hit in [*one, *other]:
            del hit["video"]
        assert one == other
    assert lake.verify().ok


def test_candidates_are_ranked_as_in_exact_search(
    witnessed: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("lance", reason='candidates need Lance: pip install "prvr[candidates]"')
    monkeypatch.setattr(candidates, "FEWEST_TOKENS", 10)
    library = copied(witnessed, tmp_path / "library")
    library.index(IndexSettings(videos=100))
    for sentence in SENTENCES:
        exact, near = (library.search(sentence, limit=100, approximate=each) for each in (False, True))
        assert [*scores(exact)] == [*scores(near)]
        assert [*scores(exact).values()] == pytest.approx([*scores(near).values()], abs=1e-4)


def test_probabilities_are_those_without_a_witness(run: Run, films: RenderedWorld, data: Path, tmp_path: Path) -> None:
    """They were fitted without one. So they need not fall along the hits."""
    results, names = [], sorted(films.videos.values())[:8]
    for name, made in {"plain": run, "witness": witness_run(tmp_path / "made", data)}.items():
        known = frozenset(SENTENCES[0].split())
        library = Library.create(tmp_path / name, model=with_calibration(made, tmp_path / f"run-{name}", known).path)
        library.add(names)
        results.append((library, library.search(SENTENCES[0], limit=100)))
    (_, plain), (library, found) = results
    assert [hit.video.name for hit in plain] != [hit.video.name for hit in found]
    assert found.presence == plain.presence
    probabilities = {hit.video.name: hit.confidence for hit in plain}
    assert {hit.video.name: hit.confidence for hit in found} == pytest.approx(probabilities, abs=1e-5)
    least = sorted(probabilities.values(), reverse=True)[2] or 0.0
    some = library.search(SENTENCES[0], limit=100, min_confidence=least - 1e-4)
    assert [hit.video.name for hit in some] == [
        hit.video.name for hit in found if (hit.confidence or 0.0) >= least - 1e-4
    ]
    assert len(some) == 3


def test_words_are_shown_over_time(witnessed: Library, trained: Library) -> None:
    (hit,) = witnessed.search(SENTENCES[0], limit=1)
    shown: dict[str, Any] = hit.to_dict()["evidence"]["words"]
    assert [word["word"] for word in shown["words"]] == SENTENCES[0].split()
    assert sum(word["weight"] for word in shown["words"]) == pytest.approx(1.0, abs=1e-3)
    assert shown["spans"] == [[start, end] for start, end in hit.to_dict()["evidence"]["spans"]]
    assert all(len(word["evidence"]) == len(shown["spans"]) for word in shown["words"])
    said: SentenceWords = witnessed.tracks[FRAMES].embedding.words_of([SENTENCES[0]])[SENTENCES[0]]
    frames = [
        block.witness_of(int(row))
        for _, block, rows in witnessed.snapshot()
        .tracks[FRAMES]
        .blocks(np.array(witnessed.snapshot().tracks[FRAMES].by_video.of_video(hit.video.id)[:1]))
        for row in rows
    ]
    assert frames[0] is not None
    seen = said.seen_in([frames[0][0]])
    for word, curve in zip(shown["words"], seen.evidence[0], strict=True):
        assert word["evidence"][: len(curve) - 2] == pytest.approx(curve[:-2], abs=1e-3)  # the last two are shared
    explained = witnessed.explain(SENTENCES[0], hit.video.id).evidence
    assert explained.to_dict()["words"] == shown
    assert "words" not in trained.search(SENTENCES[0], limit=1)[0].to_dict()["evidence"]
    assert "words" not in witnessed.explain(np.zeros((48, 48, 3), np.uint8), hit.video.id).evidence.to_dict()
