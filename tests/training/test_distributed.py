"""Two processes give the gradients of one at the same global batch, and train through ``torchrun``."""

from __future__ import annotations

import dataclasses
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from prvr.data import Dataset
from prvr.training import TraceModel, load_preset, phase_at, read_metrics
from tests.training.trainings import Training, fork_server

EPOCHS = (1, 2, 4)  # backbone, frozen, joint


def still_model(preset: Path) -> TraceModel:
    """No dropout, no jitter, the hardest negative: everything that is drawn by chance is off."""
    config = load_preset(str(preset))
    model: Any = config.model
    calm = dataclasses.replace(model, dropout=0.0, input_dropout=0.0, perturbation=0.0, hard_pool=1)
    torch.manual_seed(0)
    return TraceModel.from_config(dataclasses.replace(config, model=calm))


def gradients(model: nn.Module, inner: TraceModel, dataset: Dataset, rows: Tensor, epoch: int) -> dict[str, Tensor]:
    now = phase_at(epoch, 2, inner.stage)
    inner.enter(now)
    terms = model(dataset.train_batch(rows), now, None)
    torch.stack(list(terms.values())).sum().backward()
    return {name: p.grad.clone() for name, p in inner.named_parameters() if p.grad is not None}


def worker(rank: int, world: int, preset: Path, root: Path, out: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{out}/meeting", rank=rank, world_size=world)
    dataset = Dataset.load(root, "synth", "train", frames=24)
    for epoch in EPOCHS:
        inner = still_model(preset)
        inner.world = world
        inner.enter(phase_at(epoch, 2, inner.stage))
        wrapped = nn.parallel.DistributedDataParallel(inner)
        found = gradients(wrapped, inner, dataset, torch.arange(9)[rank::world], epoch)
        if rank == 0:
            save_file(found, out / str(epoch))
    dist.barrier()  # leaving while the other still communicates ends in a crash at exit
    dist.destroy_process_group()


@pytest.mark.slow
def test_gradients_equal_one_process_at_the_same_global_batch(preset: Path, world: Path, tmp_path: Path) -> None:
    fork_server()
    mp.start_processes(worker, (2, preset, world, tmp_path), nprocs=2, start_method="forkserver")  # type: ignore[no-untyped-call]
    dataset = Dataset.load(world, "synth", "train", frames=24)
    for epoch in EPOCHS:
        inner = still_model(preset)
        alone, together = gradients(inner, inner, dataset, torch.arange(9), epoch), load_file(tmp_path / str(epoch))
        assert together.keys() == alone.keys()
        for name, value in alone.items():
            torch.testing.assert_close(together[name], value, atol=2e-6, rtol=1e-3, msg=lambda m, n=name: f"{n}: {m}")


def start_two(preset: Path, world: Path, out: Path) -> list[Training]:
    """Two processes that train together, as ``torchrun`` sets them up."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    return [
        Training(preset, world, out, "--resume", "--checkpoint-seconds", "0", environment=shared | {"RANK": str(rank)})
        for rank in range(2)
    ]


def torchrun(
    preset: Path, world: Path, out: Path, *flags: str, processes: int = 2, restarts: int = 0
) -> subprocess.Popen[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(processes), "--standalone"]
    launcher += ["--max-restarts", str(restarts)]
    command = [*launcher, "-m", "prvr", "train", str(preset), "--data", str(world), "--out", str(out), "--resume"]
    return subprocess.Popen(
        [*command, "--checkpoint-seconds", "0", *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # The second: without it workers that were restarted may wait for each other for ever (gloo).
        env=os.environ | {"OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"},
        start_new_session=True,
    )


def wait_for_step(process: subprocess.Popen[str], out: Path, step: int) -> None:
    deadline = time.monotonic() + 300
    while not any(int(p.name) >= step for p in (out / "checkpoints").glob("[0-9]*")):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.01)


def ended_well(process: subprocess.Popen[str]) -> str:
    try:
        output, _ = process.communicate(timeout=300)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, output
    return output


def weights(run: Path, name: str) -> dict[str, Tensor]:
    return load_file(run / "weights" / name / "model.safetensors")


@pytest.mark.slow
def test_two_processes_killed_midway_resume_to_the_same_weights(preset: Path, world: Path, tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    first, second = start_two(preset, world, broken)
    first.signal_after_step(8)
    second.signal(signal.SIGKILL)
    assert first.wait() == second.wait() == -signal.SIGKILL
    ended_well(torchrun(preset, world, broken))
    for process in start_two(preset, world, whole):
        process.finish()
    assert [e["epoch"] for e in read_metrics(broken)] == list(range(6))
    for name in ("average", "best", "backbone"):
        a, b = weights(whole, name), weights(broken, name)
        assert all(torch.equal(a[key], b[key]) for key in a), name


@pytest.mark.slow
def test_two_processes_end_where_one_does_at_the_same_global_batch(preset: Path, world: Path, tmp_path: Path) -> None:
    """With everything that is drawn by chance off: each process would draw its own dropout, and random negatives are
    drawn by their place in the batch, which is gathered in another order."""
    still = ("--model.dropout", "0", "--model.input-dropout", "0", "--model.perturbation", "0")
    still += ("--model.hard-pool", "1", "--model.hard-negative-epoch", "0")
    still += ("--precision", "fp32")  # sums of bf16 products differ more than is allowed below
    runs = {count: tmp_path / str(count) for count in (1, 2)}
    for count, out in runs.items():
        ended_well(torchrun(preset, world, out, *still, processes=count))
    one, two = weights(runs[1], "average"), weights(runs[2], "average")
    assert one.keys() == two.keys()
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, atol=1e-4, rtol=1e-3, msg=lambda m, n=name: f"{n}: {m}")
    for first, second in zip(read_metrics(runs[1]), read_metrics(runs[2]), strict=True):
        assert second["loss"] == pytest.approx(first["loss"], rel=1e-3, abs=1e-4)


@pytest.mark.slow
def test_a_killed_worker_is_restarted_from_the_last_checkpoint(preset: Path, world: Path, tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    ended_well(torchrun(preset, world, whole))
    process = torchrun(preset, world, broken, restarts=3)
    wait_for_step(process, broken, 8)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[-1]), signal.SIGKILL)  # one worker; the launcher starts both again
    said = ended_well(process)
    assert said.count("resuming") >= 1
    for name in ("average", "best", "backbone"):
        a, b = weights(whole, name), weights(broken, name)
        assert all(torch.equal(a[key], b[key]) for key in a), name
