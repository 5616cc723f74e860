"""A library of a trained run's vectors: exact, cut into windows, and refused where the run does not fit."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from prvr.cli import main as prvr
from prvr.data.resample import normalise_rows, sample_clips
from prvr.library import Library, LibraryError, Presence
from prvr.media.encoders import PlainEncoder
from prvr.media.features import video_features
from prvr.media.recipe import RecipeMismatch
from prvr.tokens import Evidence, VideoTokens
from prvr.training import Run
from prvr.worlds import RenderedWorld
from tests.library.conftest import RATE, SLOTS, fresh_run

SENTENCES = ("a red square moves to the left", "then a green ring at night", "something blue falls")


def windows(frames: int) -> list[tuple[int, int]]:
    """Where a film of so many frames is cut: eight at a time, two of them shared."""
    found = [(0, min(frames, SLOTS))]
    while found[-1][1] < frames:
        found.append((found[-1][0] + 6, min(frames, found[-1][0] + 6 + SLOTS)))
    return found


def seen_by_hand(run: Run, sentence: str, part: np.ndarray, clips: int) -> tuple[VideoTokens, torch.Tensor, Evidence]:
    """Straight from the model: tokens, query and evidence of one window."""
    model, _ = run.load_model()
    words = torch.from_numpy(normalise_rows(PlainEncoder().encode_words(sentence)))[None]
    frames, parts = (torch.from_numpy(normalise_rows(rows))[None] for rows in (part, sample_clips(part, clips)))
    with torch.no_grad():
        query = model.backbone.encode_queries(words, torch.ones(words.shape[:2]))
        tokens = model.backbone.encode_videos(frames, torch.ones(1, len(part)), parts)
        return tokens, query, model.trace.evidence(query, tokens)


@pytest.mark.parametrize("trace", [True, False])
def test_scores_are_those_of_the_best_window(films: RenderedWorld, run: Run, trained: Library, trace: bool) -> None:
    backbone = run.load_model()[0].backbone
    for sentence in SENTENCES[:2]:
        hits = {hit.video.path: hit for hit in trained.search(sentence, limit=100, trace=trace)}
        assert len(hits) == len(films.videos)
        for path in list(films.videos.values())[:4]:
            raw, expected = video_features(path, PlainEncoder(), RATE).vectors, -np.inf
            for first, last in windows(len(raw)):
                tokens, query, evidence = seen_by_hand(run, sentence, raw[first:last], clips=4)
                score = backbone.base_score(query, tokens) + (0.05 if trace else 0.0) * evidence.score
                expected = max(expected, float(score))
            assert hits[path].score == pytest.approx(expected, abs=1e-4)
            assert hits[path].evidence.value.max() < expected + 1e-4  # both parts may peak at different frames


def test_curves_are_the_model_s_own(films: RenderedWorld, data: Path, tmp_path: Path) -> None:
    wide = fresh_run(tmp_path / "run", data, frames=32)  # a window holds a whole film
    lib = Library.create(tmp_path / "library", model=wide.path, storage="fp32")
    path = films.videos["test0000"]
    lib.add([path])
    (hit,) = lib.search(SENTENCES[0])
    raw = video_features(path, PlainEncoder(), RATE).vectors
    _, _, evidence = seen_by_hand(wide, SENTENCES[0], raw, clips=4)
    for name, curve in {
        "direct": evidence.direct,
        "routed": evidence.routed,
        "expected_support": evidence.expected_support,
    }.items():
        assert getattr(hit.evidence, name) == pytest.approx(curve[0, 0, : len(raw)].numpy(), abs=1e-4)
    assert hit.evidence.activation == pytest.approx(evidence.activation[0, 0].numpy(), abs=1e-4)


def test_each_second_is_told_once_and_moments_lie_in_the_video(trained: Library) -> None:
    for hit in trained.search(SENTENCES[0], limit=100):
        spans = hit.evidence.spans
        assert len(spans) == hit.video.frames
        assert (np.diff(spans[:, 0]) > 0).all()
        assert spans[0, 0] == 0
        assert 0 <= hit.start < hit.end <= (hit.video.duration or 0) + 1e-6
    assert trained.verify().ok


def test_a_library_is_whole_without_its_run(trained: Library, run: Run, data: Path, tmp_path: Path) -> None:
    before = [(h.video.name, h.score) for h in trained.search(SENTENCES[0], limit=3)]
    alone = fresh_run(tmp_path / "run", data)  # the same weights
    lib = Library.create(tmp_path / "library", model=alone.path, storage="fp32")
    shutil.rmtree(alone.path)
    lib.add([hit.video.path for hit in trained.search(SENTENCES[0], limit=3)])
    again = Library.open(lib.folder)
    found = [(h.video.name, h.score) for h in again.search(SENTENCES[0])]
    assert [name for name, _ in found] == [name for name, _ in before]
    assert [score for _, score in found] == pytest.approx([score for _, score in before], abs=1e-4)
    (next(lib.folder.glob("model-*")) / "weights" / "average" / "model.safetensors").unlink()
    assert any("is missing" in problem for problem in lib.verify().problems)


def test_encoder_and_rate_come_from_the_run(trained: Library) -> None:
    assert (trained.settings.rate, trained.settings.encoder) == (RATE, PlainEncoder.name)
    assert json.loads((trained.folder / "library.json").read_text())["format"] == 2


def test_a_picture_is_asked_for_without_probabilities(trained: Library) -> None:
    found = trained.search(np.zeros((48, 48, 3), np.uint8))
    assert found.hits
    assert found.presence == Presence()
    assert all(hit.confidence is None for hit in found)
    assert "understands nothing" in trained.search("…").message


def test_runs_that_do_not_fit_are_refused(run: Run, data: Path, tmp_path: Path) -> None:
    for rate in (4.0, 1.0):  # 1 is the usual one
        with pytest.raises(LibraryError, match=rf"trained on 2 frames per second, not {rate:g}: leave --rate out"):
            Library.create(tmp_path / "library", model=run.path, rate=rate)
    with pytest.raises(LibraryError, match="leave out --local"):
        Library.create(tmp_path / "library", model=run.path, local="frames")

    class Other(PlainEncoder):
        name = "plain-9"

    with pytest.raises(RecipeMismatch, match=r"differ in encoder(.|\n)*run +encoder"):
        Library.create(tmp_path / "library", model=run.path, encoder=Other())
    unknown = tmp_path / "data"
    shutil.copytree(data, unknown)
    for path in unknown.rglob("recipe.json"):
        path.unlink()
    with pytest.raises(LibraryError, match=r"does not know how its features were made.*`prvr data make`"):
        Library.create(tmp_path / "library", model=fresh_run(tmp_path / "unknown", unknown).path)
    assert not (tmp_path / "library").exists()


def test_the_command_line_refuses_another_model(
    trained: Library, run: Run, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    film, place = str(trained.videos()[0].path), str(tmp_path / "library")
    assert prvr(["library", "add", film, "--library", place, "--model", str(run.path)]) == 0
    assert prvr(["library", "add", film, "--library", place, "--model", str(run.path)]) == 0  # the same again
    assert prvr(["library", "add", film, "--library", place]) == 0
    other = fresh_run(tmp_path / "other", data, seed=1)
    assert prvr(["library", "add", film, "--library", place, "--model", str(other.path)]) == 1
    assert "was created with the dreamprvr of" in capsys.readouterr().err
    assert prvr(["library", "add", film, "--library", place, "--model", str(tmp_path)]) == 1
    assert "is not a run" in capsys.readouterr().err
    assert prvr(["library", "status", "--library", place]) == 0
    assert "model dreamprvr, average weights of" in capsys.readouterr().out
    assert prvr(["search", SENTENCES[0], "--library", place]) == 0


def test_settings_that_the_model_fixes_are_not_advised_to_be_changed(
    trained: Library, capsys: pytest.CaptureFixture[str]
) -> None:
    film, place = str(trained.videos()[0].path), str(trained.folder)
    for words, expected in (
        (["--encoder", "siglip2"], "encoder plain, not siglip2: its trained dreamprvr fixes encoder and rate"),
        (["--rate", "5"], "rate 2.0, not 5.0: its trained dreamprvr fixes encoder and rate"),
        (["--repeats", "9"], "repeats 2.0, not 9.0: leave --repeats out, or create another library"),
    ):
        assert prvr(["library", "add", film, "--library", place, *words]) == 1
        text = " ".join(capsys.readouterr().err.split())
        assert expected in text
        assert "or create another library" in text
        assert "reindex" not in text


@pytest.mark.parametrize("name", PlainEncoder.names)
def test_plain_is_the_encoder_that_its_numbered_name_is(
    trained: Library, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    film, place = str(trained.videos()[0].path), str(trained.folder)
    assert prvr(["library", "add", film, "--library", place, "--encoder", name]) == 0
    assert prvr(["library", "status", "--library", place]) == 0
    assert "encoder plain," in capsys.readouterr().out


def test_what_a_kill_leaves_of_making_it_is_no_obstacle(run: Run, tmp_path: Path) -> None:
    (tmp_path / "library" / "model-0123456789ab").mkdir(parents=True)
    (tmp_path / "library" / ".library.json.1").touch()
    assert Library.create(tmp_path / "library", model=run.path).status().videos == 0
