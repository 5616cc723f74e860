"""``python benchmarks/event_anchors.py RUN [RUN …]``: would better anchors help TRACE?

    python benchmarks/event_anchors.py RUN                                  # a run on a synthetic world
    python benchmarks/event_anchors.py RUN --annotations DIR                # a run on a proxy, whose events are there

Of several runs (seeds), intervals draw whole videos, all runs together. Anchors stand in for the registers of a trained
base, at test time, with λ chosen on validation:

- *events*: the mean token of every event of a video's own annotation, whether or not a query asks for it. This is
  what a perfect register would be, and leaks nothing about the queries.
- *moments of the queries*: the same at the annotated moments of the test queries themselves. The label leaks here: a
  plain maximum over these anchors, without any frame, is shown beside it.
- windows of time, and clusters, as ``prvr transfer`` pools them.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from prvr.data import Dataset
from prvr.evaluation import (
    TRANSFER_LAMBDAS,
    RankPair,
    TransferSplit,
    encode_split,
    open_subject,
    pooled_change,
    ranks,
    recalls,
)
from prvr.scoring import sweep_anchors
from prvr.tokens import VideoTokens
from prvr.trace import fuse, with_anchors
from prvr.training import Run
from prvr.worlds import read_activitynet, read_charades, read_feature_scripts

Spans = dict[str, list[tuple[float, float]]]  # by video: shares of its length


def event_spans(data: Path, annotations: Path | None, split: str) -> Spans:
    """All events of every video, as the frames' own annotation has them."""
    if annotations is None:
        scripts = read_feature_scripts(data / "synth")[split]
        return {s.video: [(e.start / s.length, e.end / s.length) for e in s.events] for s in scripts}
    charades = "charades" in (data / "proxy" / "proxy.json").read_text("utf-8")
    source = read_charades(annotations) if charades else read_activitynet(annotations)
    return {s.video: [(e.start / s.length, e.end / s.length) for e in s.events] for s in source.scripts[split]}


def moment_spans(dataset: Dataset) -> Spans:
    spans: Spans = {}
    for caption in dataset.captions:
        moment = (dataset.moments or {}).get(caption.id)
        if moment is not None and moment.duration:
            spans.setdefault(caption.video, []).append((moment.start / moment.duration, moment.end / moment.duration))
    return spans


def anchors_at(videos: VideoTokens, names: Sequence[str], spans: Spans) -> Tensor:
    """Mean tokens of each video's spans, (V, K, D); a video with fewer repeats its last, one without any its mean."""
    most = max(1, max(len(spans.get(name, ())) for name in names))
    rows = []
    for row, name in enumerate(names):
        count = int(videos.frame_mask[row].sum())
        tokens = videos.frames[row, :count]
        means = []
        for start, end in spans.get(name) or [(0.0, 1.0)]:
            first = min(int(start * count), count - 1)
            means.append(tokens[first : max(first + 1, round(end * count))].mean(0))
        rows.append(torch.stack(means + means[-1:] * (most - len(means))))
    return F.normalize(torch.stack(rows), dim=-1)


def chosen(val: Tensor, test: Tensor, splits: Sequence[TransferSplit]) -> tuple[float, Tensor]:
    """λ by validation SumR, and the test ranks with it."""
    on_val, on_test = splits
    sums = {w: recalls(ranks(fuse(on_val.base, val, w), on_val.truth)).sum_r for w in (0.0, *TRANSFER_LAMBDAS, 1.0)}
    weight = max(sums, key=lambda w: sums[w])
    return weight, ranks(fuse(on_test.base, test, weight), on_test.truth).cpu()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, nargs="+", metavar="RUN")
    parser.add_argument("--annotations", type=Path, help="as for `prvr data proxy`; not for a synthetic world")
    parser.add_argument("--data", type=Path, help="where the data is now")
    arguments = parser.parse_args()
    pairs: dict[str, list[RankPair]] = {}
    weights: dict[str, list[float]] = {}
    for path in arguments.run:
        for label, (pair, weight) in study(path, arguments).items():
            pairs.setdefault(label, []).append(pair)
            weights.setdefault(label, []).append(weight)
    (first, *_) = pairs.values()
    base = sum(recalls(pair.base).sum_r for pair in first) / len(first)
    print(f"| anchors | ΔSumR to the base ({base:.1f}) | λ |\n|---|---|---|")
    for label, found in pairs.items():
        print(f"| {label} | {pooled_change(found)} | {', '.join(f'{weight:g}' for weight in weights[label])} |")


def study(path: Path, arguments: argparse.Namespace) -> dict[str, tuple[RankPair, float]]:
    """By kind of anchors, ranks without and with them, and λ."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    subjects = [open_subject(Run(path), data=arguments.data, split=split, device=device) for split in ("val", "test")]
    splits = [encode_split(subject.model.backbone, subject.dataset) for subject in subjects]
    data = arguments.data or Path(subjects[0].run.data)
    sets: list[dict[str, Tensor]] = []
    for subject, split in zip(subjects, splits, strict=True):
        names, videos = subject.dataset.video_ids, split.videos
        made = {
            "events": anchors_at(videos, names, event_spans(data, arguments.annotations, subject.dataset.split)),
            "moments of the queries (leak)": anchors_at(videos, names, moment_spans(subject.dataset)),
        }
        pooled = {kind: with_anchors(videos, kind).registers for kind in ("temporal-8", "global-8")}
        sets.append(made | {kind: anchors for kind, anchors in pooled.items() if anchors is not None})
    base = ranks(splits[1].base, splits[1].truth).cpu()
    swept = [sweep_anchors(s.queries, s.videos, a) for s, a in zip(splits, sets, strict=True)]
    found: dict[str, tuple[RankPair, float]] = {}
    for name in sets[0]:
        rows = {name: (swept[0][name], swept[1][name])}
        if "(leak)" in name or name == "events":
            plain = [_best(s.queries, a[name]) for s, a in zip(splits, sets, strict=True)]
            rows[f"{name}, a plain maximum over them"] = (plain[0], plain[1])
        for label, (val, test) in rows.items():
            weight, after = chosen(val, test, splits)
            found[label] = RankPair(base, after, subjects[1].owners), weight
    return found


def _best(queries: Tensor, anchors: Tensor) -> Tensor:
    unit = F.normalize(queries, dim=-1)
    return torch.cat([torch.einsum("qd,vkd->qvk", some, anchors).amax(-1) for some in unit.split(256)])


if __name__ == "__main__":
    main()
