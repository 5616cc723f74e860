"""Runs that were trained as ablation rows, to stand beside the rows read on one run's weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from prvr.evaluation.evaluate import evaluate_run
from prvr.evaluation.subject import Subject
from prvr.training import Run, RunError, TrainConfig


def retrained_row(config: TrainConfig) -> str | None:
    """Which ablation row a training configuration is, or None."""
    if config.trace_stage.epochs == 0:
        return "base"
    off = (config.trace.routing_strength == 0, config.trace.soft_weight == 0)
    return {(True, True): "direct_only", (True, False): "direct_soft", (False, True): "route_only"}.get(off)


def retrained_ranks(paths: Sequence[Path], subject: Subject, data: Path | None) -> dict[str, dict[str, Tensor]]:
    """Ranks of such runs on the subject's split, by row and run name; (Q,) each."""
    found: dict[str, dict[str, Tensor]] = {}
    for path in paths:
        run = Run(path)
        row = retrained_row(run.config)
        if row is None:
            raise RunError(
                f"{path} was trained with γ and η above 0: it is no ablation row; train one with "
                "--trace-stage.epochs 0, --trace.routing-strength 0 or --trace.soft-weight 0"
            )
        outcome = evaluate_run(run, data=data, split=subject.dataset.split, device=subject.device)
        if outcome.record.query_ids != subject.dataset.query_ids:
            raise RunError(f"{path} ranks other queries than {subject.run.path}: retrain it on the same dataset")
        scoring = "trace" if outcome.comparison is not None else "base"
        found.setdefault(row, {})[path.name] = outcome.record.ranks[scoring]
    return found
