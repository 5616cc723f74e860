"""Files of a dataset: captions, labels, moments, BigFiles, HDF5, arrays, annotations."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import zipfile
from pathlib import Path

import h5py
import numpy as np
import torch

from prvr.data.array_files import ARRAY_ENDINGS
from prvr.data.bigfile import BIGFILE_NAMES, BigFile, parse_frame_lists
from prvr.data.captions import read_captions, read_moments, read_positives
from prvr.data.errors import DataError
from prvr.data.qvhighlights import convert_annotations
from prvr.data.stores import open_feature_store
from prvr.worlds import read_activitynet, read_charades
from tests.fuzz.target import BREAK, Target, of_file, of_files

CAPTIONS = "v1#enc#0 a cat sits\nv1#enc#1 the cat leaps\n\nv2#enc#0 日本 é\n".encode()
LABELS = b"\n".join(
    json.dumps({"query_id": f"v{n}#enc#0", "caption": "a cat", "gt_video_ids": ["v1", f"v{n}"]}).encode()
    for n in range(3)
)
MOMENTS = b"\n".join(
    json.dumps({"query_id": f"v{n}#0", "video": f"v{n}", "start": 1.5, "end": 3, "duration": 30.0}).encode()
    for n in range(3)
)
HIGHLIGHTS = b"\n".join(
    json.dumps(
        {"qid": n, "query": "a cat", "vid": f"v{n}", "duration": 30, "relevant_windows": [[1, 3], [4, 9]]}
    ).encode()
    for n in range(3)
)
FRAMES = b"{'v1': ['v1_0', 'v1_1'], \"v2\": ('v2_0',), 'v\\x33': [\"v'3\", 'v\\\\3']}"


def _bigfile() -> bytes:
    rows = np.arange(12, dtype="<f4").tobytes()
    return BREAK.join([b"3 4\n", b"v1_0 v1_1 v2_0", rows, b"{'v1': ['v1_0', 'v1_1'], 'v2': ['v2_0']}"])


def _read_bigfile(folder: Path) -> None:
    big = BigFile.open(folder)
    try:
        for rows in big.rows.values():
            big.gather(rows)
    finally:
        big.close()


def _zipped() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("x/charadestest.gt.jsonl", LABELS)
    return out.getvalue()


def _hdf5() -> bytes:
    out = io.BytesIO()
    with h5py.File(out, "w") as file:
        for name in ("v1#0", "v2#0"):
            file.create_dataset(name, data=np.ones((2, 4), np.float32))
    return out.getvalue()


def _array(ending: str) -> bytes:
    out, rows = io.BytesIO(), np.ones((2, 4), np.float32)
    if ending == ".npy":
        np.save(out, rows)
    elif ending == ".npz":
        np.savez(out, features=rows)
    else:
        torch.save(torch.from_numpy(rows), out)
    return out.getvalue()


def _read_annotations(path: Path) -> None:
    shutil.rmtree(path.parent / "qv", ignore_errors=True)
    convert_annotations(path, path.parent / "qv")


def _read_store(path: Path) -> None:
    with open_feature_store(path) as store:
        for name in store.ids:
            store.read(name)


_ACTIVITYNET = json.dumps(
    {f"v_{n}": {"duration": 30.5, "timestamps": [[0, 4.2], [3, 30]], "sentences": ["One.", "Two "]} for n in range(9)}
).encode()
_CHARADES_FILES = (
    "Charades_v1_classes.txt", "Charades_v1_train.csv", "Charades_v1_test.csv", "charades_sta_train.txt",
    "charades_sta_test.txt",
)  # fmt: skip
_CHARADES = BREAK.join(
    [
        b"c000 Feeding a parrot\nc001 Folding a kite\n",
        b'id,subject,scene,script,objects,descriptions,actions,length\nAB1,X,Attic (under a roof),"a, b",kite;cup,"d",'
        b"c000 0.0 4.5;c001 4 9.1,30.2\nAB2,X,Other,s,,d,,12\n",
        b"id,subject,scene,script,objects,descriptions,actions,length\nCD1,X,Boathouse,s,cup,d,c001 1 2,20\n",
        b"AB1 0.0 4.5##a person feeds a parrot.\nAB2 3 1##folds it\n",
        b"CD1 1.0 2.0##a kite is folded.\n",
    ]
)

TARGETS = (
    Target("captions", (DataError,), [CAPTIONS], of_file("c.caption.txt", read_captions)),
    Target("labels", (DataError,), [LABELS], of_file("test.gt.jsonl", read_positives)),
    Target("labels-gzipped", (DataError,), [gzip.compress(LABELS)], of_file("test.gt.jsonl.gz", read_positives)),
    Target(
        "labels-zipped", (DataError,), [_zipped()], of_file("labels.zip", lambda path: read_positives(path, "charades"))
    ),
    Target("moments", (DataError,), [MOMENTS], of_file("test.moments.jsonl", read_moments)),
    Target(
        "video2frames",
        (DataError,),
        [FRAMES, b"{}", b"{'a': []}"],
        lambda scratch: lambda data: [*parse_frame_lists(data.decode("iso-8859-1"), scratch)] and None,
    ),
    Target("bigfile", (DataError,), [_bigfile()], of_files(BIGFILE_NAMES, _read_bigfile)),
    Target("hdf5", (DataError,), [_hdf5()], of_file("feature.hdf5", _read_store)),
    *(
        Target(f"array-{ending[1:]}", (DataError,), [_array(ending)], of_files((f"a{ending}",), _read_store))
        for ending in ARRAY_ENDINGS
    ),
    Target("qvhighlights", (DataError,), [HIGHLIGHTS], of_file("highlight_val_release.jsonl", _read_annotations)),
    Target(
        "proxy-activitynet",
        (DataError,),
        [BREAK.join([_ACTIVITYNET, _ACTIVITYNET])],
        of_files(("val_1.json", "val_2.json"), read_activitynet),
    ),
    Target("proxy-charades", (DataError,), [_CHARADES], of_files(_CHARADES_FILES, read_charades)),
)
