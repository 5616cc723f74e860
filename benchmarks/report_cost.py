"""``python benchmarks/report_cost.py``: time and memory of all diagnostics of a report at Charades-STA's size.

Encoding is not counted. Features and weights are random: the shapes are the real ones (3,720 queries, 1,334 videos, 128
frames, 32 clips, 6 registers, width 384), but the numbers in the report's tables mean nothing.
"""

from __future__ import annotations

import argparse
import dataclasses
import resource
import tempfile
import time
from pathlib import Path

import torch

from prvr.data import Caption, Dataset, FeatureTables, Moment
from prvr.evaluation import Subject, compare_ranks, run_study, write_report
from prvr.training import Run, TraceModel, load_preset

WIDTH = 64  # of the features; encoding is not measured


def random_split(queries: int, videos: int, frames: int, clips: int) -> Dataset:
    owner = torch.arange(queries) % videos
    captions = tuple(Caption(f"v{v}#enc#{n}", f"v{v}", f"words {n} of {v}") for n, v in enumerate(owner.tolist()))
    tables = FeatureTables(
        frames=torch.randn(videos * frames + 1, WIDTH),
        frame_start=torch.arange(videos) * frames,
        frame_count=torch.full((videos,), frames),
        clips=torch.randn(videos, clips, WIDTH),
        clip_row=torch.arange(videos),
        words=torch.randn(queries * 8 + 1, WIDTH),
        word_start=torch.arange(queries) * 8,
        word_count=torch.full((queries,), 8),
    )
    moments = {caption.id: Moment(caption.video, 5.0, 12.0, 30.0) for caption in captions}
    names = tuple(f"v{n}" for n in range(videos))
    positives = [(row, (row + 1) % videos) for row in owner.tolist()]
    return Dataset("random", "test", names, captions, owner, positives, moments, tables)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=3720)
    parser.add_argument("--videos", type=int, default=1334)
    arguments = parser.parse_args()
    config = load_preset("charades")
    model = dataclasses.replace(config.model, visual_width=WIDTH, query_width=WIDTH, blocks=1)  # type: ignore[call-arg]
    config = dataclasses.replace(config, model=model)
    dataset = random_split(arguments.queries, arguments.videos, model.frames, model.clips)
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder) / "run")
        run.create(config, folder)
        trained = TraceModel.from_config(config).eval()
        subject = Subject(run, config, trained, dataset, "last", "random weights", True, config.trace.fusion_weight)
        started, cpu = time.perf_counter(), time.process_time()
        ticks: list[float] = []
        found = run_study(
            subject, corpus_moments=True, moments_tick=lambda done, total: ticks.append(time.perf_counter())
        )
        encoding = found.seconds["gallery encoding"] + found.seconds["query encoding"]
        moments = (ticks[-1] - ticks[0]) * len(ticks) / (len(ticks) - 1)
        studied = time.perf_counter() - started - encoding - moments
        write_report(found, Path(folder) / "report")
        written = time.perf_counter() - started - encoding - moments
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{arguments.queries} queries x {arguments.videos} videos, {torch.get_num_threads()} threads")
    print(
        f"encoding {encoding:.1f} s; then all rankings {studied:.1f} s, with tables and figures {written:.1f} s", end=""
    )
    print(f"; moments in the corpus {moments:.1f} s more", end="")
    print(f" ({time.process_time() - cpu:.1f} s of processor time in all), peak memory {peak:.2f} GiB")
    ranks = torch.randint(1, 4917, (17_031,))
    started = time.perf_counter()
    compare_ranks(ranks, ranks.roll(1))
    print(f"20,000 bootstrap draws and sign flips over 17,031 queries: {time.perf_counter() - started:.2f} s")


if __name__ == "__main__":
    main()
