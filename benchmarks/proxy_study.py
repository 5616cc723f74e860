"""Does TRACE help on the symbolic-video proxies, and when? Build them, train DreamPRVR and TRACE, compare.

    python benchmarks/proxy_study.py STUDY --annotations DIR --encoder FOLDER              (a GPU)
    python benchmarks/proxy_study.py STUDY --annotations DIR --encoder FOLDER --quick      (a CPU: small, one control)

For each source, noise level and noise shape: base branch, TRACE, ablations and corruptions of each seed with paired
intervals; for the first noise level, the controls too (one seed). Writes STUDY/study.md and STUDY/study.json. What is
there already is not made again (proxies in STUDY/data, runs in STUDY/runs, results in STUDY/results), so the same
command goes on after an interruption. Flags it does not know go to `prvr train`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from prvr.evaluation import EvaluationRecord, Recall, compare_ranks, recall_table, recalls, save_record, summarise
from prvr.evaluation.evaluate import backbone_ranks
from prvr.evaluation.significance import Estimate, signed
from prvr.evaluation.study import study
from prvr.evaluation.subject import open_subject
from prvr.files import write_whole
from prvr.trace.variants import ABLATIONS, BASE, CORRUPTIONS, VARIANTS
from prvr.training import Run

CONTROLS = ("shuffled-pairs", "shuffled-frames")
# A model that shows on a CPU, in minutes, whether anything is learned; the proxy preset lists the same flags.
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


def built(cell: Cell, arguments: argparse.Namespace) -> Path:
    """The folder of a cell's proxy, made if it is not there."""
    folder: Path = arguments.out / "data" / cell.name
    if not (folder / "proxy").exists():
        command = [sys.executable, "-m", "prvr", "data", "proxy", cell.source, "--out", str(folder)]
        command += ["--annotations", str(arguments.annotations), "--encoder", arguments.encoder]
        command += ["--noise", cell.noise, "--shape", cell.shape, "--control", cell.control]
        if subprocess.run(command, check=False).returncode != 0:
            sys.exit(f"the proxy {cell.name} could not be made")
    return folder


def train(todo: Sequence[tuple[Path, Path, int]], at_once: int, flags: Sequence[str]) -> None:
    """Train (data, run, seed) after (data, run, seed), some side by side; their epoch lines go to RUN.log."""
    for first in range(0, len(todo), at_once):
        running = []
        for data, run, seed in todo[first : first + at_once]:
            run.parent.mkdir(parents=True, exist_ok=True)
            command = [sys.executable, "-m", "prvr", "train", "proxy", "--data", str(data), "--out", str(run)]
            command += ["--seed", str(seed), "--resume", *flags]
            log = run.with_suffix(".log").open("a")
            running.append((run, subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)))
        failed = [run for run, process in running if process.wait() != 0]
        if failed:
            sys.exit(f"training failed: see {failed[0].with_suffix('.log')}")


def result(data: Path, run: Run, device: torch.device) -> dict[str, Any]:
    """Everything about one run, as plain numbers; its ranks are saved beside the run."""
    subject = open_subject(run, data=data, device=device)
    found = study(subject, timed=False)
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
        "against base": {v.key: compare_ranks(base, columns[v.key]).as_dict() for v in VARIANTS if v is not BASE},
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
    parser.add_argument("--annotations", type=Path, help="as for `prvr data proxy`; not needed where proxies are there")
    parser.add_argument("--encoder", default="minilm", help="as for `prvr data proxy`")
    parser.add_argument("--sources", nargs="+", default=["charades", "activitynet"])
    parser.add_argument("--noise", nargs="+", default=["mid", "lo"], help="levels; controls use the first")
    parser.add_argument("--shapes", nargs="+", default=["correlated", "independent"], help="controls use the first")
    parser.add_argument("--controls", nargs="*", default=list(CONTROLS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--at-once", type=int, default=1, help="runs that train side by side")
    parser.add_argument("--quick", action="store_true", help="one small run and its shuffled pairs, on a CPU")
    arguments, flags = parser.parse_known_args()
    if arguments.quick:
        small = [word for name, value in QUICK.items() for word in (f"--{name}", value)]
        arguments.sources, arguments.noise, arguments.shapes = arguments.sources[:1], ["mid"], ["correlated"]
        arguments.controls, arguments.seeds, flags = ["shuffled-pairs"], arguments.seeds[:1], [*small, *flags]
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    todo = [
        (cell, seed, arguments.out / "runs" / cell.name / f"seed-{seed}", arguments.out / "results" / cell.name)
        for cell in cells(arguments)
        for seed in cell.seeds
    ]
    missing = [each for each in todo if not (each[3] / f"seed-{each[1]}.json").exists()]
    train([(built(cell, arguments), run, seed) for cell, seed, run, _ in missing], arguments.at_once, flags)
    for cell, seed, run, results in missing:
        results.mkdir(parents=True, exist_ok=True)
        found = result(arguments.out / "data" / cell.name, Run(run), device)
        write_whole(results / f"seed-{seed}.json", json.dumps(found, indent=1))
    everything = {
        cell.name: [
            json.loads((arguments.out / "results" / cell.name / f"seed-{s}.json").read_text()) for s in cell.seeds
        ]
        for cell in cells(arguments)
    }
    write_whole(arguments.out / "study.json", json.dumps(everything, indent=1))
    page = "\n".join(markdown(name, found) for name, found in everything.items())
    write_whole(arguments.out / "study.md", page)
    print(page)


if __name__ == "__main__":
    main()
