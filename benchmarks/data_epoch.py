"""``python benchmarks/data_epoch.py``: how fast a split is prepared and turned into training batches.

    python benchmarks/data_epoch.py                 # about 4 GB in the temporary folder, deleted afterwards
    python benchmarks/data_epoch.py --videos 500    # a quick look

It measures a split as large as that of Charades-STA: preparing it, loading it again, one epoch of training batches, and
for comparison one epoch of training steps. It prints a table and asserts nothing.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import torch
from rich.console import Console
from rich.table import Table

from prvr.data import Dataset, epoch_batches, prefetch
from prvr.tokens import TrainBatch
from prvr.training import PlainStep, TraceModel, backbone_optimiser, load_preset, phase_at
from prvr.worlds import FEATURE_SIZES, write_feature_world

_Result = TypeVar("_Result")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--videos", type=int, default=5338, help="training videos (default: as many as Charades-STA has)"
    )
    parser.add_argument("--batch", type=int, default=128, help="videos per batch")
    parser.add_argument("--device", default="cpu", help="where batches are assembled")
    parser.add_argument("--folder", default=None, help="where the temporary files go")
    args = parser.parse_args()

    table = Table(title=f"{args.videos} videos, 40–80 frames, 1024 wide; {torch.get_num_threads()} threads")
    table.add_column("step")
    table.add_column("seconds", justify="right")

    def timed(step: str, work: Callable[[], _Result]) -> _Result:
        began = time.perf_counter()
        result = work()
        if args.device != "cpu":
            torch.cuda.synchronize()
        table.add_row(step, f"{time.perf_counter() - began:.2f}")
        return result

    config = replace(FEATURE_SIZES["full"], train=args.videos, val=1, test=1, frames=(40, 80))
    with tempfile.TemporaryDirectory(dir=args.folder) as root:
        timed("write the world", lambda: write_feature_world(root, config))
        data = timed("prepare (first load)", lambda: Dataset.load(root, "synth", "train"))
        data = timed("load again", lambda: Dataset.load(root, "synth", "train"))
        if args.device != "cpu":
            data = timed(f"move to {args.device}", lambda: data.to(args.device))
        for epoch in range(3):
            rows = epoch_batches(len(data), args.batch, seed=0, epoch=epoch)
            timed(
                f"epoch {epoch}: {len(rows)} batches",
                lambda rows=rows: sum(len(data.train_batch(r).labels) for r in rows),
            )
        timed("epoch 0, prefetched", lambda: sum(len(batch.labels) for batch in prefetch(map(data.train_batch, rows))))
        step = training_step(args.device)
        first = data.train_batch(rows[0]).to(args.device)
        step(first)
        began = time.perf_counter()
        step(first)
        if args.device != "cpu":
            torch.cuda.synchronize()
        seconds = (time.perf_counter() - began) * len(rows)
        table.add_row(f"training on them: one full-size step × {len(rows)}", f"{seconds:.2f}")
        data = None
    Console().print(table)


def training_step(device: str) -> Callable[[TrainBatch], object]:
    """One plain training step of DreamPRVR with the Charades-STA preset."""
    config = load_preset("charades")
    model = TraceModel.from_config(config).to(device)
    model.bf16 = device != "cpu"
    now = phase_at(0, config.backbone_stage.epochs, config.trace_stage)
    model.enter(now)
    plain = PlainStep(model, backbone_optimiser(model.backbone, config.backbone_stage), clip=None)
    return lambda batch: plain(batch, now, torch.Generator(device))


if __name__ == "__main__":
    main()
