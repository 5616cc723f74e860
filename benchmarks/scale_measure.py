"""Measure what one node does, and write it as JSON for scale_simulation.py.

    python benchmarks/scale_measure.py --out scale.json                # some minutes; uses Ray if it is installed
    python benchmarks/scale_simulation.py scale.json

Decoding, encoding (`plain`, no weights) and finishing are the stages of `prvr library add --cluster`, called here one
after the other on one core. Scoring is that of one shard over synthetic vectors (see library_search.py) in memory.
These are seconds of a core. Searches through Ray and commits are seconds of the clock: let nothing else run.
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
from prvr.cluster import (
    ClusterAdd,
    ClusterSearcher,
    Decode,
    EncodeFrames,
    FolderPieces,
    SectionWriter,
    ShardActor,
    ShardRequest,
    Shards,
    assign_videos,
    connected,
    plan_jobs,
    start_shards,
    stop_shards,
)
from prvr.library import (
    FRAMES,
    IndexedVideo,
    Library,
    NewVideo,
    Piece,
    SearchRequest,
    SectionBuffer,
    commit_videos,
)
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

    adder = lib.adder()
    (job,) = plan_jobs(adder, adder.plan([path]))
    encoder, pieces = lib.tracks[FRAMES].encoder, FolderPieces(lib.folder)
    assert isinstance(encoder, Encoder)
    encode, finish = (stage(str(lib.folder), __version__) for stage in (EncodeFrames, SectionWriter))
    decode = Decode(str(lib.folder), encoder.fit, encoder.batch, adder.rate)
    for _ in range(4):
        state = ClusterAdd(adder, [job], pieces)
        row = {"video": 0, "path": str(path), "key": job.key}
        decoded = noted(times["decode"], lambda: list(decode(row)), time.process_time)  # noqa: B023 (called at once)
        encoded = noted(times["encode"], lambda: [encode(each) for each in decoded], time.process_time)  # noqa: B023
        video = next(video for video in map(state.receive, encoded) if video is not None)
        arguments = (job.key, job.video, video.ending, video.chunks)
        noted(times["finish"], lambda: finish.finish(*arguments), time.process_time)  # noqa: B023
        pieces.tidy()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    return {name: statistics.median(taken[1:]) / seconds for name, taken in times.items()}


def noted(times: list[float], work: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> Any:
    """Do the work and note its seconds; with ``time.process_time``, those in which a core worked."""
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
    """Seconds for each video when 32 are committed together, as in adding on a cluster."""
    track, frames = lib.tracks[FRAMES], 300
    start = np.arange(frames, dtype=np.float64)
    walk = synthetic.walk(frames, track.encoder.width, np.random.default_rng(1))
    piece = Piece(walk, np.stack([start, start + 1], 1))
    pending = SectionBuffer(lib.folder)
    for section in track.sections([piece]):
        pending.add(section)
    times: list[float] = []
    for turn in range(8):
        some = [
            IndexedVideo(NewVideo(Path(f"/more/{turn}/{n}"), 1, 0, f"{turn}-{n}", frames=frames), {FRAMES: pending})
            for n in range(_BATCH)
        ]
        noted(times, lambda: commit_videos(lib.catalogue, lib.folder, some))  # noqa: B023
    return statistics.median(times[1:]) / _BATCH


def opening(lib: Library) -> dict[str, float]:
    """Bytes that the process that answers keeps in memory for each video, and seconds to map a changed library."""
    tracemalloc.start()
    times: list[float] = []
    fresh = Library.open(lib.folder, encoder=lib.tracks[FRAMES].encoder)
    snapshot = noted(times, fresh.snapshot)
    for sections in snapshot.tracks.values():
        sections.background  # noqa: B018 (read by the first search, and kept)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    noted(times, lambda: assign_videos(Library.open(lib.folder).snapshot(), 8))
    videos = len(snapshot.videos)
    return {"head_bytes": kept / videos, "catalogue_seconds": times[1] / videos}


def searching(lib: Library, rounds: int) -> dict[str, Any]:
    """Seconds to score the whole library on one core, bytes of the scores, and seconds of the rest of a search."""
    found: dict[str, Any] = {}
    shard = ShardActor(str(lib.folder), __version__, 0, 1, threads=1)
    sections = lib.snapshot().tracks[FRAMES]
    for name, queries in (("one_core", 1), ("one_core_batch", _BATCH)):
        vectors = lib.encode(FRAMES, [str(seed) for seed in range(queries)]).numpy()
        request = ShardRequest(FRAMES, vectors, [sections.fusion_weight] * queries, [None] * queries)
        times: list[float] = []
        for _ in range(rounds + 1):
            reply = noted(times, lambda: shard.score(shard.ping(), request), time.process_time)  # noqa: B023
        found[name] = times[1:]
        found[f"{name}_bytes"] = reply.bytes / queries
    found["sections_per_video"] = len(sections) / len(lib.snapshot().videos)
    whole: list[float] = []
    for seed in range(rounds + 1):
        noted(whole, lambda: lib.search_many([SearchRequest(str(seed))]), time.process_time)  # noqa: B023
    page = max(0.0, statistics.median(whole[1:]) - statistics.median(found["one_core"]))
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    return {**found, "batch": _BATCH, "whole": whole[1:], "page": page}


def cluster(lib: Library, rounds: int) -> dict[str, Any] | None:
    """The same searches through shards on Ray actors on this machine, seconds of an empty call, and of a restart."""
    try:
        with connected("local") as ray:
            shards = max(2, len(os.sched_getaffinity(0)))
            actors = start_shards(ray, lib.folder, shards, 1)
            searcher = ClusterSearcher(lib, Shards(ray, actors))
            whole: list[float] = []
            ask: list[float] = []
            for seed in range(rounds + 1):
                noted(whole, lambda: searcher.search_many([SearchRequest(str(seed))]))  # noqa: B023
                noted(ask, lambda: ray.get([row[0].ping.remote() for row in actors]))
            ray.kill(actors[0][0], no_restart=False)
            began = time.perf_counter()
            searcher.search_many([SearchRequest("0")])
            while any(result.missing for result in searcher.search_many([SearchRequest("0")])):
                time.sleep(0.05)
            restart = time.perf_counter() - began
            stop_shards(ray, lib.folder)
            return {"shards": shards, "whole": whole[1:], "ask": ask[1:], "restart": restart}
    except MissingExtra:
        return None


if __name__ == "__main__":
    main()
