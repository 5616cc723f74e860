"""``python benchmarks/phase_split.py DATA --out STUDY``: which part of the TRACE phase raises the base branch?

    prvr data proxy charades --annotations ANNOTATIONS --out DATA --encoder MODEL
    python benchmarks/phase_split.py DATA --out STUDY --epochs 30 18      # a GPU: full size
    python benchmarks/phase_split.py DATA --out STUDY --quick             # a CPU: small

It trains DreamPRVR and then, with the same seed, four second phases: as in the paper; with both evidence losses at
weight 0; with the fused score inside the backbone's losses; and none, but as many more epochs of the backbone's own
schedule. The mean over the last epochs is compared
with the last epoch of the same training. It prints ΔSumR of the base branch and of TRACE against the backbone before
the phase, with intervals that draw whole videos, and writes STUDY/phase_split.json.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from proxy_study import QUICK
from torch import Tensor

from prvr.evaluation import RankPair, open_subject, pooled_change, ranks, recalls
from prvr.files import write_whole
from prvr.terminal import Console
from prvr.training import Run, TrainConfig, Trainer, config_from_dict, config_to_dict, join_processes, load_preset
from prvr.training import split_scores as scores_of


def train_run(config: TrainConfig, data: Path, folder: Path) -> Run:
    """A finished run: trained, continued, or found."""
    run = Run(folder)
    with join_processes("auto") as group:
        trainer = Trainer(config, data, run, group, Console())
        with run.locked(group):
            if not (folder / "run.json").exists():
                run.create(config, data, fingerprint=trainer.fingerprint)
            trainer.train()
    return run


def small(config: TrainConfig) -> TrainConfig:
    """The flags of ``proxy_study.py --quick``."""
    values = config_to_dict(config)
    for flag, value in QUICK.items():
        *rooms, key = flag.replace("-", "_").split(".")
        room = values[rooms[0]] if rooms else values
        room[key] = type(room[key])(float(value))
    return config_from_dict(values, "--quick")


def variants(config: TrainConfig) -> dict[str, TrainConfig]:
    stage = config.trace_stage
    alone = replace(config.backbone_stage, epochs=config.epochs)
    return {
        "full": config,
        "evidence losses at 0": replace(config, trace_stage=replace(stage, weight_nce=0.0, weight_triplet=0.0)),
        "fused score in the losses": replace(config, trace_stage=replace(stage, fused_base=True)),
        "backbone's own schedule": replace(config, backbone_stage=alone, trace_stage=replace(stage, epochs=0)),
    }


@torch.no_grad()
def ranks_of(run: Run, data: Path, weights: str | None, device: torch.device) -> dict[str, Tensor]:
    subject = open_subject(run, data=data, weights=weights, device=device)
    found = scores_of(subject.model, subject.dataset, use_trace=subject.with_trace)
    columns = {"base": ranks(found.base, subject.dataset.query_video).cpu()}
    if subject.with_trace:
        columns["TRACE"] = ranks(found.final(subject.fusion_weight), subject.dataset.query_video).cpu()
    return columns


def study(arguments: argparse.Namespace) -> dict[str, dict[str, list[RankPair]]]:
    """By row and scoring, the pairs (before the phase, after it) of every seed."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    pairs: dict[str, dict[str, list[RankPair]]] = {}
    for seed in arguments.seeds:
        config = replace(load_preset(arguments.preset), seed=seed, compile=arguments.compile, validate_every=10)
        if arguments.quick:
            config = small(config)
        elif arguments.epochs:
            first, second = arguments.epochs
            backbone = replace(config.backbone_stage, epochs=first)
            parts = {"frozen_epochs": 9, "warmup_epochs": 9, "fusion_start": 2, "fusion_ramp": 3}
            shorter: dict[str, Any] = {name: max(1, second // part) for name, part in parts.items()}
            trace = replace(config.trace_stage, epochs=second, **shorter)
            config = replace(config, backbone_stage=backbone, trace_stage=trace)
        before: Tensor | None = None
        for name, changed in variants(config).items():
            run = train_run(changed, arguments.data, arguments.out / f"{name.replace(' ', '-')}-{seed}")
            owners = open_subject(run, data=arguments.data).owners
            if before is None:
                before = ranks_of(run, arguments.data, "backbone", device)["base"]
            for weights, label in ((None, name), ("last", f"{name}, last epoch")):
                for scoring, column in ranks_of(run, arguments.data, weights, device).items():
                    rows = pairs.setdefault(label, {}).setdefault(scoring, [])
                    rows.append(RankPair(before, column, owners))
    return pairs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, metavar="DATA")
    parser.add_argument("--out", type=Path, required=True, metavar="STUDY")
    parser.add_argument("--preset", default="proxy")
    parser.add_argument("--epochs", type=int, nargs=2, help="of the two phases; the preset's by default")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--compile", default="auto", choices=("auto", "on", "off"))
    parser.add_argument("--quick", action="store_true", help="a small model, for a CPU")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    found, lines = study(arguments), ["| after the phase | scoring | SumR | ΔSumR to the backbone before it |"]
    lines.append("|---|---|--:|---|")
    table = []
    for label, scorings in found.items():
        for scoring, pairs in scorings.items():
            change = pooled_change(pairs)
            total = sum(recalls(pair.other).sum_r for pair in pairs) / len(pairs)
            lines.append(f"| {label} | {scoring} | {total:.1f} | {change} |")
            table.append({"row": label, "scoring": scoring, "sum_r": round(total, 2), "change": vars(change)})
    write_whole(arguments.out / "phase_split.json", json.dumps(table, indent=1))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
