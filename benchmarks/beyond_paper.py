"""``python benchmarks/beyond_paper.py STUDY``: do the gate and hybrid register sets help?

Both are compared with the paper's operator on a small synthetic world, in three questions, each with paired 95 %
intervals over test queries:

- training: does TRACE gain more when it is *trained* with an option?
- scoring: does an option help when it is only switched on for *scoring*, with λ chosen on validation?
- frozen transfer: does it help a backbone without registers?

It prints Markdown tables and writes STUDY/study.json. It needs no GPU and takes 40 minutes on a shared core. An
interrupted study continues when the same command is run again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import Tensor

from prvr.data import Dataset
from prvr.evaluation import TRANSFER_LAMBDAS, compare_ranks, encode_split, ranks, recalls, transfer_trace
from prvr.scoring import Gallery, Scores, encode_query_batches, score_parts
from prvr.trace import ANCHOR_KINDS, Trace, TraceConfig
from prvr.training import (
    Run,
    TraceModel,
    TrainConfig,
    Trainer,
    config_from_dict,
    config_to_dict,
    join_processes,
    load_preset,
    load_split,
)
from prvr.worlds import FEATURE_SIZES, write_feature_world

OPERATORS: dict[str, dict[str, Any]] = {
    "paper": {},
    "gate": {"gate": True},
    "hybrid": {"anchors": "hybrid"},
    "gate + hybrid": {"gate": True, "anchors": "hybrid"},
}


def train_run(config: TrainConfig, world: Path, folder: Path) -> Run:
    """Train a run to its end; one that is finished already is returned as it is."""
    run = Run(folder)
    if not (folder / "run.json").exists():
        run.create(config, world)
    with join_processes("cpu") as group:
        Trainer(config, world, run, group, Console(stderr=True)).train()
    return run


def frozen_config(seed: int) -> TrainConfig:
    """HLFormer, which has no registers, at the demo's size."""
    demo = config_to_dict(load_preset("demo"))
    model = {name: demo["model"][name] for name in ("visual_width", "query_width", "width", "blocks", "frames")}
    model |= {"dropout": 0.1, "input_dropout": 0.1, "hyperbolic_width": 31, "hard_negative_epoch": 6}
    values = {name: demo[name] for name in ("data", "backbone_stage", "batch_size")}
    values |= {"method": "hlformer", "model": model, "seed": seed, "selection": "last", "trace_stage": {"epochs": 0}}
    return config_from_dict(values, "hlformer")


def operator_scores(model: TraceModel, operator: TraceConfig, dataset: Dataset) -> Scores:
    """Base and evidence scores of a split, with the model's weights and any operator."""
    trace = Trace(model.trace.width, operator)
    trace.load_state_dict(model.trace.state_dict())
    gallery = Gallery.build(model.backbone, trace, dataset.video_batches())
    return score_parts(encode_query_batches(model.backbone, dataset.query_batches()), gallery)


def rank(scores: Scores, weight: float, dataset: Dataset) -> Tensor:
    return ranks(scores.final(weight), dataset.query_video)


def compared(before: Tensor, after: Tensor) -> dict[str, Any]:
    """SumR of the second ranking, and its gain over the first with a 95 % interval."""
    c = compare_ranks(before, after)
    return {"sum_r": recalls(after).sum_r, "delta": c.delta_sum_r, "low": c.low, "high": c.high}


def study_scoring(run: Run) -> dict[str, Any]:
    """Each operator on one model: at the paper's λ, and at the λ that is best on validation."""
    model, _ = run.load_model()
    validation, test = (load_split(run.config, run.data, split) for split in ("val", "test"))
    found: dict[str, Any] = {}
    paper: Tensor | None = None
    for name, options in OPERATORS.items():
        operator = replace(run.config.trace, **options)
        on_validation, on_test = operator_scores(model, operator, validation), operator_scores(model, operator, test)
        chosen = max(
            (0.0, *TRANSFER_LAMBDAS), key=lambda weight: recalls(rank(on_validation, weight, validation)).sum_r
        )
        base, fixed, best = (rank(on_test, weight, test) for weight in (0.0, operator.fusion_weight, chosen))
        paper = best if paper is None else paper
        found[name] = {
            "base": recalls(base).sum_r,
            "paper's λ": compared(base, fixed),
            "chosen λ": compared(base, best) | {"λ": chosen},
            "against paper": compared(paper, best),
        }
    return found


def study_training(runs: Mapping[str, Run]) -> dict[str, Any]:
    """Each operator with the weights it was trained with, against its own base and the paper's operator."""
    found: dict[str, Any] = {}
    paper: Tensor | None = None
    for name, run in runs.items():
        model, _ = run.load_model()
        test = load_split(run.config, run.data, "test")
        scores = operator_scores(model, run.config.trace, test)
        base, final = (rank(scores, weight, test) for weight in (0.0, run.config.trace.fusion_weight))
        paper = final if paper is None else paper
        found[name] = {
            "base": recalls(base).sum_r,
            "own base": compared(base, final),
            "against paper": compared(paper, final),
        }
    return found


def study_transfer(run: Run) -> dict[str, Any]:
    """The paper's anchors or the hybrid set, gated or not. Anchor and λ are chosen on validation."""
    model, _ = run.load_model()
    splits = [encode_split(model.backbone, load_split(run.config, run.data, split)) for split in ("val", "test")]
    found: dict[str, Any] = {}
    for gate in (False, True):
        for name, kinds in (("paper's anchors", ANCHOR_KINDS[:-1]), ("hybrid", ANCHOR_KINDS[-1:])):
            t = transfer_trace(*splits, kinds=kinds, config=TraceConfig(gate=gate))
            c = t.comparison
            found[f"{name}, gated" if gate else name] = {
                "base": t.base.sum_r,
                "chosen": {"sum_r": t.final.sum_r, "delta": c.delta_sum_r, "low": c.low, "high": c.high}
                | {"λ": t.fusion_weight, "anchor": t.anchor},
            }
    return found


def table(title: str, studies: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Markdown: a row per operator, in each cell one ΔSumR with its interval per seed."""
    print(f"\n**{title}**\n\n| | base SumR | {' | '.join(columns)} |\n|---|---|{'---|' * len(columns)}")
    for name in studies[0]:
        bases = " / ".join(f"{study[name]['base']:.1f}" for study in studies)
        cells = ["<br>".join(cell(study[name][column]) for study in studies) for column in columns]
        print(f"| {name} | {bases} | {' | '.join(cells)} |")


def cell(found: Mapping[str, Any]) -> str:
    extra = "".join(f", {key} {found[key]}" for key in ("anchor", "λ") if key in found)
    return f"{found['delta']:+.2f} [{found['low']:+.2f}, {found['high']:+.2f}]{extra}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path, help="folder for world, runs and study.json")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    arguments = parser.parse_args()
    world = arguments.study / "world"
    if not world.exists():
        write_feature_world(world, replace(FEATURE_SIZES["demo"], train=400, val=200), progress=False)

    def folder(name: str, seed: int) -> Path:
        return arguments.study / f"{name.replace(' + ', '-')}-seed{seed}"

    found: dict[str, list[dict[str, Any]]] = {"training": [], "scoring": [], "transfer": []}
    for seed in arguments.seeds:
        demo = replace(load_preset("demo"), seed=seed)
        runs = {
            name: train_run(replace(demo, trace=replace(demo.trace, **options)), world, folder(name, seed))
            for name, options in OPERATORS.items()
        }
        frozen = train_run(frozen_config(seed), world, folder("hlformer", seed))
        with torch.no_grad():
            found["training"].append(study_training(runs))
            found["scoring"].append(study_scoring(runs["paper"]))
            found["transfer"].append(study_transfer(frozen))
        (arguments.study / "study.json").write_text(json.dumps(found, indent=1, ensure_ascii=False), "utf-8")
    table("Trained with the operator, λ = 0.03", found["training"], ["own base", "against paper"])
    table("Switched on while scoring", found["scoring"], ["paper's λ", "chosen λ", "against paper"])
    table("Frozen transfer (HLFormer)", found["transfer"], ["chosen"])


if __name__ == "__main__":
    main()
