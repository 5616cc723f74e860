"""``python benchmarks/synth_study.py WORLD --out STUDY``: does TRACE help on the synthetic world, and why?

    prvr data synth WORLD --size full
    python benchmarks/synth_study.py WORLD --out STUDY

It trains several seeds at full size, each in a process of its own, and looks at the parts of the scores. It needs a GPU
and takes about two minutes per seed. It prints Markdown tables and writes STUDY/study.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from prvr.data import Dataset
from prvr.evaluation import Recall, compare_ranks, evaluate_run, ranks, recall_table, recalls, summarise
from prvr.processes import python_command
from prvr.scoring import Gallery, Scores, encode_query_batches, score_parts
from prvr.trace import TraceConfig
from prvr.training import Run, TraceModel, load_split

LAMBDAS = (0.01, 0.03, 0.1, 0.3, 1.0)


def train(world: Path, out: Path, seeds: list[int], flags: list[str]) -> None:
    """Each seed in its own process; their epoch lines go to seed-N.log."""
    running = []
    for seed in seeds:
        log = (out / f"seed-{seed}.log").open("w")
        command = python_command("prvr", "train", "synth", "--data", str(world))
        command += ["--out", str(out / f"seed-{seed}"), "--seed", str(seed), "--resume", *flags]
        running.append(subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT))
    failed = [seed for seed, process in zip(seeds, running, strict=True) if process.wait() != 0]
    if failed:
        sys.exit(f"training failed for seeds {failed}: see {out}/seed-N.log")


def score_matrices(model: TraceModel, dataset: Dataset) -> dict[str, Tensor]:
    """The parts of the evidence score as score matrices (Q, V), from one encoding."""
    device = next(model.parameters()).device
    gallery = Gallery.build(model.backbone, model.trace, dataset.video_batches()).to(device)
    queries = encode_query_batches(model.backbone, dataset.query_batches())

    def trace(**changes: float) -> Tensor:
        changed: TraceConfig = replace(gallery.config, **changes)
        scores: Scores = score_parts(queries, replace(gallery, config=changed))
        assert scores.trace is not None
        return scores.trace

    full, route = trace(), trace(soft_weight=0.0)
    direct = trace(soft_weight=0.0, routing_strength=0.0)
    return {
        "base": score_parts(queries, gallery).base,
        "full": full,
        "route": route,
        "direct": direct,
        "soft": (full - route) / gallery.config.soft_weight,
        "strong_route": trace(soft_weight=0.0, routing_strength=3.0),
    }


def registers_apart(model: TraceModel, dataset: Dataset) -> dict[str, float]:
    """How different registers are within a video and between videos, and how evenly queries activate them."""
    device = next(model.parameters()).device
    batch = dataset.video_batch(range(min(200, len(dataset)))).to(device)
    queries = dataset.query_batch(range(min(400, len(dataset.captions)))).to(device)
    with torch.no_grad():
        tokens = model.backbone.encode_videos(batch.frames, batch.frame_mask, batch.clips)
        vectors = model.backbone.encode_queries(queries.tokens, queries.mask)
        evidence = model.trace.evidence(vectors, tokens)
        keys = model.trace.factors(tokens).registers  # (V, R, D)
    count = keys.shape[1]
    within = (keys @ keys.transpose(1, 2)).sum((1, 2)).sub(count) / (count * (count - 1))
    mean = torch.nn.functional.normalize(keys.mean(1), dim=-1)
    between = (mean @ mean.T).sub(torch.eye(len(mean), device=device)).sum() / (len(mean) * (len(mean) - 1))
    entropy = -(evidence.activation * evidence.activation.clamp(min=1e-12).log()).sum(-1).mean()
    return {
        "cosine of registers of one video": float(within.mean()),
        "cosine of mean registers of two videos": float(between),
        "activation entropy / log R": float(entropy / torch.log(torch.tensor(float(count)))),
        "sd of affinity over videos": float(evidence.affinity.amax(-1).std(1).mean()),
        "sd of direct maximum over videos": float(evidence.direct.nan_to_num(-1).amax(-1).std(1).mean()),
    }


def peak_subset(world: Path, dataset: Dataset, base: Tensor) -> Tensor:
    """Queries whose best wrong video (by base score) has a planted peak that imitates the query's own video."""
    planted = json.loads((world / "synth" / "world.json").read_text("utf-8"))["unsupported_peaks"]
    pairs = {(peak["video"], peak["mimics_video"]) for peak in planted}
    truth = dataset.query_video.to(base.device)
    rival = base.scatter(1, truth[:, None], -torch.inf).argmax(1).tolist()
    ids = dataset.video_ids
    hit = [(ids[r], ids[t]) in pairs for r, t in zip(rival, truth.tolist(), strict=True)]
    return torch.tensor(hit)


def study(world: Path, run: Run, device: torch.device) -> dict[str, Any]:
    outcome = evaluate_run(run, data=world, device=device)
    dataset = load_split(run.config, world, "test").to(device)
    truth = dataset.query_video.to(device)
    scores = score_matrices(outcome.model, dataset)
    base = ranks(scores["base"], truth).cpu()
    sweep = {
        f"{name} λ={weight}": compare_ranks(base, ranks(scores["base"] + weight * scores[name], truth).cpu())
        for name in ("full", "route", "direct", "soft", "strong_route")
        for weight in LAMBDAS
    }
    peaks = peak_subset(world, dataset, scores["base"])
    trace = outcome.record.ranks["trace"]
    many = {name: ranks(outcome.scores.final(w), dataset.positives) for name, w in (("base", 0.0), ("trace", 0.03))}
    return {
        "recalls": {name: recall.as_dict() for name, recall in outcome.record.recalls().items()},
        "comparison": None if outcome.comparison is None else outcome.comparison.as_dict(),
        "several positives": {name: recalls(r.cpu()).as_dict() for name, r in many.items()},
        "alone": {name: recalls(ranks(matrix, truth).cpu()).as_dict() for name, matrix in scores.items()},
        "sweep": {name: [c.delta_sum_r, c.low, c.high] for name, c in sweep.items()},
        "registers": registers_apart(outcome.model, dataset),
        "planted": {
            "queries": int(peaks.sum()),
            "mean gain there": float((base - trace)[peaks].float().mean()) if peaks.any() else None,
            "mean gain elsewhere": float((base - trace)[~peaks].float().mean()),
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("world", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--json", type=Path, help="where to write the numbers [default: OUT/study.json]")
    arguments, flags = parser.parse_known_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    train(arguments.world, arguments.out, arguments.seeds, flags)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    results = {seed: study(arguments.world, Run(arguments.out / f"seed-{seed}"), device) for seed in arguments.seeds}
    (arguments.json or arguments.out / "study.json").write_text(json.dumps(results, indent=1))

    def rows(kind: str) -> dict[str, Any]:
        names = next(iter(results.values()))[kind]
        return {name: summarise([Recall.from_dict(f[kind][name]) for f in results.values()]) for name in names}

    print(recall_table(rows("recalls"), note="the labelled video only").markdown())
    print(recall_table(rows("several positives"), note="any correct video").markdown())
    print(recall_table(rows("alone"), note="each ingredient ranking by itself").markdown())
    for seed, result in results.items():
        print(f"seed {seed}: TRACE against base {result['comparison']['sum_r']}")
        print(f"  {result['registers']}\n  {result['planted']}")
        print("  ", {name: round(values[0], 2) for name, values in result["sweep"].items()})


if __name__ == "__main__":
    main()
