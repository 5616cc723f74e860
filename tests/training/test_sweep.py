"""The file of a sweep: the runs that it makes, what is wrong with it in one sentence, and how many fit at once."""

from __future__ import annotations

import shutil
import signal
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from prvr.files import exclusive_lock
from prvr.training import (
    ConfigError,
    FixedNumber,
    MemoryFit,
    PlannedRun,
    RunError,
    SweepFolder,
    SweepRunner,
    TrainingProcess,
    read_sweep,
)

SWEEP = """
seeds = [0, 1]
data = "{world}"

[methods]
dreamprvr = {{}}
[methods.plain]
method = "dreamprvr"
[methods.plain.settings]
trace-stage.epochs = 0

[datasets.synth]
preset = "{preset}"

[settings]
trace.fusion_weight = [0.02, 0.05]
model.width = 8
"""


@pytest.fixture
def file(world: Path, preset: Path, tmp_path: Path) -> Path:
    path = tmp_path / "grid.toml"
    path.write_text(SWEEP.format(world=world, preset=preset), encoding="utf-8")
    return path


def test_every_combination_is_a_run(file: Path) -> None:
    plan = read_sweep(file, file.parent / "out")
    names = [run.name for run in plan.runs]
    assert len(set(names)) == 2 * 2 * 2
    assert names[0] == "synth-dreamprvr-trace.fusion_weight=0.02-seed0"
    assert plan.runs[0].title == "dreamprvr on synth, trace.fusion_weight 0.02, seed 0"
    found = {(r.label, r.config.seed, r.config.trace.fusion_weight, r.config.trace_stage.epochs) for r in plan.runs}
    wanted = {(label, seed, weight) for label in ("dreamprvr", "plain") for seed in (0, 1) for weight in (0.02, 0.05)}
    assert found == {(*each, 0 if each[0] == "plain" else 4) for each in wanted}
    assert {run.config.model.width for run in plan.runs} == {8}


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ("seeds = [0, 1]", "seeds = 3", "seeds should be a list of whole numbers, such as [0, 1, 2], found 3"),
        ("seeds = [0, 1]", "seeds = [1, 1]", "seed 1 is there twice"),
        ("seeds = [0, 1]", "sedes = [0]", "unknown key 'sedes'. Did you mean 'seeds'?"),
        ("seeds = [0, 1]", "seeds = [0", "is not valid TOML"),
        ("model.width = 8", "model.widht = 8", "settings: dreamprvr has no setting 'model.widht'. Did you mean"),
        ("model.width = 8", 'model.width = "8"', "model], width: expected int, found '8'"),
        ("model.width = 8", "model.width = 0", "model.width must be at least 1"),
        ("model.width = 8", f"model.width = {[*range(8, 10_008)]}", "make 20,000 runs, and 10,000 are allowed"),
        ("model.width = 8", "model.width = []", "model.width is an empty list"),
        ("model.width = 8", "seed = 4", "seed is no setting of a sweep: use seeds"),
        ("[methods.plain]", "[methods.'a/b']", "use letters, digits"),
        ("dreamprvr = {}", "dreamprvr = {epochs = 3}", "methods.dreamprvr: unknown key 'epochs'"),
        ("dreamprvr = {}", "dreampvr = {}", "no method 'dreampvr'. Did you mean 'dreamprvr'?"),
        ("[methods]", 'methods = ["dreamprvr"]\n[methods]', "write a table for each name"),
        ("[datasets.synth]\npreset", "[datasets.sinth]\n#", "there is no preset 'sinth'. Did you mean 'synth'?"),
        ('preset = "', 'data = "nowhere"\npreset = "', "datasets.synth:"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence_that_names_the_key(
    file: Path, before: str, after: str, sentence: str
) -> None:
    text = file.read_text("utf-8")
    assert before in text
    file.write_text(text.replace(before, after, 1), encoding="utf-8")
    with pytest.raises(ConfigError) as error:
        read_sweep(file)
    assert sentence in str(error.value)
    assert file.name in str(error.value)


def test_a_folder_with_other_runs_of_that_name_is_refused(file: Path) -> None:
    plan = read_sweep(file, file.parent / "out")
    folder = SweepFolder(plan)
    with folder.opened():
        folder.create(plan.runs[0])
    text = file.read_text("utf-8")
    file.write_text(text.replace("model.width = 8", "model.width = 16"), encoding="utf-8")
    changed = SweepFolder(read_sweep(file, plan.out))
    with changed.opened():
        assert changed.state(changed.plan.runs[0]) == "new", "nothing was trained yet, so nothing is contradicted"
    (plan.out / plan.runs[0].name / "weights").mkdir()
    with pytest.raises(RunError, match=r"model\.width was 8 and is 16 now\. Change it back"), changed.opened():
        pass
    grown = replace(plan, runs=plan.runs[:1])
    with SweepFolder(grown).opened(), pytest.raises(RunError, match="sweeps in"), folder.opened():
        pass


def test_a_run_is_found_again_when_its_setting_gets_more_values(file: Path) -> None:
    def names() -> list[str]:
        folder = SweepFolder(read_sweep(file, out))
        with folder.opened():
            return [f"{planned.name}: {folder.state(planned)}" for planned in folder.plan.runs]

    out, both = file.parent / "out", file.read_text("utf-8").replace("seeds = [0, 1]", "seeds = [0]")
    both = both[: both.index("[methods.plain]")] + both[both.index("[datasets.synth]") :]
    one = both.replace("[0.02, 0.05]", "0.05")
    file.write_text(one, encoding="utf-8")
    folder = SweepFolder(read_sweep(file, out))
    folder.create(folder.plan.runs[0])
    (out / "synth-dreamprvr-seed0" / "weights").mkdir()
    file.write_text(both, encoding="utf-8")
    first, known = "synth-dreamprvr-trace.fusion_weight=0.02-seed0", "synth-dreamprvr-seed0"
    assert names() == [f"{first}: new", f"{known}: started"]
    folder = SweepFolder(read_sweep(file, out))
    folder.create(folder.plan.runs[0])
    (out / first / "weights").mkdir()
    file.write_text(both.replace("[0.02, 0.05]", "0.02"), encoding="utf-8")
    assert names() == [f"{first}: started"], "and when it has one again"


def test_a_run_that_another_process_trains_is_left_alone(file: Path) -> None:
    plan = read_sweep(file, file.parent / "out")
    folder, run = SweepFolder(plan), plan.out / plan.runs[0].name
    folder.create(plan.runs[0])
    before = (run / "run.json").read_bytes()
    with exclusive_lock(run / ".lock"), pytest.raises(RunError, match=r"process \d+ .* is training in"):
        folder.create(plan.runs[0])
    assert (run / "run.json").read_bytes() == before


class Events:
    """What a runner tells. A second Ctrl-C arrives as it stops."""

    def __init__(self, file: Path):
        self.file = file  # appears when something has failed
        self.told: list[str] = []

    def started(self, training: TrainingProcess, resumed: bool) -> None:
        pass

    def running(self, trainings: list[TrainingProcess]) -> None:
        pass

    def finished(self, training: TrainingProcess) -> None:
        self.told.append("finished")

    def failed(self, planned: PlannedRun, problem: str) -> None:
        self.told.append(problem)
        self.file.touch()

    def again(self, planned: PlannedRun, at_once: int) -> None:
        self.told.append(f"again, {at_once} at once")
        self.file.touch()

    def stopping(self, trainings: list[TrainingProcess]) -> None:
        raise KeyboardInterrupt


WAIT = "import pathlib, time\nwhile not pathlib.Path({!r}).exists(): time.sleep(0.02)"
SIGNAL = "import os, signal; os.kill(os.getpid(), signal.{})"
FULL = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


@pytest.mark.parametrize(
    ("codes", "told", "at_once"),
    [
        ([f"print('{FULL}'); raise SystemExit(1)"], {"again, 1 at once"}, 1),
        (
            [SIGNAL.format("SIGKILL"), SIGNAL.format("SIGUSR1"), "raise SystemExit('error: this is out of memory')"],
            {
                "was ended by a signal (SIGKILL); the host's memory may have run out (not the GPU's): "
                "try a smaller --at-once",
                "was ended by a signal (SIGUSR1)",
                "this is out of memory",
            },
            4,
        ),
    ],
    ids=["gpu", "others"],
)
def test_only_a_full_gpu_is_a_reason_to_try_again_with_fewer(
    file: Path, monkeypatch: pytest.MonkeyPatch, codes: list[str], told: set[str], at_once: int
) -> None:
    plan = read_sweep(file, file.parent / "out")
    number = 1 + len(codes)
    folder, fit = SweepFolder(replace(plan, runs=plan.runs[:number])), FixedNumber(number)
    events = Events(file.parent / "something failed")
    left = iter([WAIT.format(str(events.file)), *codes, "pass"])
    monkeypatch.setattr("prvr.training.sweep.runner.python_command", lambda *_: [sys.executable, "-c", next(left)])
    runner = SweepRunner(folder, fit, events)
    with folder.opened():
        runner.train()
    assert set(events.told) == {"finished", *told}
    assert fit.most == at_once
    assert len(runner.failed) == (3 if at_once == 4 else 0)


def test_no_training_outlives_a_sweep_that_is_interrupted_as_it_starts_one(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def command(*_: str) -> list[str]:
        signal.raise_signal(signal.SIGINT)
        return [sys.executable, "-c", "import time; time.sleep(60)"]

    monkeypatch.setattr("prvr.training.sweep.runner.python_command", command)
    folder = SweepFolder(read_sweep(file, file.parent / "out"))
    runner = SweepRunner(folder, FixedNumber(2), Events(file.parent / "failed"))
    with folder.opened(), pytest.raises(KeyboardInterrupt):
        runner.train()
    assert len(runner.running) == 1
    assert runner.running[0].process.returncode is not None, "it was ended, and waited for"


def test_the_example_is_the_one_in_the_documents(world: Path, tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    text = (root / "examples" / "four_methods.toml").read_text("utf-8")
    assert f"```toml\n{text}```" in (root / "docs" / "research.md").read_text("utf-8")
    file = tmp_path / "four_methods.toml"
    file.write_text(text.replace('"WORLD"', f'"{world}"'), encoding="utf-8")
    plan = read_sweep(file)
    assert plan.out == Path("sweeps/four_methods")
    assert len(plan.runs) == 4 * 3
    assert {run.config.model.visual_width for run in plan.runs} == {24}, "as the data has it"


def test_a_path_that_is_meant_from_this_folder_is_explained(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "WORLD").symlink_to(world, target_is_directory=True)
    file = tmp_path / "files" / "sweep.toml"
    file.write_text('data = "WORLD"\nmethods = ["mssl"]\ndatasets = ["synth"]\n', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"Paths are relative to the file.*\.\./WORLD"):
        read_sweep(file)


def test_the_papers_table_is_a_sweep(tmp_path: Path) -> None:
    for name in ("activitynet", "charades", "tvr"):
        (tmp_path / "features" / name / "TextData").mkdir(parents=True)
    file = tmp_path / "table1.toml"
    shutil.copy(Path(__file__).parents[2] / "examples" / "table1.toml", file)
    runs = read_sweep(file).runs
    assert len(runs) == 9 * 3 * 3
    assert {run.config.model.registers for run in runs if run.config.method == "dreamprvr"} == {4, 6, 8}


def test_trainings_start_while_the_memory_of_a_gpu_allows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prvr.training.sweep.memory.usable_cores", lambda: 16)
    each, total = 20, 100
    running: list[SimpleNamespace] = []
    fit = MemoryFit(lambda: total - each * len(running))
    assert fit.has_room(running)
    running.append(SimpleNamespace(epochs=0))
    assert not fit.has_room(running), "what it needs is not known before its first epoch"
    while True:
        running[-1].epochs = 1
        if not fit.has_room(running):
            break
        running.append(SimpleNamespace(epochs=0))
    assert len(running) == 4, "of five that would fit, one and a half stay free"
    assert fit.ran_out(others=2)
    assert not fit.has_room(running[:2])
    assert not fit.ran_out(others=0), "alone, fewer at once does not help"
    on_cpu = MemoryFit(None)
    assert on_cpu.has_room([])
    assert not on_cpu.has_room(running[:1])
