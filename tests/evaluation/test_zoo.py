"""The table of methods: read off the registry, checked against the goldens when it is made."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from prvr.backbones import from_official, methods
from prvr.cli import main
from prvr.evaluation.goldens import Golden, check_scores, read_golden, repository_goldens
from prvr.evaluation.published import published_recall, published_sum_r
from prvr.evaluation.zoo import zoo_rows

LEARNING = [name for name, cls in methods().items() if cls.trainable]


def goldens() -> Path:
    folder = repository_goldens()
    assert folder is not None
    return folder


def test_every_method_is_there_verified_and_loads_its_authors_keys() -> None:
    rows = {row.method: row for row in zoo_rows("charades", goldens())}
    assert rows.keys() == {*LEARNING} | {"dreamprvr + trace", "tf_prvr"}
    for name, row in rows.items():
        assert row.year is not None, name
        assert row.official_state == ("none to load" if name in ("dreamprvr + trace", "tf_prvr") else "loads")
        if name != "tf_prvr":  # which has no weights that a golden could hold
            assert row.golden is not None, name
            assert row.golden.holds, name
    assert [row.year for row in rows.values()] == sorted(row.year or 0 for row in rows.values())
    # Parameters: the paper's Table 2 gives 36.14 M and 36.73 M.
    assert (rows["dreamprvr"].parameters or 0) == pytest.approx(36.14e6, abs=5e3)
    assert (rows["dreamprvr + trace"].parameters or 0) == pytest.approx(36.73e6, abs=5e3)
    assert {name: row.needs for name, row in rows.items() if row.needs} == {
        "cap4video": ("captions",),
        "conquer": ("first stage",),
        "msc_prvr": ("CLIP features",),
        "tf_prvr": ("CLIP features",),
        "uem": ("CLIP features",),
    }
    pairwise = {name for name, row in rows.items() if row.separable is False}
    assert pairwise == {"cap4video", "conquer", "mssl", "ral", "uem"}
    # Numbers on other features never share a column.
    assert set(rows["msc_prvr"].published.values()) == {None}
    assert rows["msc_prvr"].published_clip == {"activitynet": 202.1, "charades": 99.7, "tvr": 263.1}
    assert rows["gmmformer_v2"].published["tvr"] == 189.1
    assert rows["gmmformer_v2"].published_clip["tvr"] == 258.1


@pytest.mark.parametrize("dataset", ["activitynet", "charades", "tvr"])
def test_published_recalls_add_up_to_the_published_sum(dataset: str) -> None:
    checked = 0
    for method in (*LEARNING, "trace"):
        for feature in (None, f"{dataset}_clip_L14"):
            recall, total = published_recall(method, dataset, feature), published_sum_r(method, dataset, feature)
            if recall is not None:
                assert total == pytest.approx(recall.sum_r, abs=0.21)  # four numbers, each rounded to one digit
                checked += 1
    assert checked >= 15


def test_a_golden_that_does_not_hold_is_shown_not_hidden(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spoilt = read_golden(goldens(), "xml")
    assert spoilt is not None
    spoilt.tensors["scores"] += 0.5
    found = check_scores("xml", spoilt)
    assert not found.holds
    assert found.error == pytest.approx(0.5, abs=1e-3)
    shutil.copy(goldens() / "mssl.npz", tmp_path / "xml.npz")  # another method's state dict
    assert main(["zoo", "--goldens", str(tmp_path), "--dataset", "demo", "--json"]) == 0
    rows = {row["method"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["xml"]["official_state"].startswith("fails: ")
    assert (rows["mssl"]["golden"], rows["mssl"]["official_state"]) == (None, "not tried")


def test_a_wrong_folder_or_dataset_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zoo", "--goldens", "nowhere"]) == 1
    assert "nowhere is not a folder" in capsys.readouterr().err
    assert main(["zoo", "--dataset", "nothing"]) == 1
    assert "no presets for 'nothing'. Choose one of: activitynet" in capsys.readouterr().err


@pytest.mark.parametrize("method", LEARNING)
def test_official_state_dicts_of_wrapped_models_load_too(method: str) -> None:
    golden = read_golden(goldens(), method)
    assert isinstance(golden, Golden)
    wrapped = {f"module.{key}": tensor for key, tensor in golden.weights.items()}
    plain, same = (from_official(method, weights, golden.config) for weights in (golden.weights, wrapped))
    for one, other in zip(plain.parameters(), same.parameters(), strict=True):
        assert torch.equal(one, other)
