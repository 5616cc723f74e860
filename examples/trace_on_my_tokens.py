"""TRACE on the tokens of your own model: is a strong local match supported by the rest of its video?

    python examples/trace_on_my_tokens.py

You need queries (Q, D), the local tokens of videos (V, M, D) with a mask (V, M), and registers (V, R, D). A model
without registers gets anchors instead, pooled from its own tokens. Nothing is learned here.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from prvr.tokens import VideoTokens
from prvr.trace import Trace, TraceConfig, explain_pair, fuse, trace_evidence, with_anchors

FRAMES, WIDTH = 24, 32
NAMES = ("a short flash", "the scene")
CONFIG = TraceConfig(fusion_weight=0.3)  # λ: how much the evidence counts; choose it on validation data


def main() -> None:
    query, frames = my_model()
    tokens = VideoTokens.of_frames(frames, torch.ones(frames.shape[:2], dtype=torch.bool))
    tokens = with_anchors(tokens, "temporal-4")  # leave this out if your model has registers of its own
    assert tokens.registers is not None

    evidence = trace_evidence(query, tokens.registers, tokens.frames, tokens.frame_mask, config=CONFIG)
    plain = evidence.direct.max(-1).values  # (Q, V): what the strongest frame alone says
    fused = fuse(plain, evidence.score, CONFIG.fusion_weight)
    print("video           strongest frame   unsupported by   with TRACE")
    for name, frame, gap, final in zip(NAMES, plain[0], evidence.unsupported_gap[0], fused[0], strict=True):
        print(f"{name:<15}{frame:16.2f}{gap:17.2f}{final:13.2f}")

    best = int(fused[0].argmax())
    why = explain_pair(query[0], tokens[best : best + 1], Trace(WIDTH, CONFIG), base=plain[0, best])
    print(f"\n{NAMES[best]}: {why}")


def my_model() -> tuple[Tensor, Tensor]:
    """Stands for your own model: a query (1, D), and the frames of two videos (2, M, D), all of unit length.

    In the first video one single frame looks like the query, more than any frame of the second. In the second, the
    scene that the query describes lasts, and the frames around it belong to it.
    """
    torch.manual_seed(0)
    query, other, near = (F.normalize(torch.randn(WIDTH), dim=0) for _ in range(3))

    def noisy(vector: Tensor, count: int) -> Tensor:
        return F.normalize(vector + 0.1 * torch.randn(count, WIDTH), dim=-1)

    flash = noisy(other, FRAMES)
    flash[7] = F.normalize(query + 0.3 * other, dim=0)
    scene = torch.cat([noisy(query + near, 8), noisy(query + 0.4 * near, 8), noisy(query + near, 8)])
    return query[None], torch.stack([flash, scene])


if __name__ == "__main__":
    main()
