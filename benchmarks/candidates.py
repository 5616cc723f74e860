"""Compare faiss and Lance as the index that names the candidates of a search.

    pip install faiss-cpu                                                             # which prvr itself does not use
    python benchmarks/candidates.py --videos 10000                                    # minutes on two cores
    python benchmarks/candidates.py --videos 100000 --folder /large/disk --keep
    python benchmarks/candidates.py --folder /large/disk --only measure               # again, on idle cores

Videos are made up (candidates_table.py). Indexed are *stretches*: the neighbouring tokens that are most alike are
merged until ``--stretches`` are left. All tokens of the candidates are then fetched from a Lance table and scored
exactly, with TRACE. Recall is the share of the best ten of an exact search (all tokens, with TRACE) that is found. As
many lists are looked at as recall needs: twice as many until it is reached on one half of the queries. Times and
recall are those of the other half.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

os.environ.setdefault("RUST_LOG", "error")  # Lance warns at every search otherwise
os.environ.setdefault("LANCE_INCLUDE_VECTOR_CENTROIDS", "false")

import faiss
import lance
import numpy as np
import torch
from candidates_table import Rows, Settings, fetch, fill, fused
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

LIST = 6000  # stretches of a list: between the sizes below and above which Lance joins and splits lists


# -- the two indexes ----------------------------------------------------------------------------------------------


def build_lance(folder: Path, kind: str, partitions: int) -> None:
    bits = {"num_bits": 1} if kind == "IVF_RQ" else {}
    table = lance.dataset(folder / "sections.lance")
    table.create_index("stretches", kind, metric="cosine", replace=True, num_partitions=partitions, **bits)


def build_faiss(s: Settings, folder: Path) -> None:
    """An inverted file of vectors with a byte for each number, as Lance's IVF_SQ."""
    total = s.videos * s.stretches
    lists = max(1, min(4 * round(total**0.5), total // 39))
    index = faiss.IndexIVFScalarQuantizer(
        faiss.IndexFlatIP(s.width), s.width, lists, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
    )
    index.cp.niter = 6
    every = max(1, total // (lists * 40))
    index.train(np.concatenate([vectors[::every] for vectors, _ in stretches(s, folder)]))
    for vectors, rows in stretches(s, folder):
        index.add_with_ids(vectors, np.repeat(rows, s.stretches))
    faiss.write_index(index, str(folder / "stretches.faiss"))


def stretches(s: Settings, folder: Path) -> Iterator[tuple[NDArray[np.float32], Rows]]:
    scanner = lance.dataset(folder / "sections.lance").scanner(["stretches"], with_row_id=True, batch_size=4096)
    for batch in scanner.to_batches():
        yield batch["stretches"].flatten().flatten().to_numpy().reshape(-1, s.width), batch["_rowid"].to_numpy()


Find = Callable[[NDArray[np.float32], int, int], Rows]  # a query, how many videos, how many lists to look at


def find_lance(folder: Path) -> Find:
    table = lance.dataset(folder / "sections.lance", index_cache_size_bytes=8 << 30)

    def find(query: NDArray[np.float32], count: int, probes: int) -> Rows:
        nearest = {"column": "stretches", "q": query, "k": count, "nprobes": probes}
        rows: Rows = table.scanner(["_rowid", "_distance"], nearest=nearest).to_table()["_rowid"].to_numpy()
        return rows.astype(np.int64)

    return find


def find_faiss(folder: Path) -> Find:
    index = faiss.read_index(str(folder / "stretches.faiss"), faiss.IO_FLAG_MMAP)

    def find(query: NDArray[np.float32], count: int, probes: int) -> Rows:
        _, rows = index.search(query[None], 10 * count, params=faiss.SearchParametersIVF(nprobe=probes))
        videos, first = np.unique(rows[0][rows[0] >= 0], return_index=True)
        found: Rows = videos[np.argsort(first)][:count]
        return found

    return find


# -- the comparison -----------------------------------------------------------------------------------------------


def measure(s: Settings, folder: Path, find: Find, candidates: int, wanted: float, repeats: int) -> dict[str, Any]:
    """Double the lists to look at until enough is found, then measure."""
    exact = np.load(folder / "exact.npz", allow_pickle=False)
    table = lance.dataset(folder / "sections.lance")
    asked, best, half = exact["queries"], exact["best"], s.queries // 2

    def recall(probes: int, some: slice) -> float:
        pairs = zip(asked[some], best[some], strict=True)
        return float(np.mean([np.isin(those, find(query, candidates, probes)).mean() for query, those in pairs]))

    probes = 8
    while (found := recall(probes, slice(half))) < wanted and probes < 1024:
        print(f"  {probes} lists: {found:.3f}", flush=True)
        probes *= 2
    times: dict[str, list[float]] = {"nearest": [], "fetch": [], "whole": [], "processor": []}
    torch.set_num_threads(1)  # so few videos are scored fastest so
    same = []
    for _ in range(repeats):
        for query, those in zip(asked[half:], best[half:], strict=True):
            began, busy = time.perf_counter(), time.process_time()
            rows = find(query, candidates, probes)
            named = time.perf_counter()
            fetched = fetch(table, rows)
            read = time.perf_counter()
            scores = fused(torch.from_numpy(query), fetched, s)
            answer = rows[np.argsort(-scores)[:10]]
            end, busy = time.perf_counter(), time.process_time() - busy
            for name, taken in zip(times, (named - began, read - named, end - began, busy), strict=True):
                times[name].append(1000 * taken)
            same.append(np.isin(those, answer).mean())
    return {"probes": probes, "recall": float(np.mean(same)), **times, "wider": wider(find, asked, candidates, probes)}


def wider(find: Find, asked: NDArray[np.float32], count: int, probes: int) -> dict[int, float]:
    """Milliseconds of a processor to find candidates in more lists, for scale_simulation.py."""
    found = {}
    for some in (probes, 2 * probes, 4 * probes):
        times = [timed(lambda: find(query, count, some))[1] for query in asked]  # noqa: B023
        found[some] = 1000 * statistics.median(times)
    return found


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds that passed, and seconds of processors."""
    began, busy = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - began, time.process_time() - busy


def middle_and_late(times: list[float]) -> str:
    return f"{statistics.median(times):.1f}, {np.quantile(times, 0.95):.1f}"


def megabytes(*places: Path) -> float:
    files = (file for place in places for file in ([place] if place.is_file() else place.rglob("*")))
    return sum(file.stat().st_size for file in files if file.is_file()) / 1e6


def newest_index(folder: Path) -> Path:
    return max((folder / "sections.lance" / "_indices").iterdir(), key=lambda place: place.stat().st_mtime)


def installed(*names: str) -> float:
    files = [Path(str(file.locate())) for name in names for file in distribution(name).files or []]
    return megabytes(*(file for file in files if file.is_file()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in asdict(Settings()).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--index", default="IVF_SQ", help="Lance's kind of index (IVF_SQ, IVF_RQ)")
    parser.add_argument("--partitions", type=int, default=0, help=f"of it; 0: one for {LIST} stretches")
    parser.add_argument("--candidates", type=int, default=100, help="videos to score exactly")
    parser.add_argument("--recall", type=float, default=0.99, help="of the exact best ten, to tune for")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where to write; by default a temporary folder")
    parser.add_argument("--keep", action="store_true", help="keep what was written, for --only")
    parser.add_argument("--out", type=Path, help="write what was measured as JSON, for scale_simulation.py")
    parser.add_argument("--only", choices=("fill", "lance", "faiss", "measure"), help="one step, in a kept folder")
    args = parser.parse_args()
    folder = args.folder or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    s = Settings(**{name: getattr(args, name) for name in asdict(Settings())})
    if args.only not in (None, "fill"):
        s = Settings(**json.loads((folder / "settings.json").read_text("utf-8")))
    built = folder / "built.json"
    seconds: dict[str, tuple[float, float]] = json.loads(built.read_text("utf-8")) if built.exists() else {}
    if args.only in (None, "fill"):
        fill(s, folder)
    partitions = args.partitions or max(1, s.videos * s.stretches // LIST)
    if args.only in (None, "lance"):
        seconds["Lance"] = timed(lambda: build_lance(folder, args.index, partitions))
    if args.only in (None, "faiss"):
        seconds["faiss"] = timed(lambda: build_faiss(s, folder))
    built.write_text(json.dumps(seconds), "utf-8")
    if args.only in (None, "measure"):
        ways = {"faiss": find_faiss, "Lance": find_lance}
        found = {
            name: measure(s, folder, ways[name](folder), args.candidates, args.recall, args.repeats) for name in seconds
        }
        Console().print(compare(s, folder, found, seconds))
        if args.out is not None:
            sizes = {"rows": megabytes(folder / "sections.lance" / "data"), "index": megabytes(newest_index(folder))}
            lists = len(
                lance.dataset(folder / "sections.lance").stats.index_stats("stretches_idx")["indices"][0]["partitions"]
            )
            about = {**asdict(s), "partitions": lists, "megabytes": sizes, "build": seconds["Lance"][1]}
            args.out.write_text(json.dumps({**about, **found["Lance"]}, indent=1), "utf-8")
    if not args.keep and args.only is None:
        shutil.rmtree(folder)


def compare(s: Settings, folder: Path, found: dict[str, Any], seconds: dict[str, tuple[float, float]]) -> Table:
    packages = {"faiss": ("faiss-cpu",), "Lance": ("pylance", "pyarrow")}
    files = {"faiss": folder / "stretches.faiss", "Lance": newest_index(folder)}
    made = Table(title=f"{s.videos:,} videos of {s.tokens} tokens × {s.width}, {s.stretches} stretches indexed")
    for name in ("", *found):
        made.add_column(name, justify="right" if name else "left")

    def row(title: str, text: Callable[[str], str]) -> None:
        made.add_row(title, *(text(name) for name in found))

    row("exact best ten found", lambda name: f"{found[name]['recall']:.1%}")
    row("lists looked at", lambda name: f"{found[name]['probes']}")
    for step in ("nearest", "fetch", "whole", "processor"):
        row(f"{step}: median, 95 % within (ms)", lambda name: middle_and_late(found[name][step]))  # noqa: B023
    row("build: time, processor time (s)", lambda name: "{:.0f}, {:.0f}".format(*seconds[name]))
    row("index (MB)", lambda name: f"{megabytes(files[name]):.0f}")
    row("installed (MB)", lambda name: f"{installed(*packages[name]):.0f}")
    return made


if __name__ == "__main__":
    main()
