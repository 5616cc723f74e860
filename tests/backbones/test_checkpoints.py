"""The authors' files are read without running anything in them."""

from __future__ import annotations

import os
import sys
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from prvr.backbones import CheckpointMismatch, from_official, read_official_checkpoint


@pytest.fixture
def foreign(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A class of a module that will not be there when the file is read, as in the released checkpoints."""

    def make(module: str, name: str, base: type = object) -> Any:
        cls = type(name, (base,), {"__module__": module})
        holder = ModuleType(module)
        setattr(holder, name, cls)
        parts = module.split(".")
        for depth in range(1, len(parts) + 1):
            monkeypatch.setitem(
                sys.modules, ".".join(parts[:depth]), holder if depth == len(parts) else ModuleType("x")
            )
        return cls

    return make


def test_a_schedule_inside_the_optimiser_state_is_passed_over(foreign: Any, tmp_path: Path) -> None:
    schedule = foreign("Opts.optimization", "WarmupLinearSchedule")()
    schedule.warmup = 0.01
    content = {
        "config": {"hidden_size": 4},
        "epoch": 7,
        "state_dict": OrderedDict(w=torch.ones(2)),
        "optimizer": {"param_groups": [{"schedule": schedule}]},
    }
    torch.save(content, tmp_path / "best.ckpt")
    found = read_official_checkpoint(tmp_path / "best.ckpt")
    assert torch.equal(found.state_dict["w"], torch.ones(2))
    assert (found.config, found.epoch) == ({"hidden_size": 4}, 7)


def test_an_attribute_dictionary_and_options_beside_the_file_are_read(foreign: Any, tmp_path: Path) -> None:
    settings = foreign("easydict", "EasyDict", dict)(hidden_size=4)
    torch.save({"model": {"w": torch.ones(2)}, "model_cfg": settings, "epoch": 1}, tmp_path / "model.ckpt")
    (tmp_path / "opt.json").write_text('{"clip_scale_w": 0.5}', encoding="utf-8")
    assert read_official_checkpoint(tmp_path / "model.ckpt").config == {"hidden_size": 4, "clip_scale_w": 0.5}


class Evil:
    """What a malicious file would carry."""

    def __reduce__(self) -> Any:
        return os.system, ("touch /tmp/should-never-exist",)


def test_a_file_that_would_run_code_is_refused_by_name(tmp_path: Path) -> None:
    torch.save({"state_dict": {"w": torch.ones(1)}, "extra": Evil()}, tmp_path / "evil.pth")
    with pytest.raises(CheckpointMismatch, match=r"names code that loading it would run \(.*system\): refused"):
        read_official_checkpoint(tmp_path / "evil.pth")
    assert not Path("/tmp/should-never-exist").exists()


def test_files_of_old_torch_are_read_as_safely(tmp_path: Path) -> None:
    def save(content: Any) -> Path:
        torch.save(content, tmp_path / "old.ckpt", _use_new_zipfile_serialization=False)
        return tmp_path / "old.ckpt"

    found = read_official_checkpoint(save({"config": {"hidden_size": 4}, "model": {"w": torch.ones(2)}}))
    assert (found.config, found.state_dict["w"].tolist()) == ({"hidden_size": 4}, [1.0, 1.0])
    with pytest.raises(CheckpointMismatch, match=r"names code that loading it would run \(.*system\): refused"):
        read_official_checkpoint(save({"state_dict": {"w": torch.ones(1)}, "extra": Evil()}))
    assert not Path("/tmp/should-never-exist").exists()


def test_what_is_no_checkpoint_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(CheckpointMismatch, match="there is no file"):
        read_official_checkpoint(tmp_path / "missing.ckpt")
    (tmp_path / "text.ckpt").write_text("hello", encoding="utf-8")
    with pytest.raises(CheckpointMismatch, match="neither a zip archive"):
        read_official_checkpoint(tmp_path / "text.ckpt")
    torch.save([1, 2], tmp_path / "list.ckpt")
    with pytest.raises(CheckpointMismatch, match="holds a list"):
        read_official_checkpoint(tmp_path / "list.ckpt")
    torch.save({"state_dict": {"w": torch.ones(2)}}, tmp_path / "cut.ckpt")
    whole = (tmp_path / "cut.ckpt").read_bytes()
    (tmp_path / "cut.ckpt").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CheckpointMismatch, match=r"cut\.ckpt"):
        read_official_checkpoint(tmp_path / "cut.ckpt")


def test_a_checkpoint_that_grows_in_memory_is_refused(tmp_path: Path) -> None:
    plain, packed = tmp_path / "plain.ckpt", tmp_path / "packed.ckpt"
    torch.save({"state_dict": {"w": torch.zeros(1 << 18)}}, plain)
    with zipfile.ZipFile(plain) as source, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            target.writestr(name, source.read(name))
    read_official_checkpoint(plain)
    with pytest.raises(CheckpointMismatch, match="compressed entries"):
        read_official_checkpoint(packed)
    torch.save({"state_dict": {"w": torch.zeros(1).expand(1 << 40)}}, plain)  # one number, claimed to be many
    with pytest.raises(CheckpointMismatch, match="w claims shape"):
        read_official_checkpoint(plain)


def test_absurd_sizes_and_nan_in_a_checkpoint_are_named(golden: Callable[[str], Any]) -> None:
    case = golden("dreamprvr")
    for key, value in (("visual_input_size", 1 << 40), ("hidden_size", -4), ("hidden_size", float("nan"))):
        with pytest.raises(CheckpointMismatch, match=r"must be at|no dreamprvr model"):
            from_official("dreamprvr", case.weights, case.config | {key: value})
    name = "modular_vector_mapping.weight"
    spoiled = case.weights | {name: case.weights[name] * float("nan")}
    with pytest.raises(CheckpointMismatch, match=f"{name} holds NaN"):
        from_official("dreamprvr", spoiled, case.config)
