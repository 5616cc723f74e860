"""``python benchmarks/proxy_baseline.py PROXY [PROXY …]``: how hard is a proxy for ridge regression?

It takes seconds and trains no network. A sentence is the mean of its words' features, and its target is the mean of its
video's frames. The test gallery is ranked by cosine with the predicted vector, against each video's mean and against
its best frame. It prints SumR of the test split (labelled video only). With shuffled pairs it must fall to chance.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import normalize

from prvr.data import Dataset
from prvr.evaluation import ranks, recalls

RIDGE = (10.0, 100.0, 1000.0)  # chosen by the validation split


def sentences(data: Dataset) -> Tensor:
    """(Q, Dq)."""
    return torch.cat([normalize(_mean(batch.tokens, batch.mask), dim=-1) for batch in data.query_batches()])


def pooled(data: Dataset) -> Tensor:
    """(V, Dv)."""
    return torch.cat([_mean(batch.frames, batch.frame_mask) for batch in data.video_batches()])


def _mean(rows: Tensor, mask: Tensor) -> Tensor:
    return rows.sum(1) / mask.sum(1, keepdim=True)  # padded rows are zero


def best_frame(predicted: Tensor, data: Dataset, centre: Tensor) -> Tensor:
    """Cosine of predictions (Q, Dv) with the best frame of each video, (Q, V)."""
    columns = []
    for batch in data.video_batches(50):
        frames = normalize(batch.frames - centre, dim=-1)
        cosines = torch.einsum("qd,vmd->qvm", predicted, frames)
        columns.append(cosines.masked_fill(~batch.frame_mask.bool(), -1).amax(-1))
    return torch.cat(columns, 1)


def baseline(root: Path) -> dict[str, float]:
    """SumR against mean and best frame of each video, and by chance."""
    train, val, test = (Dataset.load(root, "proxy", split) for split in ("train", "val", "test"))
    texts, videos = sentences(train).double(), pooled(train).double()
    origin, centre = texts.mean(0), videos.mean(0)
    texts, target = texts - origin, (videos - centre)[train.query_video]
    gram, cross = texts.T @ texts, texts.T @ target
    best: tuple[float, Tensor] = (-1.0, cross)
    for strength in RIDGE:
        weights = torch.linalg.solve(gram + strength * torch.eye(len(gram), dtype=gram.dtype), cross)
        predicted, gallery = (sentences(val).double() - origin) @ weights, pooled(val).double() - centre
        scores = normalize(predicted, dim=-1) @ normalize(gallery, dim=-1).T
        best = max(best, (recalls(ranks(scores, val.query_video)).sum_r, weights), key=lambda found: found[0])
    predicted = normalize((sentences(test).double() - origin) @ best[1], dim=-1)
    means = normalize(pooled(test).double() - centre, dim=-1)
    scores = {"mean": predicted @ means.T, "best frame": best_frame(predicted.float(), test, centre.float())}
    chance = 100 * sum(min(1.0, k / len(test)) for k in (1, 5, 10, 100))
    found = {name: recalls(ranks(s, test.query_video)).sum_r for name, s in scores.items()}
    return found | {"chance": chance, "median share of a video that a moment covers, %": 100 * moment_share(test)}


def moment_share(data: Dataset) -> float:
    moments = [moment for moment in (data.moments or {}).values() if moment.duration]
    return statistics.median((moment.end - moment.start) / moment.duration for moment in moments if moment.duration)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("proxies", type=Path, nargs="+", metavar="PROXY")
    for root in parser.parse_args().proxies:
        found = baseline(root)
        print(f"{root}: " + ", ".join(f"{name} {value:.1f}" for name, value in found.items()), flush=True)


if __name__ == "__main__":
    main()
