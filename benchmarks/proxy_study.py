"""``python benchmarks/proxy_study.py STUDY``: does TRACE help on the symbolic-video proxies, and when?

    python benchmarks/proxy_study.py STUDY --annotations DIR --encoder FOLDER              # a GPU
    python benchmarks/proxy_study.py STUDY --annotations DIR --encoder FOLDER --quick      # a CPU: small, one control

It builds proxies and trains DreamPRVR with TRACE on each. For each source, noise level and noise shape it compares base
branch, TRACE, ablations and corruptions of each seed with paired intervals; for the first noise level also the controls
(one seed). It writes STUDY/study.md and STUDY/study.json. Proxies in STUDY/data, runs in STUDY/runs and results in
STUDY/results are used again, so the same command continues after an interruption. Unknown flags go to `prvr train`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from prvr.evaluation import (
    Estimate,
    EvaluationRecord,
    Recall,
    backbone_ranks,
    compare_ranks,
    open_subject,
    recall_table,
    recalls,
    run_study,
    save_record,
    signed,
    summarise,
)
from prvr.files import write_whole
from prvr.processes import python_command
from prvr.trace import ABLATIONS, BASE_VARIANT, CORRUPTIONS, VARIANTS
from prvr.training import Run

CONTROLS = ("shuffled-pairs", "shuffled-frames")
# A small model that shows within minutes on a CPU whether anything is learned. The proxy preset lists the same flags.
QUICK = {
    "model.width": "64",
    "model.blocks": "4",
    "model.frames": "32",
    "model.dropout": "0.1",
    "model.input-dropout": "0.1",
    "model.similarity-temperature": "0.08",
    "model.hard-negative-epoch": "2",
    "backbone-stage.epochs": "3",
    "backbone-stage.learning-rate": "1e-3",
    "trace-stage.epochs": "2",
    "trace-stage.frozen-epochs": "1",
    "trace-stage.warmup-epochs": "1",
    "trace-stage.fusion-start": "1",
    "trace-stage.fusion-ramp": "1",
    "trace-stage.learning-rate": "2e-4",
    "trace-stage.snapshots": "1",
    "validate-every": "5",
}


@dataclass(frozen=True)
class Cell:
    """One proxy and the seeds trained on it."""

    source: str
    noise: str
    shape: str
    control: str
    seeds: tuple[int, ...]

    @property
    def name(self) -> str:
        control = "" if self.control == "none" else f"-{self.control}"
        return f"{self.source}-{self.noise}-{self.shape}{control}"


def cells(arguments: argparse.Namespace) -> Iterator[Cell]:
    seeds = tuple(arguments.seeds)
    for source, noise, shape in product(arguments.sources, arguments.noise, arguments.shapes):
        yield Cell(source, noise, shape, "none", seeds)
        if noise == arguments.noise[0] and shape == arguments.shapes[0]:
            yield from (Cell(source, noise, shape, control, seeds[:1]) for control in arguments.controls)


def build_proxy(cell: Cell, arguments: argparse.Namespace) -> Path:
    """The folder of a cell's proxy, which is built if it does not exist."""
    folder: Path = arguments.out / "data" / cell.name
    if not (folder / "proxy").exists():
        command = python_command("prvr", "data", "proxy", cell.source, "--out", str(folder))
        command += ["--annotations", str(arguments.annotations), "--encoder", arguments.encoder]
        command += ["--noise", cell.noise, "--shape", cell.shape, "--control", cell.control]
        if subprocess.run(command, check=False).returncode != 0:
            sys.exit(f"the proxy {cell.name} could not be made")
    return folder


def result_file(cell: Cell, seed: int, arguments: argparse.Namespace) -> Path:
    """The file with the numbers of one run."""
    place: Path = arguments.out / "results" / cell.name / f"seed-{seed}.json"
    return place


def train_and_evaluate(cell: Cell, seed: int, arguments: argparse.Namespace, flags: Sequence[str]) -> None:
    """Train one seed on a cell's proxy and evaluate it. Output goes to RUN.log."""
    data, run = arguments.out / "data" / cell.name, arguments.out / "runs" / cell.name / f"seed-{seed}"
    place = result_file(cell, seed, arguments)
    run.parent.mkdir(parents=True, exist_ok=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    training = python_command("prvr", "train", "proxy", "--data", str(data), "--out", str(run))
    training += ["--seed", str(seed), "--resume", *flags]
    evaluation = [sys.executable, __file__, str(arguments.out), "--evaluate", str(data), str(run), str(place)]
    for what, command in (("training", training), ("evaluation", evaluation)):
        with run.with_suffix(".log").open("a") as log:
            ended = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False)
        if ended.returncode != 0:
            raise RuntimeError(f"{what} failed: see {run.with_suffix('.log')}")
    print(f"{cell.name}, seed {seed}: done", file=sys.stderr, flush=True)


def evaluate(data: Path, run: Run, device: torch.device) -> dict[str, Any]:
    """Evaluate one run: all numbers, as JSON values. Its ranks are saved beside the run."""
    subject = open_subject(run, data=data, device=device)
    found = run_study(subject, timed=False)
    columns: dict[str, Tensor] = dict(found.ranks)
    alone = backbone_ranks(subject)
    if alone is not None:
        columns["backbone"] = alone
    columns |= {f"{name}_any": ranks for name, ranks in found.any_ranks.items()}
    record = EvaluationRecord(subject.dataset.query_ids, subject.owners, columns, subject.protocol)
    save_record(record, run.path / "eval" / "proxy-study")
    base, trace = columns["base"], columns["trace"]
    return {
        "videos": len(subject.dataset),
        "queries": len(base),
        "selection": subject.selection,
        "recalls": {name: recall.as_dict() for name, recall in record.recalls().items()},
        "against base": {
            v.key: compare_ranks(base, columns[v.key]).as_dict() for v in VARIANTS if v is not BASE_VARIANT
        },
        "trace against": {v.key: compare_ranks(columns[v.key], trace).as_dict() for v in CORRUPTIONS},
        "sweep": {
            letter: {f"{value:g}": recalls(ranks).sum_r for value, ranks in values.items()}
            for letter, values in found.sweeps.items()
        },
        "registers": None if found.spread is None else vars(found.spread),
    }


def markdown(name: str, found: Sequence[Mapping[str, Any]]) -> str:
    """The tables of one cell, seeds side by side."""
    first = found[0]
    chance = 100 * sum(min(1.0, k / first["videos"]) for k in (1, 5, 10, 100))
    about = f"{first['queries']:,} queries, {first['videos']:,} videos; chance SumR {chance:.1f}; {len(found)} seed(s)"
    labels = {"backbone": "backbone phase alone", "base": "base branch", "trace": "TRACE"}
    several = {"base_any": "base branch, any correct video", "trace_any": "TRACE, any correct video"}
    lines = [f"## {name}", about, ""]
    for group in (labels, several):
        rows = {label: _summary(found, key) for key, label in group.items() if key in first["recalls"]}
        lines += [recall_table(rows).markdown(), ""] if rows else []
    lines += ["| variant | SumR | ΔSumR to the base branch, each seed |", "|---|--:|---|"]
    for number, variant in enumerate(ABLATIONS):
        lines.append(_variant_row(f"({number}) {variant.label}", variant.key, found))
    lines += [_variant_row(f"corrupted: {variant.label}", variant.key, found) for variant in CORRUPTIONS]
    lines += ["", "TRACE against its corruptions, each seed:"]
    for variant in CORRUPTIONS:
        lines.append(f"- {variant.label}: {_each(result['trace against'][variant.key] for result in found)}")
    lines.append(f"\nRegisters: {'; '.join(json.dumps(result['registers']) for result in found)}\n")
    return "\n".join(lines)


def overview(everything: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Every variant's ΔSumR to the base branch, proxies side by side: mean over seeds, and how many are significant."""
    lines = ["## ΔSumR to the base branch: mean over seeds (least … most)", ""]
    lines += [f"| variant | {' | '.join(everything)} |", f"|---|{'---|' * len(everything)}"]
    for variant in dict.fromkeys((*ABLATIONS, *CORRUPTIONS)):
        if variant is not BASE_VARIANT:
            each = (_span(result["against base"][variant.key] for result in found) for found in everything.values())
            lines.append(f"| {variant.label} | {' | '.join(each)} |")
    return "\n".join([*lines, "", "↑, ↓: a seed whose 95 % interval lies above, below 0.", ""])


def _span(comparisons: Iterator[Mapping[str, Any]]) -> str:
    estimates = [Estimate(**comparison["sum_r"]) for comparison in comparisons]
    deltas = [estimate.delta for estimate in estimates]
    sure = "".join("↑" if e.low > 0 else "↓" if e.high < 0 else "" for e in estimates)
    between = f" ({signed(min(deltas))} … {signed(max(deltas))})" if len(deltas) > 1 else ""
    return f"{signed(fmean(deltas))}{between}{' ' if sure else ''}{sure}"


def _summary(found: Sequence[Mapping[str, Any]], key: str) -> Any:
    return summarise([Recall.from_dict(result["recalls"][key]) for result in found])


def _variant_row(label: str, key: str, found: Sequence[Mapping[str, Any]]) -> str:
    total = _summary(found, key).mean.sum_r
    change = "" if key == "base" else _each(result["against base"][key] for result in found)
    return f"| {label} | {total:.1f} | {change} |"


def _each(comparisons: Iterator[Mapping[str, Any]] | Any) -> str:
    estimates = [Estimate(**comparison["sum_r"]) for comparison in comparisons]
    listed = " / ".join(map(str, estimates))
    return listed if len(estimates) == 1 else f"{signed(fmean(e.delta for e in estimates))}: {listed}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, metavar="STUDY")
    parser.add_argument("--annotations", type=Path, help="as for `prvr data proxy`; not needed where the proxies exist")
    parser.add_argument("--encoder", default="minilm", help="as for `prvr data proxy`")
    parser.add_argument("--sources", nargs="+", default=["charades", "activitynet"])
    parser.add_argument("--noise", nargs="+", default=["mid", "lo"], help="levels; controls use the first")
    parser.add_argument("--shapes", nargs="+", default=["correlated", "independent"], help="controls use the first")
    parser.add_argument("--controls", nargs="*", default=list(CONTROLS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--at-once", type=int, default=1, help="runs that train side by side")
    parser.add_argument("--evaluate", type=Path, nargs=3, help=argparse.SUPPRESS)  # DATA RUN RESULT: one trained run
    parser.add_argument("--quick", action="store_true", help="one small run and its shuffled pairs, on a CPU")
    arguments, flags = parser.parse_known_args()
    if arguments.evaluate:
        data, run, place = arguments.evaluate
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        write_whole(place, json.dumps(evaluate(data, Run(run), device), indent=1))
        return
    if arguments.quick:
        small = [word for name, value in QUICK.items() for word in (f"--{name}", value)]
        arguments.sources, arguments.noise, arguments.shapes = arguments.sources[:1], ["mid"], ["correlated"]
        arguments.controls, arguments.seeds, flags = ["shuffled-pairs"], arguments.seeds[:1], [*small, *flags]
    todo = [
        (cell, seed)
        for cell in cells(arguments)
        for seed in cell.seeds
        if not result_file(cell, seed, arguments).exists()
    ]
    todo.sort(key=lambda pair: pair[0].control != "none")  # controls last
    for cell in dict.fromkeys(cell for cell, _ in todo):
        build_proxy(cell, arguments)
    with ThreadPoolExecutor(arguments.at_once) as pool:
        for ended in [pool.submit(train_and_evaluate, cell, seed, arguments, flags) for cell, seed in todo]:
            try:
                ended.result()
            except RuntimeError as error:
                pool.shutdown(wait=False, cancel_futures=True)
                sys.exit(str(error))
    everything = {
        cell.name: [json.loads(result_file(cell, seed, arguments).read_text()) for seed in cell.seeds]
        for cell in cells(arguments)
    }
    write_whole(arguments.out / "study.json", json.dumps(everything, indent=1))
    page = "\n".join([overview(everything), *(markdown(name, found) for name, found in everything.items())])
    write_whole(arguments.out / "study.md", page)
    print(page)


if __name__ == "__main__":
    main()
