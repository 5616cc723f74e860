"""Runs on the hub: pushed as one commit, loaded as they were, and nothing else is ever read. The hub is a stand-in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from huggingface_hub import ModelCard

from prvr.cli import main
from prvr.evaluation import evaluate_run
from prvr.sharing import SharedRun, SharingError, load_run, model_card, push_run
from prvr.training import Run
from tests.sharing.hub_server import TOKEN, Repository, StandInHub

NAME = "ann/tiny"
FILES = {f"{name}.safetensors" for name in ("model", "backbone", "witness")}
FILES |= {"calibration.json", "README.md", "config.json"}


def push(run: Run, name: str = NAME, **options: bool) -> None:
    shared = SharedRun.of(run)
    push_run(shared, name, model_card(shared, name), **options)


def test_a_pushed_run_ranks_exactly_as_before(run: Run, world: Path, hub: StandInHub) -> None:
    push(run, private=True)
    repository = hub.repositories[NAME]
    assert len(repository.commits) == 2  # the empty one, and everything in one
    assert repository.private
    assert repository.commits[repository.resolve("main") or ""].keys() == FILES
    loaded = load_run(f"hf://{NAME}")
    before, after = evaluate_run(run), evaluate_run(loaded, data=world)
    assert after.record.recalls() == before.record.recalls()
    assert all((after.record.ranks[name] == ranks).all() for name, ranks in before.record.ranks.items())
    assert after.trust == before.trust
    assert after.selection == before.selection
    assert str(world) not in (loaded.path / "run.json").read_text("utf-8")


def test_every_command_takes_an_address_in_place_of_a_run(
    run: Run, world: Path, hub: StandInHub, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        assert main(["push", str(run.path), f"hf://{NAME}"]) == 0
    assert not any("/resolve/" in request for request in hub.requests), "the target is not fetched"
    assert f"hf://{NAME}" in capsys.readouterr().out
    data = ["--data", str(world)]
    assert main(["eval", f"hf://{NAME}", str(run.path), *data, "--json"]) == 0
    there, here = json.loads(capsys.readouterr().out)
    assert there["recalls"] == here["recalls"]
    assert main(["convert", f"hf://{NAME}", "--onnx", "q.onnx"]) == 0
    assert Path("q.onnx").is_file()
    train = ["train", f"--from=hf://{NAME}", *data, "--out", "next", "--trace-stage.epochs", "1", "--log", "none"]
    assert main([*train, "--trace-stage.snapshots", "1"]) == 0
    assert Run("next").has_weights("average")
    assert main(["train", "--resume", f"hf://{NAME}"]) == 1
    assert "--from" in capsys.readouterr().err


def test_a_revision_stays_what_it_was(run: Run, hub: StandInHub) -> None:
    push(run)
    first = hub.repositories[NAME].resolve("main")
    run.drop_weights("backbone")
    push(run)
    assert "backbone.safetensors" not in hub.repositories[NAME].commits[hub.repositories[NAME].resolve("main") or ""]
    assert not load_run(NAME).has_weights("backbone")
    assert load_run(f"hf://{NAME}@{first}").has_weights("backbone")
    with pytest.raises(SharingError, match="no revision 'v9'"):
        load_run(f"hf://{NAME}@v9")


@pytest.mark.slow  # a new process
def test_the_real_command_finds_hub_and_token_in_its_environment(run: Run, tmp_path: Path, hub: StandInHub) -> None:
    variables = {"HF_ENDPOINT": hub.address, "HF_TOKEN": TOKEN, "HF_HOME": str(tmp_path), "HF_HUB_DISABLE_XET": "1"}
    command = [sys.executable, "-m", "prvr", "push", str(run.path), NAME, "--license", "apache-2.0"]
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    card = ModelCard(hub.repositories[NAME].commits[hub.repositories[NAME].resolve("main") or ""]["README.md"].decode())
    assert card.data.license == "apache-2.0"


# -- what goes wrong --------------------------------------------------------------------------------------------------


def test_a_refused_token_is_said_in_one_sentence(
    run: Run, hub: StandInHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    assert main(["push", str(run.path), NAME]) == 1
    said = capsys.readouterr().err
    assert "401" in said
    assert "HF_TOKEN" in said
    assert said.count("\n") == 1
    assert hub.repositories == {}
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with pytest.raises(SharingError, match="403"):
        push(run, "bob/tiny")


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("hf://ann/nothing", "there is no hf://ann/nothing on the hub"),
        ("hf://nothing", "no address on the hub"),
        ("hf://ann/../tiny", "no address on the hub"),
    ],
)
def test_what_is_not_there_is_said(address: str, said: str, hub: StandInHub) -> None:
    with pytest.raises(SharingError, match=said):
        load_run(address)


def test_only_our_files_are_fetched_and_no_pickle_is_read(run: Run, hub: StandInHub, tmp_path: Path) -> None:
    push(run)
    repository = hub.repositories[NAME]
    good = repository.commits[repository.resolve("main") or ""]
    hostile = {"../../escaped.json": b"{}", "evil.py": b"raise SystemExit", "pytorch_model.bin": b"\x80\x04."}
    repository.commit(good | hostile)
    hub.requests.clear()
    load_run(NAME)
    fetched = {each.partition("/resolve/")[2].partition("/")[2] for each in hub.requests if "/resolve/" in each}
    assert fetched == FILES
    assert not list(tmp_path.rglob("escaped.json")) + list(tmp_path.rglob("evil.py"))
    hub.repositories["ann/pickled"] = Repository()
    hub.repositories["ann/pickled"].commit({"pytorch_model.bin": b"\x80\x04.", "config.json": good["config.json"]})
    with pytest.raises(SharingError, match=r"no model\.safetensors \(it has config\.json, pytorch_model\.bin\)"):
        load_run("ann/pickled")


def test_without_a_network_the_copy_in_the_cache_is_used(
    run: Run, hub: StandInHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    push(run)
    first = load_run(NAME, Path("one"))
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    assert load_run(NAME, Path("two")).path.name == first.path.name
    with pytest.raises(SharingError, match="cannot be reached, and hf://ann/other was not downloaded before"):
        load_run("ann/other")


def test_an_interrupted_transfer_leaves_nothing_half_done(run: Run, hub: StandInHub) -> None:
    def interrupt(request: str) -> None:
        if request.startswith("PUT") or request.endswith("model.safetensors"):
            raise ConnectionAbortedError

    hub.before = interrupt
    with pytest.raises(SharingError, match="could not write to hf://ann/tiny"):
        push(run)
    assert len(hub.repositories[NAME].commits) == 1
    hub.before = lambda request: None
    push(run)
    hub.before = interrupt
    with pytest.raises(SharingError, match="could not read hf://ann/tiny"):
        load_run(NAME)
    assert not Path("runs").exists()
    hub.before = lambda request: None
    assert load_run(NAME).load_model()[0] is not None
