"""Features in one file per id: what is taken from a file, what is refused, and features side by side."""

from __future__ import annotations

import io
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from prvr.data import DataError, open_feature_store

ROWS = np.arange(12, dtype=np.float32).reshape(4, 3)


class Harmful:
    """What a pickle may do when it is read."""

    def __init__(self, mark: Path):
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.mark,))


def expanded(path: Path) -> None:
    torch.save(torch.zeros(1).expand(1 << 40, 768), path)


def claimed(path: Path) -> None:
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f4", "fortran_order": False, "shape": (1 << 40, 512)})
    path.write_bytes(head.getvalue() + bytes(64))


def packed(path: Path) -> None:
    np.savez_compressed(path, features=np.zeros((50_000, 100), np.float32))  # 20 MB from some kilobytes


def packed_tensor(path: Path) -> None:
    torch.save(torch.zeros(1000, 100), path)
    with zipfile.ZipFile(path) as stored:
        parts = {name: stored.read(name) for name in stored.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)


@pytest.mark.parametrize(
    ("name", "write", "says"),
    [
        ("a.npy", lambda path: path.write_bytes(b"no array"), "cannot be read"),
        ("a.npz", lambda path: path.write_bytes(b"PK\3\4 torn"), "cannot be read"),
        ("a.pt", lambda path: path.write_bytes(b"PK\3\4 torn"), "cannot be read"),
        ("a.npy", lambda path: np.save(path, np.ones((2, 3), np.int64)), r"holds int64 \(2, 3\); expected floats"),
        ("a.npy", lambda path: np.save(path, np.ones((2, 3, 4))), r"expected floats \(rows, width\)"),
        ("a.pt", lambda path: torch.save(torch.ones(2, 3, 4), path), r"expected a tensor of floats"),
        ("a.npz", lambda path: np.savez(path, one=ROWS, two=ROWS), "holds 'one', 'two'; expected one array"),
        ("a.npy", claimed, "as many as the file has"),
        ("a.npz", packed, "unpacks to 20,000,128 bytes"),
        ("a.pt", packed_tensor, "claims more than it holds"),
        ("a.pt", expanded, "claims more than it holds"),
    ],
)
def test_other_files_are_refused_by_name(tmp_path: Path, name: str, write: Callable[[Path], Any], says: str) -> None:
    write(tmp_path / name)
    with pytest.raises(DataError, match=says) as caught, open_feature_store(tmp_path) as store:
        store.read("a")
    assert name in str(caught.value)


@pytest.mark.parametrize("ending", [".npy", ".npz", ".pt"])
def test_nothing_in_a_file_is_executed(tmp_path: Path, ending: str) -> None:
    mark, folder = tmp_path / "executed", tmp_path / "features"
    folder.mkdir()
    path, harmful = folder / f"a{ending}", Harmful(mark)
    if ending == ".pt":
        torch.save(harmful, path)
    elif ending == ".npy":
        np.save(path, np.array([harmful], dtype=object), allow_pickle=True)
    else:
        np.savez(path, features=np.array([harmful], dtype=object))
    with pytest.raises(DataError), open_feature_store(folder) as store:
        store.read("a")
    assert not mark.exists()
    pickle.loads(pickle.dumps(harmful))  # noqa: S301 — to show that it would have been
    assert mark.exists()


def test_the_named_array_and_the_words_of_a_query_are_taken(tmp_path: Path) -> None:
    np.savez(tmp_path / "qid1.npz", last_hidden_state=ROWS.astype(np.float16), pooler_output=ROWS[0])
    torch.save({"features": torch.from_numpy(ROWS), "times": torch.ones(4)}, tmp_path / "vid_0.0_150.0.pt")
    np.save(tmp_path / "one.npy", ROWS[0])
    with open_feature_store(tmp_path) as store:
        assert store.ids == ("one", "qid1", "vid_0.0_150.0")
        assert [store.length(name) for name in store.ids] == [1, 4, 4]
        np.testing.assert_array_equal(store.read("qid1"), ROWS)
        np.testing.assert_array_equal(store.read("vid_0.0_150.0"), ROWS)


def test_one_id_has_one_file_and_one_width(files: Any, tmp_path: Path) -> None:
    folder = files.folder(tmp_path / "a", {"x": ROWS, "y": ROWS[:, :2].copy()})
    with open_feature_store(folder) as store, pytest.raises(DataError, match=r"y.npz is 2 wide, but x.npz is 3"):
        store.read("y")
    np.save(folder / "x.npy", ROWS)
    with pytest.raises(DataError, match=r"both x.npy and x.npz"):
        open_feature_store(folder)


def test_features_side_by_side_weigh_the_same_and_need_one_rate(files: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    slow, clip = rng.standard_normal((2, 20, 4), dtype=np.float32)
    files.folder(tmp_path / "slowfast", {"a": 100 * slow, "b": slow, "only": slow})
    files.folder(tmp_path / "clip", {"a": clip[:19].copy(), "b": clip[:9].copy()}, ".npy")
    with open_feature_store(tmp_path / "slowfast+clip") as store:
        assert (store.ids, store.width, store.length("a")) == (("a", "b"), 8, 19)
        halves = store.read("a").reshape(19, 2, 4)
        np.testing.assert_allclose(np.linalg.norm(halves, axis=2), 1.0, rtol=1e-5)
        np.testing.assert_allclose(halves[:, 0], slow[:19] / np.linalg.norm(slow[:19], axis=1)[:, None], rtol=1e-5)
        with pytest.raises(DataError, match=r"'b' has 20 and 9 rows; .*same rate"):
            store.read("b")
