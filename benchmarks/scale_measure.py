"""What one node does, measured for the plan to many: writes the JSON that scale_simulation.py reads.

    python benchmarks/scale_measure.py --out scale.json                # some minutes; Ray is used where it is installed
    python benchmarks/scale_simulation.py scale.json

Decoding, encoding (`plain`, no weights) and finishing are the stages of `prvr library add --cluster`, called here one
after the other on one core. Scoring is a shard's own, over synthetic vectors (see library_search.py) in memory. These
are seconds of a core; searches through Ray, and what a commit takes, are seconds of the clock: let nothing else run.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parent))
import library_search as synthetic
import media_decode

from prvr import __version__
from prvr.cluster import ClusterSearcher, Shards, connected, start_shards, stop_shards
from prvr.cluster.decoding import Decode
from prvr.cluster.encoding import EncodeFrames, Finish
from prvr.cluster.partition import assign
from prvr.cluster.parts import Best
from prvr.cluster.pieces import FolderPieces
from prvr.cluster.run import Run, job_of
from prvr.cluster.shards import Shard
from prvr.library import Library, SearchOptions
from prvr.library.ingest.add import Adder
from prvr.library.ingest.files import Source
from prvr.library.ingest.tracks import FRAMES, Piece
from prvr.library.search.asking import Question, Wanted
from prvr.library.store.catalogue import NewVideo
from prvr.library.store.commit import commit
from prvr.library.store.pending import Indexed, Pending
from prvr.media import Encoder, MissingExtra, write_video

_BATCH = 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="where to write the JSON")
    parser.add_argument("--seconds", type=float, default=60, help="of the film that is decoded")
    parser.add_argument("--videos", type=int, default=1000, help="of the library that is searched")
    parser.add_argument("--minutes", type=float, default=5.0, help="of each of them, at one frame per second")
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=20)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        found = {"machine": machine(), "indexing": indexing(folder, args.seconds)}
        encoder = synthetic.SyntheticEncoder(args.width)
        lib = Library.create(folder / "synthetic", encoder=encoder)
        synthetic.fill(lib, args.videos, round(60 * args.minutes))
        found |= {
            "storage": storage(lib),
            "searching": searching(lib, args.rounds),
            "cluster": cluster(lib, args.rounds),
        }
    args.out.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    Console().print_json(data=found)


def machine() -> dict[str, Any]:
    told = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    names = [line.partition(":")[2].strip() for line in told.splitlines() if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "load_before": round(os.getloadavg()[0], 2),
        "torch": torch.__version__,
        "prvr": __version__,
    }


def indexing(folder: Path, seconds: float) -> dict[str, float]:
    """Core seconds of each stage for a second of 640×360 H.264 at 25 frames per second."""
    torch.set_num_threads(1)
    path = write_video(folder / "film.mp4", media_decode.film(seconds), fps=25, options={"g": "250"})
    lib = Library.create(folder / "plain")
    times: dict[str, list[float]] = {"decode": [], "encode": [], "finish": []}

    def work(adder: Adder, todo: list[Source], began: float) -> None:
        encoder = adder.tracks()[FRAMES].encoder
        assert isinstance(encoder, Encoder)
        job, opening = job_of(adder, todo[0]), (str(adder.folder), __version__)
        encode, finish = EncodeFrames(*opening), Finish(*opening)
        for _ in range(4):
            run = Run(adder, [job], began, FolderPieces(adder.folder))
            row = {"video": 0, "path": str(path), "key": job.key}
            decode = Decode(str(adder.folder), encoder.fit, encoder.batch, adder.rate)
            decoded = noted(times["decode"], lambda: list(decode(row)), time.process_time)  # noqa: B023 (called at once)
            encoded = noted(times["encode"], lambda: [encode(each) for each in decoded], time.process_time)  # noqa: B023
            arrived = next(each for each in map(run.take, encoded) if each is not None)
            given = (job.key, job.video, arrived.ending, arrived.chunks)
            noted(times["finish"], lambda: finish.finish(*given), time.process_time)  # noqa: B023

    lib.add([path], work=work)
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    return {name: statistics.median(taken[1:]) / seconds for name, taken in times.items()}


def noted(times: list[float], work: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> Any:
    """Do it and note the seconds; ``time.process_time`` counts those in which a core worked for it."""
    began = clock()
    found = work()
    times.append(clock() - began)
    return found


def storage(lib: Library) -> dict[str, float]:
    status = lib.status()
    return {
        "videos": status.videos,
        "frames": status.frames,
        "bytes": status.bytes,
        "bytes_per_frame": status.bytes_per_frame,
        "commit": committing(lib),
        **opening(lib),
    }


def committing(lib: Library) -> float:
    """Seconds for each video where 32 are committed together, as a cluster's one committer does."""
    track, frames = lib.tracks[FRAMES], 300
    start = np.arange(frames, dtype=np.float64)
    walk = synthetic.walk(frames, track.encoder.width, np.random.default_rng(1))
    piece = Piece(walk, np.stack([start, start + 1], 1))
    pending = Pending(lib.folder)
    for section in track.sections([piece]):
        pending.add(section)
    times: list[float] = []
    for turn in range(8):
        some = [
            Indexed(NewVideo(Path(f"/more/{turn}/{n}"), 1, 0, f"{turn}-{n}", frames=frames), {FRAMES: pending})
            for n in range(_BATCH)
        ]
        noted(times, lambda: commit(lib.catalogue, lib.folder, some))  # noqa: B023
    return statistics.median(times[1:]) / _BATCH


def opening(lib: Library) -> dict[str, float]:
    """What the process that answers keeps for each video (bytes), and how long it takes to see a changed library."""
    tracemalloc.start()
    times: list[float] = []
    fresh = Library.open(lib.folder, encoder=lib.tracks[FRAMES].encoder)
    videos = len(noted(times, fresh.snapshot).videos)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    noted(times, lambda: assign(Library.open(lib.folder).snapshot(), 8))
    return {"catalogue_bytes": kept / videos, "catalogue_seconds": times[1] / videos}


def searching(lib: Library, rounds: int) -> dict[str, Any]:
    """Seconds to score the whole library on one core, and what a search with its page takes besides."""
    found: dict[str, Any] = {}
    shard = Shard(str(lib.folder), __version__, 0, 1, threads=1)
    for name, queries in (("one_core", 1), ("one_core_batch", _BATCH)):
        vectors = lib.encode(FRAMES, [str(seed) for seed in range(queries)]).numpy()
        depth = SearchOptions().through
        question = Question({FRAMES: vectors}, (Wanted(depth=depth),) * queries)
        needs = [Best(row, FRAMES, depth) for row in range(queries)]
        times: list[float] = []
        for turn in range(rounds + 1):
            asked = (shard.ping(), f"{name} {turn}", question, needs)
            reply = noted(times, lambda: shard.answer(*asked), time.process_time)  # noqa: B023
        found[name] = times[1:]
        found[f"{name}_bytes"] = reply.bytes / queries
    found["all_scores_bytes"] = 8 * len(lib.snapshot().tracks[FRAMES])  # base and evidence of every section
    whole: list[float] = []
    for seed in range(rounds + 1):
        noted(whole, lambda: lib.search_many([str(seed)], SearchOptions()), time.process_time)  # noqa: B023
    page = max(0.0, statistics.median(whole[1:]) - statistics.median(found["one_core"]))
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    return {**found, "batch": _BATCH, "whole": whole[1:], "page": page}


def cluster(lib: Library, rounds: int) -> dict[str, Any] | None:
    """The same searches through shards on Ray actors on this machine, asking nothing, and how long a restart takes."""
    try:
        with connected("local") as ray:
            shards = max(2, len(os.sched_getaffinity(0)))
            actors = start_shards(ray, lib.folder, shards, 1)
            asking = ClusterSearcher(lib, Shards(ray, actors))
            whole: list[float] = []
            ask: list[float] = []
            for seed in range(rounds + 1):
                noted(whole, lambda: asking.search_many([str(seed)], SearchOptions()))  # noqa: B023
                noted(ask, lambda: ray.get([row[0].ping.remote() for row in actors]))
            ray.kill(actors[0][0], no_restart=False)
            began = time.perf_counter()
            asking.search_many(["0"], SearchOptions())
            while any(each.missing for each in asking.search_many(["0"], SearchOptions())):
                time.sleep(0.05)
            restart = time.perf_counter() - began
            stop_shards(ray, lib.folder)
            return {"shards": shards, "whole": whole[1:], "ask": ask[1:], "restart": restart}
    except MissingExtra:
        return None


if __name__ == "__main__":
    main()
