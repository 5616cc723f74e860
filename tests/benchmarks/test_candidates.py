"""The comparison of candidate indexes: what is indexed of a video, and one small run."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("lance")
pytest.importorskip("faiss", reason="needs faiss: pip install faiss-cpu")
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import candidates
import candidates_table


def test_neighbours_that_are_alike_become_one_stretch() -> None:
    scenes = F.normalize(torch.eye(8)[[0, 0, 0, 3, 3, 5, 5, 5]] + 0.01 * torch.arange(8.0)[:, None], dim=-1)
    found = candidates_table.merge_neighbours(scenes[None], 3)
    expected = torch.stack([scenes[:3].sum(0), scenes[3:5].sum(0), scenes[5:].sum(0)])
    torch.testing.assert_close(found[0], F.normalize(expected, dim=-1))


def test_as_many_stretches_as_tokens_are_the_tokens() -> None:
    tokens = F.normalize(torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0)), dim=-1)
    torch.testing.assert_close(candidates_table.merge_neighbours(tokens, 5), tokens)


@pytest.mark.slow
def test_both_indexes_find_what_an_exact_search_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = ["--videos", "1500", "--tokens", "8", "--stretches", "4", "--width", "32", "--queries", "20"]
    out = tmp_path / "found.json"
    command = ["candidates.py", *sizes, "--folder", str(tmp_path / "table"), "--out", str(out), "--repeats", "1"]
    monkeypatch.setattr(sys, "argv", command)
    candidates.main()
    found = json.loads(out.read_text("utf-8"))
    assert found["recall"] >= 0.95
    assert found["videos"] == 1500
    assert not (tmp_path / "table").exists()  # nothing is kept unless asked
