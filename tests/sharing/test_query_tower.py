"""Query encoders as ONNX and torch.export give the vectors of the model they were made of."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from prvr.backbones import methods
from prvr.cli import main
from prvr.media import file_hash
from prvr.sharing import SharingError, load_query_tower, write_onnx
from prvr.sharing.query_tower import QueryTower, made_queries
from prvr.training import Run, TraceModel, config_from_dict, load_split

runtime = pytest.importorskip("onnxruntime")
WORDS_APART = {"cap4video", "conquer", "ral"}  # their queries are not one vector each


def fresh(method: str, folder: Path) -> Run:
    """A run of a method at toy size, not trained."""
    learns = methods()[method].trainable
    shape = {"visual_width": 20, "query_width": 20, "frames": 24} | ({"width": 32, "heads": 4} if learns else {})
    stages = {"backbone_stage": {"epochs": int(learns)}, "trace_stage": {"epochs": 0}}
    config = config_from_dict({"method": method, "model": shape, **stages}, method)
    torch.manual_seed(0)
    run = Run(folder / method)
    run.create(config, folder)
    run.save_weights(config.selection, TraceModel.from_config(config).state_dict())
    return run


@pytest.mark.parametrize("method", sorted(methods().keys() - WORDS_APART))
def test_onnx_gives_the_models_vectors(method: str, tmp_path: Path) -> None:
    run, file = fresh(method, tmp_path), tmp_path / "query.onnx"
    write_onnx(*load_query_tower(run), file)
    session = runtime.InferenceSession(str(file))
    backbone = run.load_model()[0].backbone
    for count, length in ((1, 1), (4, backbone.config.words), (9, 6)):
        words, mask = made_queries(backbone, count, length)
        with torch.no_grad():
            expected = backbone.encode_queries(words, mask)
        found = session.run(None, {"words": words.numpy(), "mask": mask.numpy()})[0]
        torch.testing.assert_close(torch.from_numpy(found), expected, atol=1e-5, rtol=0)


def test_a_trained_run_as_onnx_by_command(trained: Run, world: Path, tmp_path: Path) -> None:
    file = tmp_path / "query.onnx"
    assert main(["convert", str(trained.path), "--onnx", str(file)]) == 0
    batch = next(iter(load_split(trained.config, world, "test").query_batches()))
    backbone = trained.load_model()[0].backbone
    with torch.no_grad():
        expected = backbone.encode_queries(batch.tokens, batch.mask)
    session = runtime.InferenceSession(str(file))
    found = session.run(None, {"words": batch.tokens.numpy(), "mask": batch.mask.bool().numpy()})[0]
    torch.testing.assert_close(torch.from_numpy(found), expected, atol=1e-5, rtol=0)
    about = json.loads(session.get_modelmeta().custom_metadata_map["prvr"])
    assert about == asdict(load_query_tower(trained)[1])
    assert (about["method"], about["query_width"], about["width"], about["data"]) == ("dreamprvr", 20, 16, "f" * 64)
    assert about["weights"] == file_hash(trained.path / "weights" / "average" / "model.safetensors")
    assert file.stat().st_size < sum(p.numel() for p in backbone.parameters()) * 2  # the video encoder is left out


@pytest.mark.parametrize("method", ["frozen", pytest.param("dreamprvr", marks=pytest.mark.slow)])
def test_torch_export_gives_the_models_vectors(method: str, tmp_path: Path) -> None:
    run, file = fresh(method, tmp_path), tmp_path / "query.pt2"
    assert main(["convert", str(run.path), "--torch", str(file)]) == 0
    stored = {"prvr": ""}
    loaded, backbone = torch.export.load(file, extra_files=stored).module(), run.load_model()[0].backbone
    for count, length in ((1, 1), (4, backbone.config.words)):
        words, mask = made_queries(backbone, count, length)
        torch.testing.assert_close(loaded(words, mask), backbone.encode_queries(words, mask), atol=1e-5, rtol=0)
    assert json.loads(stored["prvr"])["method"] == method


@pytest.mark.parametrize("method", sorted(WORDS_APART))
def test_a_method_without_query_vectors_says_so(method: str, tmp_path: Path) -> None:
    with pytest.raises(SharingError, match=f"{method} compares single words"):
        load_query_tower(fresh(method, tmp_path))


def test_a_file_that_differs_gets_no_name(trained: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tower, described = load_query_tower(trained)
    monkeypatch.setattr("prvr.sharing.query_tower.TOLERANCE", -1.0)
    with pytest.raises(SharingError, match="is not written"):
        write_onnx(tower, described, tmp_path / "query.onnx")
    assert list(tmp_path.iterdir()) == []


def test_what_torch_cannot_convert_is_said_in_one_sentence(
    trained: Run, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    tower, described = load_query_tower(trained)

    class Stubborn(QueryTower):
        def forward(self, words: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return torch.special.bessel_j1(super().forward(words, mask))

    with pytest.raises(SharingError, match="torch cannot convert the query encoder of dreamprvr to ONNX") as caught:
        write_onnx(Stubborn(tower.backbone), described, tmp_path / "query.onnx")
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_the_command_needs_to_know_what_and_where(trained: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", str(trained.path)]) == 1
    assert "--onnx" in capsys.readouterr().err
    assert main(["convert", str(trained.path), "--onnx", "/nowhere/query.onnx"]) == 1
    assert "does not exist" in capsys.readouterr().err
