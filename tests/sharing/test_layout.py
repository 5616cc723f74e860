"""A run in a folder for a hub: what is written, what the card says, and what a damaged or hostile one leads to."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub import ModelCard
from safetensors.torch import load_file, save_file

from prvr.backbones import methods
from prvr.cli import main
from prvr.cli.hub_runs import with_loaded_runs
from prvr.evaluation import RankedData, evaluate_run, find_data, load_record, save_record
from prvr.media import file_hash
from prvr.sharing import SharedRun, SharingError, is_layout, load_run, model_card, write_layout
from prvr.training import Run, TraceModel, config_from_dict


@pytest.fixture(scope="module")
def written(trained: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("written") / "tiny"
    assert main(["push", str(trained.path), "ann/tiny", "--to", str(folder)]) == 0
    return folder


@pytest.fixture
def folder(written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy that a test may damage."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(written, tmp_path / "tiny"))


def test_the_card_states_what_was_measured(trained: Run, written: Path) -> None:
    card = ModelCard.load(written / "README.md")
    recalls = load_record(trained.path / "eval" / "test-average").recalls()
    stated = {result.metric_name: result.metric_value for result in card.data.eval_results}
    best = recalls["witness"]
    assert stated == {f"R@{k}": round(best[k], 2) for k in (1, 5, 10, 100)} | {"SumR": round(best.sum_r, 2)}
    assert {(r.dataset_name, r.dataset_split) for r in card.data.eval_results} == {("synth", "test")}
    rows = {"base": "base score", "trace": "with TRACE", "backbone": "backbone alone", "witness": "with the witness"}
    for name, row in rows.items():
        assert f"| {row} | {recalls[name].r1:.1f} [" in card.text
    assert 'load_run("ann/tiny")' in card.text
    assert "hf://ann/tiny" in card.text


def test_nothing_of_this_machine_is_told(trained: Run, written: Path, world: Path) -> None:
    for file in ("config.json", "README.md"):
        text = (written / file).read_text("utf-8")
        assert str(world) not in text
        assert str(trained.path) not in text


def test_a_run_that_nobody_evaluated_says_so(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(run.path / "eval")
    assert main(["push", str(run.path), "ann/tiny", "--dry-run"]) == 0
    said = capsys.readouterr()
    assert "no number is known" in said.out
    assert "prvr eval" in said.err
    assert ModelCard(said.out).data.eval_results is None


def test_numbers_of_replaced_weights_are_not_stated(run: Run) -> None:
    tensors, about = run.weights("average")
    run.save_weights("average", tensors, **about | {"epochs": [0, 1]})
    assert "no number is known" in model_card(SharedRun.of(run), "ann/tiny")


def test_other_weights_bring_neither_witness_nor_calibration(run: Run, tmp_path: Path) -> None:
    files = write_layout(SharedRun.of(run, "best"), tmp_path / "best", "card")
    assert {file.name for file in files} == {"model.safetensors", "backbone.safetensors", "README.md", "config.json"}
    loaded = load_run(tmp_path / "best", tmp_path / "runs")
    assert loaded.config.selection == "best"
    expected, found = run.weights("best"), loaded.weights("best")
    assert found[1] == expected[1]
    assert all(torch.equal(found[0][name], tensor) for name, tensor in expected[0].items())


def test_files_of_others_in_the_folder_stay(trained: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    write_layout(SharedRun.of(trained), tmp_path, "card")
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert main(["push", str(trained.path), "--to", str(trained.path)]) == 1
    assert "holds a run" in capsys.readouterr().err
    assert main(["push", str(trained.path)]) == 1
    assert "say where to" in capsys.readouterr().err
    assert main(["push", str(trained.path), "ann/tiny@v1", "--dry-run"]) == 1
    assert "leave out @v1" in capsys.readouterr().err


def test_only_words_that_name_a_run_are_loaded(
    folder: Path, tmp_path: Path, world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    encoder = Path(shutil.copytree(folder, tmp_path / "clip"))  # as folders of other programs' models look
    (encoder / "config.json").write_text('{"model_type": "clip"}')
    assert is_layout(folder)
    assert not is_layout(encoder)
    for library in (["add", "films", "--encoder"], ["reindex", "--encoder"], ["add", "films", "--speech"]):
        for place in (str(folder), str(encoder)):
            assert with_loaded_runs([*library, place], "--model") == [*library, place]
    assert main(["library", "reindex", "--encoder", str(encoder)]) == 1
    assert "another program" not in capsys.readouterr().err
    assert not Path("runs").exists()
    there = with_loaded_runs(["add", "films", "--model", str(folder), f"--model={folder}"], "--model")
    assert Path(there[3]).parent == Path("runs/hub")
    assert there[4] == f"--model={there[3]}"
    assert main(["eval", "--json", "--data", str(world), str(folder)]) == 0  # a run behind options
    assert json.loads(capsys.readouterr().out)[0]["protocol"]["trained_on"] == ""
    assert main(["train", "--resume", str(folder)]) == 1
    assert "start from it with --from" in capsys.readouterr().err


def test_a_folder_can_be_written_again(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert main(["push", str(run.path), "--to", "shared"]) == 0
        assert not Path("runs").exists()
    assert main(["push", "shared", "--to", "again"]) == 0
    assert file_hash(Path("again/model.safetensors")) == file_hash(Path("shared/model.safetensors"))


def test_another_dataset_of_the_same_name_is_told_apart(run: Run, world: Path, tmp_path: Path) -> None:
    record = load_record(run.path / "eval" / "test-average")
    protocol = replace(record.protocol, trained_on="another synth")
    shutil.rmtree(run.path / "eval")
    save_record(replace(record, protocol=protocol), run.path / "eval" / "seed9-test-average")
    card = ModelCard(model_card(SharedRun.of(run), "ann/tiny"))
    assert "synth (cross-dataset: trained on another synth), split test" in card.text
    assert "tried on: another synth." in card.text
    assert card.data.eval_results is None, "the hub would show it as the run's own"

    other = Path(shutil.copytree(world, tmp_path / "other", ignore=shutil.ignore_patterns(".prvr-cache")))
    captions = next(other.rglob("*train.caption.txt"))
    captions.write_text(captions.read_text("utf-8").replace("\n", " more\n"), "utf-8")
    write_layout(SharedRun.of(run), tmp_path / "shared", "card")
    loaded = load_run(tmp_path / "shared", tmp_path / "runs")  # knows no folder of data
    assert find_data(loaded, world) == RankedData(world, loaded.config_for(world))
    assert find_data(loaded, other).trained_on == "another synth"
    about = json.loads((loaded.path / "run.json").read_text("utf-8"))
    del about["captions"]  # as runs of before
    (loaded.path / "run.json").write_text(json.dumps(about), "utf-8")
    found = evaluate_run(loaded, data=other, query_bank=True).record.protocol
    assert found.trained_on == ""
    assert found.notes.startswith("could not check that this is the synth of the training")
    loaded.set_data(world)  # as a resumed training does
    assert find_data(loaded, other).trained_on == "another synth"


# -- damage and bad intent --------------------------------------------------------------------------------------------


def change(folder: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
    content = json.loads((folder / "config.json").read_text("utf-8"))
    edit(content)
    content["files"]["model.safetensors"]["sha256"] = file_hash(folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(content), "utf-8")


def replace_calibration(folder: Path, text: str) -> None:
    (folder / "calibration.json").write_text(text)
    digest = file_hash(folder / "calibration.json")
    change(folder, lambda content: content["files"]["calibration.json"].update(sha256=digest))


def model_of(content: dict[str, Any]) -> dict[str, Any]:
    return content["run"]["config"]["model"]  # type: ignore[no-any-return]


def cut(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def cut_and_named(folder: Path) -> None:
    cut(folder)
    change(folder, lambda content: None)


def flip(folder: Path) -> None:
    data = bytearray((folder / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (folder / "model.safetensors").write_bytes(data)


def pickled(folder: Path) -> None:
    torch.save({"a": torch.zeros(1)}, folder / "model.safetensors")
    change(folder, lambda content: None)


def without_a_tensor(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    tensors.popitem()
    save_file(tensors, folder / "model.safetensors")
    change(folder, lambda content: None)


def unfinished_numbers(folder: Path) -> None:
    tensors = {
        name: torch.full_like(tensor, torch.nan) for name, tensor in load_file(folder / "model.safetensors").items()
    }
    save_file(tensors, folder / "model.safetensors")
    change(folder, lambda content: None)


DAMAGES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "cut": (cut, "damaged or"),
    "a bit": (flip, "damaged or"),
    "cut, hash adapted": (cut_and_named, "cannot be read"),
    "a pickle in disguise": (pickled, "cannot be read"),
    "a tensor less": (without_a_tensor, "do not fit"),
    "NaN": (unfinished_numbers, "NaN"),
    "no config": (lambda f: (f / "config.json").write_text("[]"), "JSON object"),
    "nested": (lambda f: (f / "config.json").write_text("[" * 100_000), "cannot be read"),
    "huge config": (lambda f: (f / "config.json").write_bytes(b" " * 33_000_000), "larger than"),
    "another program": (lambda f: change(f, lambda c: c.update(library_name="timm")), "another program"),
    "newer": (lambda f: change(f, lambda c: c.update(format=9)), "newer prvr"),
    "no run": (lambda f: change(f, lambda c: c.update(run=[])), "does not describe a run"),
    "unknown method": (lambda f: change(f, lambda c: c["run"]["config"].update(method="evil")), "unknown method"),
    "other width": (lambda f: change(f, lambda c: model_of(c).update(width=32)), "do not fit"),
    "memory": (lambda f: change(f, lambda c: model_of(c).update(width=2**20, heads=4)), "at most 8,192"),
    "memory in the range": (lambda f: change(f, lambda c: model_of(c).update(width=8192)), "do not fit"),
    "path in weights": (lambda f: change(f, lambda c: c["run"]["config"].update(selection="../../x")), "not one of"),
    "no epochs": (lambda f: change(f, lambda c: c["files"]["model.safetensors"].update(about={})), "can be used"),
    "no table": (lambda f: change(f, lambda c: c["files"]["model.safetensors"].update(about=[1])), "describe a run"),
    "names of ours": (
        lambda f: change(f, lambda c: c["files"]["model.safetensors"].update(about={"name": "../x"})),
        "describe a run",
    ),
    "no recipes": (lambda f: change(f, lambda c: c["run"].update(features={"frames": 1})), "can be used"),
    "no witness": (lambda f: change(f, lambda c: c["files"]["witness.safetensors"].update(about={})), "can be used"),
    "witness of other widths": (
        lambda f: change(f, lambda c: c["files"]["witness.safetensors"]["about"].update(word_width=2**40)),
        "can be used",
    ),
    "no calibration": (lambda f: replace_calibration(f, '{"trace": 1}'), "can be used"),
    "lost calibration": (lambda f: (f / "calibration.json").unlink(), "has no calibration.json"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_folder_is_refused_in_one_sentence(
    damage: str, folder: Path, world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    DAMAGES[damage][0](folder)
    with pytest.raises(SharingError, match=DAMAGES[damage][1]) as caught:
        load_run(folder)
    assert "\n" not in str(caught.value)
    assert not list(Path("runs").rglob("run.json"))


def test_a_run_that_needs_another_is_not_shared(run: Run) -> None:
    record = json.loads((run.path / "run.json").read_text("utf-8"))
    record["config"] |= {"method": "conquer", "model": {"first_stage": "/home/ann/run"}}
    (run.path / "run.json").write_text(json.dumps(record), "utf-8")
    with pytest.raises(SharingError, match="re-orders the ranking of another run"):
        SharedRun.of(run)


@pytest.mark.parametrize("method", [name for name, kind in methods().items() if kind.trainable])
def test_shapes_of_every_method_are_known_without_memory(method: str) -> None:
    """Loading compares a file with the shapes of a model that is built on the device ``meta``."""
    config = config_from_dict({"method": method, "trace_stage": {"epochs": 0}}, method)
    with torch.device("meta"):
        model = TraceModel.from_config(config)
    expected = {name: tensor.shape for name, tensor in TraceModel.from_config(config).state_dict().items()}
    assert {name: tensor.shape for name, tensor in model.state_dict().items()} == expected
