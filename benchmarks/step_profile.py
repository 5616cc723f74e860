"""``python benchmarks/step_profile.py``: what a GPU does in a training step, kernel by kernel.

It needs a GPU. The step is that of `prvr bench --only training`: DreamPRVR with TRACE at Charades-STA's size, compiled
and captured. Kernels are summed by kind: those that the compiler wrote (triton), products of matrices in bf16 and in
float32, and small kernels of torch's own.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict

import torch
from rich.console import Console
from torch.profiler import ProfilerActivity, profile

from prvr.bench import make_step, random_batch
from prvr.training import phase_at

_STEPS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--phase", choices=("backbone", "joint"), default="joint")
    parser.add_argument("--top", type=int, default=20, help="how many single kernels are listed")
    arguments = parser.parse_args()
    console, device = Console(highlight=False, markup=False, soft_wrap=True), torch.device("cuda")
    started = time.perf_counter()
    batch = random_batch(128, 332, device)
    model, step = make_step(device, arguments.phase, bf16=True, videos=128)
    now = phase_at({"backbone": 5, "joint": 135}[arguments.phase], 100, model.stage)
    generator = torch.Generator(device).manual_seed(0)

    def steps(count: int) -> float:
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(count):
            step(batch, now, generator)
        torch.cuda.synchronize()
        return (time.perf_counter() - began) / count

    steps(_STEPS)
    console.print(f"ready after {time.perf_counter() - started:.1f} s; a step takes {1e3 * steps(30):.2f} ms")
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        steps(_STEPS)
    kernels: dict[str, list[float]] = defaultdict(list)
    for event in found.events() or ():
        if event.device_type.name == "CUDA":
            kernels[event.name].append(event.self_device_time_total / 1e3 / _STEPS)
    kinds: dict[str, list[float]] = defaultdict(list)
    for name, milliseconds in kernels.items():
        kinds[kind_of(name)] += milliseconds
    for title, groups in (("by kind", kinds), ("by kernel", kernels)):
        console.print(f"{title}: milliseconds and kernels per step")
        for name, taken in sorted(groups.items(), key=lambda pair: -sum(pair[1]))[: arguments.top]:
            console.print(f"  {sum(taken):7.3f}  {len(taken) / _STEPS:6.0f}  {name[:120]}")


def kind_of(kernel: str) -> str:
    """The kind of work that a kernel does, from its name."""
    kinds = {
        "written by the compiler": ("triton",),
        "products in float32 (TF32)": ("f32f32", "sgemm", "splitKreduce", "tf32", "s1688gemm"),
        "products in bf16": ("nvjet", "gemm", "cutlass"),
        "torch's own": ("at::native",),
    }
    return next((kind for kind, parts in kinds.items() if any(part in kernel for part in parts)), "other")


if __name__ == "__main__":
    main()
