"""``python benchmarks/server_load.py``: how many searches a server answers at once, and one at a time.

    python benchmarks/server_load.py                    # 1,000 videos of 5 minutes, 64 clients
    python benchmarks/server_load.py --videos 200 --searches 128

The library holds synthetic vectors (see library_search.py). The server runs in a process of its own and the clients in
this one, on the same cores. Clients speak HTTP over plain sockets that stay open, so that they need little time; how
much is printed. "One at a time" is one client that waits for each answer before it sends the next search. "At once"
is 64 such clients. Both take turns, so that other work on the machine slows both.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parent))
import library_search as synthetic

from prvr.library import IndexedVideo, Library, NewVideo, Piece, SectionBuffer
from prvr.server import ServerOptions, serve

_KINDS = 25  # videos that differ; the others repeat them, which costs the same to score
_AT_ONCE = 50  # videos committed together
SOLO = 64  # searches of a round, one at a time


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--videos", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=5.0, help="of each video, at one frame per second")
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--searches", type=int, default=512, help="by all clients together")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=int, default=10, help="hits on a page")
    parser.add_argument("--folder", type=Path, help="where to make the library (kept, and used again if it is there)")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)  # be the server, on this port
    args = parser.parse_args()
    if args.serve is not None:
        run_server(args.folder, args.width, args.serve)
        return
    console = Console(highlight=False, soft_wrap=True)
    place = args.folder or Path(tempfile.mkdtemp()) / "library"
    if not (place / "library.json").exists():
        fill(place, args.videos, round(60 * args.minutes), args.width)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = ["--serve", str(port), "--folder", str(place), "--width", str(args.width)]
    server = subprocess.Popen([sys.executable, __file__, *words])
    try:
        wait_for(port)
        rounds: dict[str, list[Round]] = {"one at a time": [], f"{args.clients} at once": []}
        for number in range(args.rounds):
            for name, clients, searches in zip(rounds, (1, args.clients), (SOLO, args.searches), strict=True):
                requests = [search(f"{1000 * number + each}", args.limit, port) for each in range(searches)]
                rounds[name].append(asyncio.run(load(port, clients, requests, server.pid)))
        for name, found in rounds.items():
            times = np.concatenate([each.times for each in found])
            console.print(
                f"{name}: {', '.join(f'{each.rate:.1f}' for each in found)} searches a second, "
                f"median {1000 * np.median(times):.0f} ms, 95 % within {1000 * np.quantile(times, 0.95):.0f} ms, "
                f"{sum(each.failed for each in found)} of {len(times)} failed"
            )
            cores = [1000 * sum(getattr(each, who) for each in found) / len(times) for who in ("server", "clients")]
            console.print(f"   of a core for each search: server {cores[0]:.1f} ms, clients {cores[1]:.2f} ms")
        ratios = [many.rate / alone.rate for alone, many in zip(*rounds.values(), strict=True)]
        console.print(f"throughput × {', '.join(f'{each:.1f}' for each in ratios)}, median × {np.median(ratios):.1f}")
        console.print(f"searches in a pass: {batches(port)}")
    finally:
        server.terminate()
        server.wait(10)
        if args.folder is None:
            shutil.rmtree(place.parent)


def fill(place: Path, videos: int, frames: int, width: int) -> None:
    """A library of synthetic vectors, a few kinds of videos over and over."""
    library = Library.create(place, encoder=synthetic.SyntheticEncoder(width))
    track = library.tracks["frames"]
    kinds = []
    start = np.arange(frames, dtype=np.float64)
    for number in range(_KINDS):
        vectors = synthetic.walk(frames, width, np.random.default_rng((7, number)))
        kinds.append(list(track.sections([Piece(vectors, np.stack([start, start + 1], 1))])))
    for first in range(0, videos, _AT_ONCE):
        batch = []
        for number in range(first, min(videos, first + _AT_ONCE)):
            pending = SectionBuffer(library.folder)
            for section in kinds[number % _KINDS]:
                pending.add(section)
            path = Path(f"/made up/{number:06d}.mp4")
            video = NewVideo(path, frames, 0, str(number), duration=float(frames), frames=frames)
            batch.append(IndexedVideo(video, {"frames": pending}))
        library.store.commit(batch)


def run_server(place: Path, width: int, port: int) -> None:
    serve(
        Library.open(place, encoder=synthetic.SyntheticEncoder(width)), ServerOptions(port=port), lambda address: None
    )


def wait_for(port: int) -> None:
    for _ in range(600):
        try:
            httpx.get(f"http://127.0.0.1:{port}/v1/health")
            break
        except httpx.TransportError:
            time.sleep(0.1)
    httpx.post(f"http://127.0.0.1:{port}/v1/search", json={"query": "0"}, timeout=120)  # reads the files once


@dataclass(frozen=True)
class Round:
    """Searches a second, the time of each, how many failed, and seconds of a core that server and clients took."""

    rate: float
    times: list[float]
    failed: int
    server: float
    clients: float


def search(query: str, limit: int, port: int) -> bytes:
    body = json.dumps({"query": query, "limit": limit}).encode()
    head = (
        f"POST /v1/search HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def load(port: int, clients: int, requests: Sequence[bytes], server: int) -> Round:
    times: list[float] = []
    failed, left = 0, iter(requests)

    async def ask() -> None:
        nonlocal failed
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for request in left:
            began = time.perf_counter()
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
            answer = await reader.readexactly(length)
            failed += not head.startswith(b"HTTP/1.1 200") or b'"hits":[{' not in answer
            times.append(time.perf_counter() - began)
        writer.close()

    began, own, theirs = time.perf_counter(), time.process_time(), core_seconds(server)
    await asyncio.gather(*(ask() for _ in range(clients)))
    rate = len(requests) / (time.perf_counter() - began)
    return Round(rate, times, failed, core_seconds(server) - theirs, time.process_time() - own)


def core_seconds(process: int) -> float:
    """What a process has used of the cores; NaN where the system has no /proc."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return float("nan")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def batches(port: int) -> str:
    """How many searches were scored together, from the server's counters."""
    text = httpx.get(f"http://127.0.0.1:{port}/metrics").text
    found = re.findall(r'prvr_search_batch_size_bucket\{le="([^"]+)"\} (\d+)', text)
    below, counts = 0, []
    for bound, count in found:
        if int(count) > below:
            counts.append(f"{int(count) - below} of up to {float(bound):g}")
        below = int(count)
    return ", ".join(counts)


if __name__ == "__main__":
    main()
