"""What a method costs: parameters, time of an epoch, and the time that encoding and retrieval take here."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import torch

from prvr.evaluation.encoded_split import encode_subject
from prvr.evaluation.many_runs.evaluated import EvaluatedRun, found_data
from prvr.evaluation.subject import open_subject
from prvr.evaluation.timing import processor_name
from prvr.files import NotAnObject, read_json_object, write_whole
from prvr.scoring import encode_query_batches, encode_video_batches
from prvr.training import RunError, read_metrics

COST_FILE = "cost.json"  # beside the ranks


@dataclass(frozen=True)
class RunCost:
    """What one run costs. Times are wall times of one pass, in seconds."""

    backbone_parameters: int
    trace_parameters: int  # in addition
    seconds: dict[str, float]  # of the parts of an evaluation: "gallery encoding", "base similarity", …
    processor: str  # where these were measured
    videos: int
    queries: int

    def gallery(self, trace: bool) -> float | None:
        """Encoding of all videos."""
        return self._sum("gallery encoding", *(["TRACE factors"] if trace else []))

    def retrieval(self, trace: bool) -> float | None:
        """Encoding of all queries, similarity and ranking."""
        return self._sum("query encoding", "TRACE similarity" if trace else "base similarity", "ranking")

    def _sum(self, *parts: str) -> float | None:
        return sum(self.seconds[part] for part in parts) if all(part in self.seconds for part in parts) else None


def epoch_seconds(each: EvaluatedRun, phase: str) -> float | None:
    """The median time of an epoch of a phase, as the run logged it."""
    found = [float(record["seconds"]) for record in read_metrics(each.run.path) if record["phase"] == phase]
    return median(found) if found else None


def trained_on(each: EvaluatedRun) -> str:
    """The machine that the run was trained on."""
    machine = each.run.record.get("machine", {})
    return str(machine.get("gpu") or f"a CPU ({machine.get('processor', 'unknown')})")


def kept_cost(each: EvaluatedRun) -> RunCost | None:
    """What ``measure_cost`` kept beside the ranks."""
    try:
        return RunCost(**read_json_object(each.folder / COST_FILE))
    except (NotAnObject, TypeError):
        return None


def measure_cost(
    each: EvaluatedRun, device: torch.device | None, doing: Callable[[], None] = lambda: None
) -> RunCost | None:
    """What a run costs, measured here unless that was done before; kept beside its ranks.

    Args:
        device: where to measure; None: only what was kept is given, from any machine.
        doing: is called before something is measured.

    Raises:
        UserError: it cannot be measured, for example because its data is gone.
    """
    kept = kept_cost(each)
    if device is None or (kept is not None and kept.processor == processor_name(device)):
        return kept
    if found_data(each.run, each.config) is None:
        raise RunError(f"the data of {each.run.path} is not here")
    doing()
    subject = open_subject(each.run, split=each.split, weights=each.weights, device=device)
    backbone = subject.model.backbone
    with torch.no_grad():  # what is only slow the first time
        next(iter(encode_video_batches(backbone, subject.dataset.video_batches())))
        encode_query_batches(backbone, [subject.dataset.query_batch([0])])
    found = RunCost(
        backbone_parameters=sum(p.numel() for p in backbone.parameters()),
        trace_parameters=sum(p.numel() for p in subject.model.trace.parameters()) if subject.with_trace else 0,
        seconds=encode_subject(subject).times.seconds,
        processor=processor_name(device),
        videos=len(subject.dataset),
        queries=len(subject.dataset.captions),
    )
    _keep(each.folder / COST_FILE, found)
    return found


def _keep(path: Path, cost: RunCost) -> None:
    write_whole(path, json.dumps(asdict(cost), indent=1) + "\n")
