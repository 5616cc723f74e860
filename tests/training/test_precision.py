"""A run computes in one precision from its beginning to its end."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from prvr.terminal import Console
from prvr.training import Run, Trainer, join_processes, load_preset, multiplies_bf16
from prvr.training import precision as module

CPU = torch.device("cpu")


class Stopped(Exception):
    """Stands for a kill."""


def on_a_machine(monkeypatch: pytest.MonkeyPatch, *, bf16: bool) -> None:
    """From now on this machine multiplies bf16, or does not."""
    monkeypatch.setattr(module, "multiplies_bf16", lambda device: bf16)


def begin(preset: Path, world: Path, folder: Path, *, precision: str = "auto") -> Run:
    run = Run(folder)
    run.create(replace(load_preset(str(preset)), checkpoint_steps=1, precision=precision), world)  # type: ignore[arg-type]
    return run


def train(run: Run, world: Path, steps: int = 1000) -> bool:
    """Train until the end or that many steps; returns whether it was in bf16."""
    with join_processes("cpu") as group:
        trainer = Trainer(run.config, world, run, group, Console(width=200))
        save = trainer.checkpoints.save

        def save_and_stop(progress, *tensors):  # type: ignore[no-untyped-def]
            save(progress, *tensors)
            if progress.total_steps >= steps:
                raise Stopped

        trainer.checkpoints.save = save_and_stop  # type: ignore[method-assign]
        with suppress(Stopped):
            trainer.train()
        return trainer.model.bf16


def test_a_run_that_was_begun_in_fp32_ends_in_it(
    preset: Path, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_a_machine(monkeypatch, bf16=False)
    whole, moved = (begin(preset, world, tmp_path / name) for name in ("whole", "moved"))
    train(whole, world)
    train(moved, world, steps=3)
    on_a_machine(monkeypatch, bf16=True)
    assert not train(moved, world)
    one, other = (load_file(run.path / "weights" / "last" / "model.safetensors") for run in (whole, moved))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_run_that_was_begun_in_bf16_says_where_it_cannot_go_on_in_it(
    preset: Path, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on_a_machine(monkeypatch, bf16=True)
    run = begin(preset, world, tmp_path / "run")
    assert train(run, world, steps=1)
    assert "was begun in" not in capsys.readouterr().out
    on_a_machine(monkeypatch, bf16=False)
    assert not train(run, world, steps=2)
    assert "was begun in bf16" in capsys.readouterr().out
    on_a_machine(monkeypatch, bf16=True)
    assert train(run, world, steps=3)


def test_older_runs_use_what_the_device_multiplies_and_say_so(
    preset: Path, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on_a_machine(monkeypatch, bf16=False)
    run = begin(preset, world, tmp_path / "run")
    train(run, world, steps=1)
    assert "an earlier version" not in capsys.readouterr().out
    record = json.loads((run.path / "run.json").read_text())
    assert record.pop("precision") == "fp32"
    (run.path / "run.json").write_text(json.dumps(record))  # as earlier versions wrote it
    for steps, bf16 in ((2, True), (3, False)):
        on_a_machine(monkeypatch, bf16=bf16)
        assert train(Run(run.path), world, steps=steps) is bf16
        assert f"it goes on in {'bf16' if bf16 else 'fp32'}" in capsys.readouterr().out
        assert Run(run.path).begun_in is None  # nobody knows it


def test_a_precision_that_is_asked_for_is_used_everywhere(
    preset: Path, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for precision in ("fp32", "bf16"):
        run = begin(preset, world, tmp_path / precision, precision=precision)
        for bf16 in (True, False):
            on_a_machine(monkeypatch, bf16=bf16)
            assert module.uses_bf16(run, CPU) is (precision == "bf16")


def test_a_gpu_that_only_emulates_bf16_computes_in_fp32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation)
    assert not multiplies_bf16(torch.device("cuda"))
