"""A folder of small films, and a library of them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from prvr.lake import create_library
from prvr.library import Library, LibrarySettings
from prvr.media.encoders import PlainEncoder
from prvr.trace import Witness, WitnessConfig
from prvr.training import FittedWitness, Run, TraceModel, load_preset, save_run_witness
from prvr.worlds import RENDERED_SIZES, RenderedWorld, render_world, write_rendered_dataset

RATE, SLOTS = 2.0, 8  # frames per second; frames that the small model was made for


@pytest.fixture(scope="session")
def films(tmp_path_factory: pytest.TempPathFactory) -> RenderedWorld:
    """Sixteen films; read only."""
    return render_world(tmp_path_factory.mktemp("rendered") / "films", RENDERED_SIZES["tiny"])


@pytest.fixture(scope="session")
def whole(films: RenderedWorld, tmp_path_factory: pytest.TempPathFactory) -> Library:
    """A library of all films, made without interruption; read only."""
    lib = Library.create(tmp_path_factory.mktemp("library") / "whole", encoder="plain", rate=RATE)
    report = lib.add([films.folder])
    assert len(report.added) == len(films.videos)
    return lib


@pytest.fixture
def own(films: RenderedWorld, tmp_path: Path) -> Path:
    """A folder of six films to do things to."""
    folder = tmp_path / "own"
    folder.mkdir()
    for path in sorted(films.videos.values())[:6]:
        shutil.copy2(path, folder)
    return folder


@pytest.fixture(params=["folder", "lake"])
def library(request: pytest.FixtureRequest, tmp_path: Path) -> Library:
    """An empty library, once in a folder and once in Lance tables: what it does must not depend on where it is."""
    if request.param == "folder":
        return Library.create(tmp_path / "library", encoder="plain", rate=RATE)
    pytest.importorskip("lance", reason='a lake needs Lance: pip install "prvr[scale]"')
    return create_library(str(tmp_path / "library.lance"), LibrarySettings("plain", rate=RATE))


@pytest.fixture
def in_folder(tmp_path: Path) -> Library:
    """An empty library in a folder, for what only a folder can do."""
    return Library.create(tmp_path / "library", encoder="plain", rate=RATE)


def fresh_run(path: Path, data: Path, seed: int = 0, **changes: int) -> Run:
    """A run that ended after no step: random weights, TRACE's projections bent a little."""
    config = load_preset("rendered")
    small = replace(config.model, **{"frames": SLOTS, "clips": 4, "width": 32, "blocks": 2, **changes})  # type: ignore[arg-type]
    config = replace(config, model=small)
    run = Run(path)
    run.create(config, data)
    torch.manual_seed(seed)
    model = TraceModel.from_config(config)
    with torch.no_grad():
        for weight in model.trace.projections.values():
            weight.add_(0.1 * torch.randn_like(weight))
    run.save_weights("average", model.state_dict(), epochs=[0], fusion_weight=0.05)
    return run


@pytest.fixture(scope="session")
def data(films: RenderedWorld, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_rendered_dataset(folder, films, PlainEncoder(), rate=RATE, progress=False)
    return folder


@pytest.fixture(scope="session")
def run(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return fresh_run(tmp_path_factory.mktemp("runs") / "run", data)


@pytest.fixture(scope="session")
def trained(films: RenderedWorld, run: Run, tmp_path_factory: pytest.TempPathFactory) -> Library:
    lib = Library.create(tmp_path_factory.mktemp("trained") / "library", model=run.path, storage="fp32")
    assert len(lib.add([films.folder]).added) == len(films.videos)
    return lib


def witness_run(path: Path, data: Path, inputs: str = "raw") -> Run:
    """A run with a witness that has learnt nothing, but whose word counts more than the base's."""
    return add_witness(fresh_run(path, data), inputs)


def add_witness(run: Run, inputs: str = "raw") -> Run:
    torch.manual_seed(7)
    model = run.config.model
    shared = 0 if inputs == "raw" else model.width
    widths = (0, 0) if inputs == "encoded" else (model.query_width, model.visual_width)
    witness = Witness(*(shared + each for each in widths), WitnessConfig(width=16, hidden=8, neighbours=1), shared)
    torch.nn.init.normal_(witness.importance.weight)
    bank = torch.nn.functional.normalize(torch.randn(40, model.width), dim=-1)
    save_run_witness(run, FittedWitness(witness.eval(), 4.0, 0.5, bank, inputs))
    return run


@pytest.fixture(scope="session")
def witnessed(films: RenderedWorld, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Library:
    """A library like ``trained``, of the same base with a witness; read only."""
    made = witness_run(tmp_path_factory.mktemp("witness") / "run", data)
    lib = Library.create(tmp_path_factory.mktemp("witnessed") / "library", model=made.path, storage="fp32")
    assert len(lib.add([films.folder]).added) == len(films.videos)
    return lib
