"""``python benchmarks/trust_proxy.py SOURCE``: is what a search says about itself true? On symbolic-video proxies.

    python benchmarks/trust_proxy.py activitynet --annotations DIR --encoder FOLDER

The proxies of frozen_proxy.py: frames and sentences of real annotations in the space of a sentence model, searched as a
library with an encoder alone is (windows of 2 s, every 1 s). Every sentence is asked once with its videos and once
without them; without them it is absent, but still in the words of the library.

- sure: how often a search is said to stand out; without its videos that is a false alarm.
- support: how often first answers are right in the upper and in the lower third of TRACE's support.
- query bank: SumR if each video's score is lessened by what background sentences score on it (a soft maximum).
"""

from __future__ import annotations

import numpy as np
import torch
from frozen_common import QUERIES_AT_ONCE
from frozen_proxy import arguments, proxy
from numpy.typing import NDArray
from torch import Tensor

from prvr.backbones import Frozen, FrozenTokens, build
from prvr.evaluation import compare_ranks
from prvr.library import BACKGROUND_SENTENCES, Background, Standing
from prvr.media import open_text_encoder
from prvr.scoring import ranks
from prvr.trace import TraceConfig, VerdictScale, trace_evidence

STRENGTHS, TEMPERATURES = (0.25, 0.5, 0.75), (0.03, 0.1)
WINDOW, STRIDE = 2, 1  # frames: the proxies have one per second


def scored(backbone: Frozen, tokens: FrozenTokens, queries: Tensor) -> tuple[Tensor, Tensor]:
    """(Q, V): scores with TRACE, and the lift of its support."""
    scores, lifts = [], []
    for part in queries.split(QUERIES_AT_ONCE):
        assert tokens.registers is not None
        evidence = trace_evidence(part, tokens.registers, tokens.frames, tokens.frame_mask)
        scores.append(backbone.base_score(part, tokens) + TraceConfig().fusion_weight * evidence.score)
        support = evidence.expected_support.masked_fill(~tokens.frame_mask, torch.nan)
        peak = evidence.direct.nan_to_num(-torch.inf).argmax(-1, keepdim=True)
        lifts.append(support.gather(-1, peak).squeeze(-1) - support.nanmean(-1))
    return torch.cat(scores), torch.cat(lifts)


def main() -> None:
    args = arguments(__doc__)
    encoder = open_text_encoder(args.encoder)
    videos, labelled = proxy(args, encoder)
    width = encoder.width
    backbone = build("frozen", visual_width=width, query_width=width, local="windows", window=WINDOW, stride=STRIDE)
    assert isinstance(backbone, Frozen)
    tokens = backbone.join([backbone.moments(video) for video in videos])
    scores, lifts = scored(backbone, tokens, labelled.vectors)
    bank, _ = scored(backbone, tokens, torch.from_numpy(encoder.encode_texts(BACKGROUND_SENTENCES)))
    first = scores.argmax(1)
    right = np.array([int(video) in positives for video, positives in zip(first, labelled.positives, strict=True)])
    share = f"{100 * right.mean():.1f} %"
    print(f"{args.source}: {len(videos)} videos, {len(right)} sentences; first answer right: {share}")
    print_words(scores.numpy(), labelled.positives, bank.numpy(), right)
    of_first = lifts.gather(1, first[:, None]).squeeze(1).double().numpy()
    print(f"  support: {VerdictScale.fit(of_first, right)}")
    plain = ranks(scores, labelled.positives)
    for temperature in TEMPERATURES:
        offsets = temperature * (bank / temperature).logsumexp(0)  # (V,), up to a constant
        for strength in STRENGTHS:
            changed = ranks(scores - strength * offsets, labelled.positives)
            print(f"  query bank, temperature {temperature:g}, strength {strength:g}: {compare_ranks(plain, changed)}")


def print_words(
    scores: NDArray[np.float32], positives: list[tuple[int, ...]], bank: NDArray[np.float32], right: NDArray[np.bool_]
) -> None:
    sure, alarms = [], []
    for row, own in zip(scores, positives, strict=True):
        others = np.setdiff1d(np.arange(scores.shape[1]), own)
        sure.append(Standing(row, Background(np.sort(bank.max(1)))).presence.confident)
        alarms.append(Standing(row[others], Background(np.sort(bank[:, others].max(1)))).presence.confident)
    said = np.array(sure)
    share = f"{100 * right[said].mean():.0f} % of them right" if said.any() else "none"
    false = f"{100 * np.mean(alarms):.1f} %"
    print(f"  sure: {100 * said.mean():.1f} % ({share}); false alarms without the videos: {false}")


if __name__ == "__main__":
    main()
