"""The methods: each row comes from the registered class, its preset, the published table and a golden."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from prvr.backbones import Backbone, CheckpointMismatch, build, methods
from prvr.data import DATASETS
from prvr.evaluation.goldens import Checked, Golden, check_scores, check_trace, read_golden
from prvr.evaluation.published import published_sum_r
from prvr.trace import Trace
from prvr.training import ConfigError, load_preset

_HOST = "dreamprvr"  # the method that TRACE is trained on in its paper


@dataclass(frozen=True)
class ZooRow:
    """One method."""

    method: str  # what --method takes
    title: str
    year: int | None
    parameters: int | None  # with a dataset's preset; None where it has none
    needs: tuple[str, ...]
    separable: bool | None  # whether a gallery can be prepared; None as for parameters
    published: dict[str, float | None]  # dataset -> SumR on the standard features
    published_clip: dict[str, float | None]  # the same on CLIP features
    golden: Checked | None  # None: there was none to check against
    official: bool  # whether authors' checkpoints can be read
    problem: str = ""  # why a golden's official state dict did not load

    @property
    def official_state(self) -> str:
        """In words: a golden holds the authors' keys, so a golden that was recomputed is a state dict that loaded."""
        if not self.official:
            return "none to load"
        if self.problem:
            return f"fails: {self.problem}"
        return "loads" if self.golden is not None else "not tried"


def zoo_rows(dataset: str = "charades", goldens: str | Path | None = None) -> list[ZooRow]:
    """Every published method, oldest first, and TRACE on its host; golden checks where a folder of them is given."""
    listed = {name: cls for name, cls in methods().items() if cls.trainable or cls.year is not None}
    rows = [_row(name, cls, dataset, goldens) for name, cls in listed.items()]
    rows.sort(key=lambda row: (row.year is None, row.year or 0, row.title))
    return [*rows, _trace_row(next(row for row in rows if row.method == _HOST), dataset, goldens)]


def _row(name: str, cls: type[Backbone], dataset: str, goldens: str | Path | None) -> ZooRow:
    golden = None if goldens is None else read_golden(goldens, name)
    checked, problem = _check(name, golden)
    model = _built(name, dataset)
    return ZooRow(
        method=name,
        title=cls.title or name,
        year=cls.year,
        parameters=None if model is None else sum(p.numel() for p in model.parameters()),
        needs=cls.needs,
        separable=None if model is None else model.separable,
        published=_published(name),
        published_clip=_published(name, "_clip_L14"),
        golden=checked,
        official=cls.reads_official(),
        problem=problem,
    )


def _trace_row(host: ZooRow, dataset: str, goldens: str | Path | None) -> ZooRow:
    golden, model = None if goldens is None else read_golden(goldens, "trace"), _built(_HOST, dataset)
    added = None if model is None else sum(p.numel() for p in Trace(model.width).parameters())
    return ZooRow(
        method=f"{_HOST} + trace",
        title="TRACE",
        year=2026,
        parameters=None if added is None or host.parameters is None else host.parameters + added,
        needs=(),
        separable=host.separable,
        published=_published("trace"),
        published_clip=_published("trace", "_clip_L14"),
        golden=None if golden is None else check_trace(golden),
        official=False,
    )


def _built(name: str, dataset: str) -> Backbone | None:
    """The method with a dataset's preset, without storage for its weights; None where it has no preset."""
    try:
        config = load_preset(dataset, name)
    except ConfigError:
        return None
    try:
        with torch.device("meta"):
            return build(name, config.model)
    except NotImplementedError:  # it computes with values while it is built
        return build(name, config.model)


def _published(method: str, feature: str | None = None) -> dict[str, float | None]:
    return {name: published_sum_r(method, name, feature) for name, spec in DATASETS.items() if "test" in spec.sentences}


def _check(name: str, golden: Golden | None) -> tuple[Checked | None, str]:
    if golden is None:
        return None, ""
    try:
        return check_scores(name, golden), ""
    except CheckpointMismatch as error:
        return None, str(error)
