"""How many searches a server answers at once, beside one at a time: one run, one library, real HTTP on this machine.

    python benchmarks/server_load.py                    # 1,000 videos of 5 minutes, 64 clients
    python benchmarks/server_load.py --videos 200 --searches 128

The library holds synthetic vectors (see library_search.py); the server runs in a process of its own, the clients in
this one, all on the same cores. "One at a time": one client that waits for each answer before it asks again. "At
once": 64 clients that do the same.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import shutil
import socket
import sys
import tempfile
import time
from pathlib import Path

import httpx
import numpy as np
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parent))
import library_search as synthetic

from prvr.library import Library
from prvr.library.catalogue import NewVideo
from prvr.library.committing import commit
from prvr.library.pending import Indexed, Pending
from prvr.library.tracks import Piece
from prvr.server import ServerOptions, serve

_KINDS = 25  # videos that differ; the others repeat them, which costs the same to score
_AT_ONCE = 50  # videos committed together


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--videos", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=5.0, help="of each video, at one frame per second")
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--searches", type=int, default=512, help="by all clients together")
    parser.add_argument("--limit", type=int, default=10, help="hits on a page")
    parser.add_argument("--folder", type=Path, help="where to make the library (kept, and used again if it is there)")
    args = parser.parse_args()
    console = Console(highlight=False, soft_wrap=True)
    place = args.folder or Path(tempfile.mkdtemp()) / "library"
    if not (place / "library.json").exists():
        fill(place, args.videos, round(60 * args.minutes), args.width)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = multiprocessing.get_context("spawn").Process(target=run_server, args=(place, args.width, port))
    server.start()
    try:
        address = f"http://127.0.0.1:{port}"
        wait_for(address)
        alone = asyncio.run(load(address, 1, max(16, args.searches // 16), args.limit))
        many = asyncio.run(load(address, args.clients, args.searches, args.limit))
        for name, (rate, times, failed) in {"one at a time": alone, f"{args.clients} at once": many}.items():
            console.print(
                f"{name}: {rate:.1f} searches a second, median {1000 * np.median(times):.0f} ms, "
                f"95 % within {1000 * np.quantile(times, 0.95):.0f} ms, {failed} of {len(times)} failed"
            )
        console.print(f"throughput × {many[0] / alone[0]:.1f}")
    finally:
        server.terminate()
        server.join(10)
        if args.folder is None:
            shutil.rmtree(place.parent)


def fill(place: Path, videos: int, frames: int, width: int) -> None:
    """A library of synthetic vectors, a few kinds of videos over and over."""
    synthetic._TOPICS = synthetic.topics(1000, width, 0)
    library = Library.create(place, encoder=synthetic.Standstill(width))
    track = library.tracks["frames"]
    kinds = []
    start = np.arange(frames, dtype=np.float64)
    for number in range(_KINDS):
        vectors = synthetic.walk(frames, width, np.random.default_rng((7, number)))
        kinds.append(list(track.sections([Piece(vectors, np.stack([start, start + 1], 1))])))
    for first in range(0, videos, _AT_ONCE):
        batch = []
        for number in range(first, min(videos, first + _AT_ONCE)):
            pending = Pending(library.folder)
            for section in kinds[number % _KINDS]:
                pending.add(section)
            path = Path(f"/made up/{number:06d}.mp4")
            video = NewVideo(path, frames, 0, str(number), duration=float(frames), frames=frames)
            batch.append(Indexed(video, {"frames": pending}))
        commit(library.catalogue, library.folder, batch)


def run_server(place: Path, width: int, port: int) -> None:
    serve(Library.open(place, encoder=synthetic.Standstill(width)), ServerOptions(port=port), lambda address: None)


def wait_for(address: str) -> None:
    for _ in range(600):
        try:
            httpx.get(f"{address}/v1/health")
            break
        except httpx.TransportError:
            time.sleep(0.1)
    httpx.post(f"{address}/v1/search", json={"query": "0"}, timeout=120)  # reads the files once


async def load(address: str, clients: int, searches: int, limit: int) -> tuple[float, list[float], int]:
    """Searches a second, the time of each, and how many failed."""
    times: list[float] = []
    failed, left = 0, iter(range(searches))

    async def ask(client: httpx.AsyncClient) -> None:
        nonlocal failed
        for number in left:
            began = time.perf_counter()
            try:
                answer = await client.post("/v1/search", json={"query": str(number + 1), "limit": limit})
                failed += answer.status_code != 200
            except httpx.HTTPError:
                failed += 1
            times.append(time.perf_counter() - began)

    limits = httpx.Limits(max_connections=clients, max_keepalive_connections=clients)
    async with httpx.AsyncClient(base_url=address, timeout=120, limits=limits) as client:
        began = time.perf_counter()
        await asyncio.gather(*(ask(client) for _ in range(clients)))
        return searches / (time.perf_counter() - began), times, failed


if __name__ == "__main__":
    main()
