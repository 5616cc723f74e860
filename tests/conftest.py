"""Fixtures that several rooms share."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# One thread of arithmetic for each process: tests run side by side, and two threads each would wait for one another's
# cores (the trainings took twice the CPU time). Libraries read this when they load, so it stands before torch.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from prvr.evaluation import Golden, read_golden
from prvr.worlds import FEATURE_SIZES, write_feature_world
from tests.s3 import KEYS, S3Server

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background; commands under test inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ["PRVR_ENGINE"] = "fp32"  # tests neither measure nor convert, except where that is their subject

GOLDEN = Path(__file__).parent / "golden"
# Files that take longest. They begin first, so that none of them is alone at the end of a run of two processes.
LONG = ("test_on_ray.py", "test_structure.py", "test_resume.py", "test_every_method.py", "test_schema.py")
# A model and a schedule small enough to train in a second.
TINY = """
method = "dreamprvr"
batch_size = 10
[data]
collection = "synth"
[model]
visual_width = 24
query_width = 20
width = 16
blocks = 2
registers = 2
frames = 24
diffusion_steps = 3
hard_negative_epoch = 1
[backbone_stage]
epochs = 2
learning_rate = 1e-3
[trace_stage]
epochs = 4
frozen_epochs = 1
warmup_epochs = 1
fusion_start = 1
fusion_ramp = 2
snapshots = 2
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in LONG)


@pytest.fixture(scope="session")
def golden() -> Callable[[str], Golden]:
    """``golden("trace")``: a method's fixture."""
    known: dict[str, Golden] = {}

    def get(name: str) -> Golden:
        if name not in known:
            found = read_golden(GOLDEN, name)
            assert found is not None, f"no golden {name}"
            known[name] = found
        return known[name]

    return get


@pytest.fixture(autouse=True)
def _one_seed() -> None:
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("world")
    write_feature_world(root, FEATURE_SIZES["tiny"], progress=False)
    return root


@pytest.fixture(scope="session")
def preset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("preset") / "tiny.toml"
    path.write_text(TINY, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def _s3_server() -> Iterator[S3Server]:
    pytest.importorskip("pyarrow", reason='buckets need pyarrow: pip install "prvr[scale]"')
    pytest.importorskip("moto", reason="the S3 server of the tests is moto's: pip install 'moto[server]'")
    server = S3Server()
    yield server
    server.stop()


@pytest.fixture
def s3(_s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """A real S3 server that this process and its children use."""
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": _s3_server.endpoint}.items():
        monkeypatch.setenv(name, value)
    _s3_server.requests.clear()
    yield _s3_server
    _s3_server.before = lambda path: None
    if not _s3_server.running:
        _s3_server.start()
    _s3_server.require_keys(False)
