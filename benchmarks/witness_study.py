"""``python benchmarks/witness_study.py STUDY``: what does a verifier that reads words add to a trained base?

    python benchmarks/witness_study.py STUDY --annotations DIR --encoder FOLDER --minutes 9 --out RESULTS     # a GPU
    python benchmarks/witness_study.py STUDY --annotations DIR --encoder FOLDER --quick                       # a CPU

For every cell (a proxy with a shape of noise, or a world) and seed it trains DreamPRVR alone, then witnesses on
the frozen base: with words, with the pooled query, and with the controls of ``prvr.evaluation.WitnessExperiment``. The
same seeds train all of them. ``--steps 0`` trains no witnesses: bases and hub offsets alone.

Other bases can be trained beside (``--bases``):

    longer     twice the epochs, which take longer than witnesses do, and witnesses on it
    alike      a video is no wrong answer to a sentence like its own (``prvr train --alike 0.8``), and witnesses on it
    compiled   trained in the fast form of long trainings
    second     trains nothing: the usual bases of the next seeds, one or two of them, in place of the witness
    quarter    one that was trained for a quarter of the epochs in its place; both also with the witness on top

Work is queued by importance; what does not fit into ``--minutes`` is left out. A result is written when it is
there: RESULTS/results.json (numbers), RESULTS/ranks.zip (each query's rank under each scoring) and RESULTS/log.txt.
The same command continues an interrupted study; with ``--before``, also elsewhere. ``witness_tables.py`` prints
the tables.

Two cells are kept aside and run only when named: ``--cells activitynet-exchanged charades-draw``.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from phase_split import small, train_run
from torch import Tensor

from prvr.evaluation import (
    WITNESS_ABLATIONS,
    EvaluationProtocol,
    EvaluationRecord,
    WitnessExperiment,
    WitnessStudy,
    save_record,
)
from prvr.files import whole_file, write_whole
from prvr.media import open_text_encoder
from prvr.training import (
    Run,
    TrainConfig,
    WitnessStage,
    load_preset,
    load_split,
    move_if_it_fits,
    read_metrics,
)
from prvr.worlds import FEATURE_SIZES, ProxyConfig, read_activitynet, read_charades, write_feature_world, write_proxy


@dataclass(frozen=True)
class Cell:
    """Data to train on, and for how long."""

    source: str
    shape: str = "correlated"
    draw: int = 0  # of the proxy's map, damage and noise
    exchanged: bool = False

    @property
    def is_world(self) -> bool:
        return self.source in FEATURE_SIZES

    @property
    def preset(self) -> str:
        return "synth" if self.is_world else "proxy"

    @property
    def epochs(self) -> int:
        return 100 if self.is_world else 30


CELLS = {
    "activitynet-correlated": Cell("activitynet"),
    "activitynet-independent": Cell("activitynet", "independent"),
    "charades-correlated": Cell("charades"),
    "charades-independent": Cell("charades", "independent"),
    "world": Cell("full"),
    "stress": Cell("stress"),
    # kept aside until the end
    "activitynet-exchanged": Cell("activitynet", exchanged=True),
    "charades-draw": Cell("charades", draw=1),
}
ABLATED = ("activitynet-correlated", "charades-correlated")
KEPT_ASIDE = ("activitynet-exchanged", "charades-draw")
USUAL = tuple(name for name in CELLS if name not in KEPT_ASIDE)
BASES = ("longer", "alike", "compiled", "second", "quarter")
BESIDE = ("second", "quarter")  # read as a witness of the usual base


@dataclass(frozen=True)
class Task:
    """One training, with everything that is tried on it."""

    cell: str
    seed: int
    base: str = "usual"  # or one of BASES

    @property
    def name(self) -> str:
        return f"{self.cell}-seed{self.seed}{'' if self.base == 'usual' else '-' + self.base}"


# -- one cell's data --------------------------------------------------------------------------------------------------


def embeddings_of(cell: Cell, arguments: argparse.Namespace) -> Path:
    folder: Path = arguments.study / "data" / f"{cell.source}{'-exchanged' if cell.exchanged else ''}-embeddings"
    return folder


def build(name: str, arguments: argparse.Namespace) -> None:
    """Write a cell's data, and the tables that trainings read."""
    cell, folder = CELLS[name], arguments.study / "data" / name
    if cell.is_world:
        if not (folder / "synth").exists():
            world = FEATURE_SIZES[cell.source]
            if arguments.quick:
                peaks = world.unsupported_share
                world = replace(FEATURE_SIZES["demo"], unsupported_share=peaks)
            write_feature_world(folder, world, progress=False)
    elif not (folder / "proxy").exists():
        source = (
            read_charades(arguments.annotations)
            if cell.source == "charades"
            else read_activitynet(arguments.annotations, exchanged=cell.exchanged)
        )
        settings = ProxyConfig(noise="mid", shape=cell.shape, seed=cell.draw)  # type: ignore[arg-type]
        encoder = open_text_encoder(arguments.encoder)
        write_proxy(folder, source, encoder, settings, embeddings=embeddings_of(cell, arguments), progress=False)
    for split in ("train", "val", "test"):
        load_split(configuration(Task(name, 0), arguments), folder, split)


# -- one training -----------------------------------------------------------------------------------------------------


def configuration(task: Task, arguments: argparse.Namespace) -> TrainConfig:
    """DreamPRVR alone, at full size or (``--quick``) small."""
    cell = CELLS[task.cell]
    config = load_preset("demo" if arguments.quick and cell.is_world else cell.preset)
    if arguments.quick and not cell.is_world:
        config = small(config)
    small_epochs = 80 if cell.is_world else 30  # until validation rises no more
    epochs = arguments.epochs or (small_epochs if arguments.quick else cell.epochs)
    if task.base == "longer":
        epochs *= 2
    elif task.base == "quarter":
        epochs = max(1, epochs // 4)
    return replace(
        config,
        backbone_stage=replace(config.backbone_stage, epochs=epochs),
        alike=0.8 if task.base == "alike" else 0.0,
        trace_stage=replace(config.trace_stage, epochs=0),
        seed=task.seed + (1000 if task.base == "quarter" else 0),  # not the seed of the base that it stands beside
        validate_every=10,
        compile="on" if task.base == "compiled" else arguments.compile,
        checkpoint_seconds=3600.0,
    )


def one(task: Task, arguments: argparse.Namespace) -> None:
    """Train a base and try everything on it; results go to STUDY/results."""
    torch.set_float32_matmul_precision("high")
    data, began = arguments.study / "data" / task.cell, time.perf_counter()
    run = train(replace(task, base="usual") if task.base in BESIDE else task, arguments)
    beside = partners(task, arguments) if task.base in BESIDE else []
    others = [train(each, arguments) for each in beside]
    seconds = time.perf_counter() - began
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    splits = {s: move_if_it_fits(load_split(run.config, data, s), device) for s in ("train", "val", "test")}
    model, _ = run.load_model(device=device)
    test = splits["test"]
    about: dict[str, Any] = {
        "cell": task.cell,
        "seed": task.seed,
        "base": task.base,
        "videos": len(test),
        "queries": len(test.captions),
        "base seconds": seconds,
        "step seconds": [round(epoch["seconds"], 2) for epoch in read_metrics([run, *others][-1].path)],
        "beside": [each.name for each in beside],
    }
    stage = witness_stage(task, arguments)
    kept = run.path / "witnesses"
    experiment = WitnessExperiment(model, splits, stage, task.seed, run.config.alike, kept, arguments.pooled)
    if others:
        found = experiment.beside([other.load_model(device=device)[0] for other in others])
    elif task.base == "compiled" or not stage.steps:
        found = experiment.base_alone()
    else:
        ablated = task.base == "usual" and task.seed == arguments.seeds[0] and task.cell in arguments.ablated
        found = experiment.run(arguments.ablations if ablated else ())
    columns = columns_of(found)
    about |= found.summary()
    owners = tuple(test.video_ids[row] for row in test.query_video.tolist())
    protocol = EvaluationProtocol(task.cell, "test", "mean of the last 3 epochs", (task.seed,))
    folder = arguments.study / "results" / task.name
    save_record(EvaluationRecord(test.query_ids, owners, columns, protocol), folder)
    write_whole(folder / "about.json", json.dumps(about, indent=1))


def columns_of(found: WitnessStudy) -> dict[str, Tensor]:
    return {**found.ranks, **{f"{name}_any": column for name, column in found.any_ranks.items()}}


def train(task: Task, arguments: argparse.Namespace) -> Run:
    """The base of a task: trained, continued, or found."""
    run = Run(arguments.study / "runs" / task.name)
    if run.has_weights("average"):  # several tasks may read it at once
        return run
    return train_run(configuration(task, arguments), arguments.study / "data" / task.cell, run.path)


def partners(task: Task, arguments: argparse.Namespace) -> list[Task]:
    """The trainings of the bases that stand beside the usual one.

    *Second* are the usual ones of the next seeds, up to two of them; after the last seed follows the first.
    """
    if task.base != "second":
        return [task]
    at, seeds = arguments.seeds.index(task.seed), arguments.seeds
    return [Task(task.cell, seed) for seed in (seeds[at + 1 :] + seeds[:at])[:2]]


def witness_stage(task: Task, arguments: argparse.Namespace) -> WitnessStage:
    """How witnesses are trained; beside a second base, with the inputs that validation chose without it."""
    usual_steps = 400 if arguments.quick else 1500
    steps = usual_steps if arguments.steps is None else arguments.steps
    stage = WitnessStage(steps=steps, inputs=arguments.inputs)
    if arguments.quick:
        stage = replace(stage, queries=32, negatives=11)
    usual = arguments.study / "results" / replace(task, base="usual").name / "about.json"
    if task.base in BESIDE and usual.exists():
        chosen = json.loads(usual.read_text())["inputs"]  # empty where no witness was trained
        stage = replace(stage, inputs=chosen or stage.inputs)
    return stage


# -- the queue --------------------------------------------------------------------------------------------------------


def tasks(arguments: argparse.Namespace) -> Iterator[Task]:
    """Most important first: every cell once, further seeds, cells kept aside, second bases, the other bases."""
    kept = [name for name in arguments.cells if name in KEPT_ASIDE]
    worlds = [name for name in arguments.cells if CELLS[name].is_world]
    proxies = [name for name in arguments.cells if name not in (*worlds, *kept)]
    (first, *others), beside = arguments.seeds, ["second", "quarter"] if len(arguments.seeds) > 1 else ["quarter"]
    rounds = [
        ([first], ["usual"], [*proxies, *worlds]),
        ([first], ["alike"], proxies),
        (others, ["usual", "alike"], proxies),
        (others, ["usual"], worlds),
        (arguments.seeds, ["usual", "alike"], kept),
        (arguments.seeds, beside, [*proxies, *worlds, *kept]),
        (arguments.seeds, ["longer", "compiled"], [*worlds, *proxies]),
    ]
    for seeds, bases, cells in rounds:
        for seed in seeds:
            for base in bases:
                yield from (Task(name, seed, base) for name in cells if asked(name, base, arguments))


def asked(cell: str, base: str, arguments: argparse.Namespace) -> bool:
    """Whether a base is trained: few sentences of other cells than charades were written for two videos."""
    return base == "usual" or (base in arguments.bases and (base != "alike" or CELLS[cell].source == "charades"))


class Queue:
    """Runs tasks side by side until the time is over."""

    def __init__(self, arguments: argparse.Namespace):
        self.arguments, self.began = arguments, time.monotonic()
        self.taken: list[float] = []  # seconds of finished tasks
        self.writing = threading.Lock()
        self.running: set[subprocess.Popen[bytes]] = set()
        self.failed = False

    def say(self, text: str) -> None:
        line = f"{time.monotonic() - self.began:6.0f} s  {text}"
        print(line, flush=True)
        with (self.arguments.out / "log.txt").open("a") as log:
            log.write(line + "\n")

    @property
    def left(self) -> float:
        return 60 * self.arguments.minutes - (time.monotonic() - self.began)

    def call(self, words: list[str], log: Path) -> bool:
        """This script again, with a log file of its own. False: it failed, or the time was over first."""
        log.parent.mkdir(parents=True, exist_ok=True)
        cores = len(os.sched_getaffinity(0))  # shared: a process with threads for all of them would slow the others
        with log.open("ab") as file:
            process = subprocess.Popen(
                [sys.executable, __file__, *words],
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={"OMP_NUM_THREADS": str(max(1, cores // (self.arguments.at_once + 1))), **os.environ},
            )
            self.running.add(process)
            try:
                return process.wait(max(1.0, self.left)) == 0
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return False
            finally:
                self.running.discard(process)

    def build(self, name: str, after: Future[bool] | None) -> bool:
        if after is not None:
            after.result()  # it writes the embeddings that this one reads
        began = time.monotonic()
        log = self.arguments.study / "logs" / f"{name}.log"
        done = self.call([*self._same(), "--build", name], log)
        self.say(f"{name}: data {'ready' if done else 'FAILED'} after {time.monotonic() - began:.0f} s")
        if not done:
            self.failed = True
            self.say(log.read_text(errors="replace")[-1500:])
        return done

    def is_done(self, task: Task) -> bool:
        return (self.arguments.study / "results" / task.name / "about.json").exists()

    def is_trained(self, task: Task) -> bool:
        return Run(self.arguments.study / "runs" / task.name).has_weights("average")

    def one(self, task: Task, data: Future[bool], before: list[Future[None]]) -> None:
        if not data.result():
            return
        for other in before:  # queued earlier, so that nothing waits for what cannot begin
            other.result()
        expected = 1.1 * sum(self.taken[-4:]) / len(self.taken[-4:]) if self.taken else 0.0
        if self.left < max(20.0, expected):
            self.say(f"{task.name}: left out, {self.left:.0f} s are too few")
            return
        began = time.monotonic()
        words = [*self._same(), "--one", task.cell, str(task.seed), task.base]
        log = self.arguments.study / "logs" / f"{task.name}.log"
        if not self.call(words, log):
            self.failed |= self.left > 0  # not if the time was over
            self.say(f"{task.name}: FAILED or cut, {log} ends with\n{log.read_text(errors='replace')[-1500:]}")
            return
        self.taken.append(time.monotonic() - began)
        with self.writing:
            self.collect()
        found = json.loads((self.arguments.study / "results" / task.name / "about.json").read_text())
        self.say(f"{task.name}: {time_of(found)} validation {json.dumps(rounded(found['validation']))}")

    def _same(self) -> list[str]:
        a = self.arguments
        words = [str(a.study), "--annotations", str(a.annotations), "--encoder", a.encoder, "--compile", a.compile]
        words += ["--ablations", *a.ablations, "--ablated", *a.ablated, "--seeds", *map(str, a.seeds)]
        words += ["--epochs", str(a.epochs)] if a.epochs else []
        words += ["--steps", str(a.steps)] if a.steps is not None else []
        words += ["--inputs", a.inputs, *([] if a.pooled else ["--no-pooled"])]
        return [*words, *(["--quick"] if a.quick else [])]

    def collect(self) -> None:
        """All results so far in a few files."""
        found = sorted((self.arguments.study / "results").glob("*/about.json"))
        texts = {path.parent.name: json.loads(path.read_text()) for path in found}
        write_whole(self.arguments.out / "results.json", json.dumps(texts, indent=1))
        with (
            whole_file(self.arguments.out / "ranks.zip") as packed,
            zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive,
        ):
            for path in found:
                for name in ("ranks.csv", "about.json"):
                    archive.write(path.parent / name, f"{path.parent.name}/{name}")

    def run(self) -> None:
        todo = list(tasks(self.arguments))
        data: dict[str, Future[bool]] = {}
        with ThreadPoolExecutor(4) as builders, ThreadPoolExecutor(self.arguments.at_once) as trainers:
            first: dict[Path, Future[bool]] = {}
            open_tasks = [task for task in todo if not self.is_done(task)]
            for name in dict.fromkeys(task.cell for task in open_tasks):
                words = embeddings_of(CELLS[name], self.arguments)
                data[name] = builders.submit(self.build, name, first.get(words))
                first.setdefault(words, data[name])
            ends: dict[Task, Future[None]] = {}
            for task in open_tasks:
                beside = task.base in BESIDE
                needed = {replace(task, base="usual"), *partners(task, self.arguments)} - {task} if beside else set()
                before = [ends[other] for other in needed if other in ends]
                missing = [other.name for other in needed if other not in ends and not self.is_trained(other)]
                if missing:  # their results came with --before, their weights did not
                    self.say(f"{task.name}: left out, it needs the weights of {' and '.join(missing)}")
                    continue
                ends[task] = trainers.submit(self.one, task, data[task.cell], before)
            for ended in ends.values():
                ended.result()
        self.collect()
        self.say("done")


def time_of(found: Mapping[str, Any]) -> str:
    parts = {"base": found["base seconds"], **found.get("seconds", {})}
    return ", ".join(f"{name} {seconds:.0f} s" for name, seconds in parts.items()) + ";"


def rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 1) for name, value in values.items()}


def refuse(arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Say what cannot be done, before anything is written."""
    a = arguments
    proxies = [name for name in a.cells if not CELLS[name].is_world]
    if len({*a.seeds}) < len(a.seeds):
        parser.error("--seeds names one twice")
    if "second" in a.bases and len(a.seeds) < 2:
        parser.error("--bases second takes the base of the next seed: name at least two --seeds")
    if "alike" in a.bases and not any(CELLS[name].source == "charades" for name in a.cells):
        parser.error("--bases alike is for charades: sentences of the other cells were written for one video each")
    if proxies and (a.annotations is None or not a.annotations.is_dir()):
        parser.error(f"{proxies[0]} needs --annotations, a folder")
    if (a.steps or 0) < 0 or (a.epochs is not None and a.epochs < 1):
        parser.error("--steps must be at least 0, --epochs at least 1")
    unknown = {*a.ablations} - {*WITNESS_ABLATIONS}
    if unknown:
        parser.error(f"--ablations: there are {', '.join(WITNESS_ABLATIONS)}, and no {', '.join(sorted(unknown))}")
    for earlier in a.before:
        if not zipfile.is_zipfile(earlier):
            parser.error(f"--before {earlier}: not a ranks.zip of an earlier call")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path, metavar="STUDY")
    parser.add_argument("--annotations", type=Path, help="as for `prvr data proxy`")
    parser.add_argument("--encoder", default="minilm", help="as for `prvr data proxy`")
    parser.add_argument("--out", type=Path, help="where results go; STUDY by default")
    parser.add_argument("--before", type=Path, nargs="*", default=[], help="ranks.zip of earlier calls: not done again")
    parser.add_argument("--minutes", type=float, default=1e6, help="start nothing that will not end within them")
    parser.add_argument("--cells", nargs="+", choices=list(CELLS), default=list(USUAL))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument(
        "--ablations", nargs="*", default=list(WITNESS_ABLATIONS), help="tried with the first seed of --ablated"
    )
    parser.add_argument("--ablated", nargs="*", choices=list(CELLS), default=ABLATED, help="… of these cells")
    parser.add_argument("--bases", nargs="*", default=[], choices=BASES, help="further ones")
    parser.add_argument("--at-once", type=int, default=1, help="trainings side by side")
    parser.add_argument("--compile", default="auto", choices=("auto", "on", "off"))
    parser.add_argument("--quick", action="store_true", help="small models and worlds, for a CPU")
    parser.add_argument("--epochs", type=int, help="of a base; by default 100 in worlds (--quick: 80), 30 on proxies")
    parser.add_argument("--steps", type=int, help="of a witness; by default 1500, 400 with --quick; 0: none")
    parser.add_argument("--inputs", default="auto", choices=("auto", "raw", "both"), help="that witnesses read")
    parser.add_argument("--no-pooled", dest="pooled", action="store_false", help="leave out the pooled query")
    parser.add_argument("--build", help=argparse.SUPPRESS)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)  # CELL SEED BASE
    arguments = parser.parse_args()
    if arguments.build:
        build(arguments.build, arguments)
    elif arguments.one:
        cell, seed, base = arguments.one
        one(Task(cell, int(seed), base), arguments)
    else:
        refuse(arguments, parser)
        arguments.out = arguments.out or arguments.study
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.study / "results").mkdir(parents=True, exist_ok=True)
        for earlier in arguments.before:
            with zipfile.ZipFile(earlier) as archive:
                archive.extractall(arguments.study / "results")
        queue = Queue(arguments)
        queue.run()
        sys.exit(1 if queue.failed else 0)


if __name__ == "__main__":
    main()
