"""``python benchmarks/transfer_sweep.py``: how long choosing anchors and λ takes on a gallery of Charades-STA's size.

The gallery has 3,720 queries and 1,334 videos, with random tokens. It prints seconds and asserts nothing.
"""

from __future__ import annotations

import resource
import time

import torch

from prvr.evaluation import TRANSFER_LAMBDAS, TransferSplit, transfer_trace
from prvr.tokens import VideoTokens
from prvr.trace import ANCHOR_KINDS


def main(queries: int = 3720, videos: int = 1334, frames: int = 128, width: int = 384) -> None:
    torch.manual_seed(0)
    mask = torch.arange(frames) < torch.randint(20, frames + 1, (videos, 1))
    tokens = VideoTokens(torch.randn(videos, frames, width), mask, torch.randn(videos, 32, width))
    split = TransferSplit(
        torch.randn(queries, width), tokens, torch.randn(queries, videos), torch.arange(queries) % videos
    )
    began = time.perf_counter()
    transfer_trace(split, split)
    seconds = time.perf_counter() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    tried = len(ANCHOR_KINDS) * len(TRANSFER_LAMBDAS)
    print(f"{tried} choices tried, one reported: {seconds:.1f} s, {torch.get_num_threads()} threads, {memory:.1f} GiB")


if __name__ == "__main__":
    main()
