"""``python benchmarks/witness_words.py RUN …``: does a single word of a witness point at the right time?

    prvr data synth DEMO --size demo
    for seed in 0 1 2; do prvr train demo --method witness --data DEMO --out RUN$seed --seed $seed; done
    python benchmarks/witness_words.py RUN0 RUN1 RUN2

A witness learns from whole sentences and videos, never from moments. Here every test query meets its own video, whose
moment the world knows. A word points at the frame in which its evidence is highest, as the page shows it, and is right
if the middle of that frame lies in the moment. It is compared with

- chance: the share of the video's frames that lie in the moment;
- the base: the frame that is most similar to the whole sentence;
- the meeting place: the frame where all words of the witness fit together best;
- strangers: the same kind of word from a sentence about another video, which should be right by chance only.

Words are counted by kind. Actions and objects belong to the moment. A place shows in the whole video. The other words
say nothing about the moment, but a word's feature carries some of its sentence, so they need not be at chance.
Differences are in percentage points, averaged over runs; intervals (95 %) draw whole videos, in all runs at once.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from prvr.data import Dataset, Moment
from prvr.evaluation import Estimate, Subject, joint_changes, open_subject, signed
from prvr.training import FittedWitness, Run, load_run_witness
from prvr.words import content_words
from prvr.worlds import read_feature_vocabulary

BASE, PLACE = "base, whole sentence", "meeting place of the words"
TOGETHER = 64  # pairs that are looked at together
KINDS = ("action", "object", "place", "other word")
Floats = NDArray[np.float64]


class Pointer(NamedTuple):
    """Something that points at a frame of a query's own video."""

    kind: str
    video: str
    inside: bool  # the frame is in the moment
    chance: float  # share of the video's frames that are
    base: bool  # whether the base's best frame is
    place: bool  # whether the meeting place is


def frames_inside(moment: Moment, frames: int) -> NDArray[np.bool_]:
    """Which frames of a video have their middle in the moment, (m,).

    >>> frames_inside(Moment("a", 2.0, 4.0, 8.0), 4)
    array([False,  True, False, False])
    """
    middles = (np.arange(frames) + 0.5) / frames * moment.duration
    return np.logical_or.reduce([(start <= middles) & (middles < end) for start, end in moment.windows])


def kinds_of_words(root: Path) -> Callable[[str], str]:
    """What a word of a feature world is about; elsewhere only whether it carries meaning."""
    if not (root / "world.json").exists():
        return lambda word: "content word" if content_words(word) else "other word"
    words = read_feature_vocabulary(root)
    pairs = {"action": words.actions, "object": words.objects, "place": words.topics}
    known = {word: kind for kind, of_kind in pairs.items() for pair in of_kind for word in pair}
    return lambda word: known.get(word, "other word")


class Seen(NamedTuple):
    """What is seen of one query in one video of m frames."""

    base: int  # the frame that is most similar to the whole sentence
    place: int  # the frame where all words fit together best
    words: dict[int, int]  # of each word, by its number, the best frame
    frames: int  # m


@torch.no_grad()
def look(subject: Subject, witness: FittedWitness, queries: Sequence[int], videos: Sequence[int]) -> list[Seen]:
    """Look with each query at one video."""
    query = subject.dataset.query_batch([*queries]).to(subject.device)
    video = subject.dataset.video_batch([*videos]).to(subject.device)
    vectors = subject.model.backbone.encode_queries(query.tokens, query.mask).float()
    tokens = subject.model.backbone.encode_video_batch(video).to(torch.float32)
    curves = (F.normalize(tokens.evidence, dim=-1) @ F.normalize(vectors, dim=-1)[..., None]).squeeze(-1)  # (N, M)
    seen, found = witness.evidence(subject.model, query, video), list[Seen]()
    for row in range(len(queries)):
        count, words = int(video.frame_mask[row].sum()), int(query.mask[row].sum())
        best = seen.evidence[row, 0, :words, :count].argmax(1).tolist()
        at = int(curves[row, :count].argmax()), int(seen.place[row, 0, :count].argmax())
        found.append(Seen(*at, dict(enumerate(best)), count))
    return found


def point(subject: Subject, witness: FittedWitness, kind_of: Callable[[str], str]) -> list[Pointer]:
    """Every pointer of a split: base, meeting place, each word, and each word of a stranger."""
    data, found = subject.dataset, list[Pointer]()
    moments = {name: moment.within_video for name, moment in (data.moments or {}).items()}
    rows = [row for row, caption in enumerate(data.captions) if caption.id in moments]
    for first in range(0, len(rows), TOGETHER):
        some = rows[first : first + TOGETHER]
        videos, others = data.query_video[some].tolist(), [_stranger(data, row) for row in some]
        pairs = zip(look(subject, witness, some, videos), look(subject, witness, others, videos), strict=True)
        for row, other, (own, strange) in zip(some, others, pairs, strict=True):
            moment = moments[data.captions[row].id]
            inside = frames_inside(moment, own.frames)
            at = [(BASE, own.base), (PLACE, own.place), *_by_kind(data, row, own, kind_of)]
            at += [(f"{kind}, stranger", frame) for kind, frame in _by_kind(data, other, strange, kind_of)]
            right = bool(inside[own.base]), bool(inside[own.place])
            for kind, frame in at:
                found.append(Pointer(kind, moment.video, bool(inside[frame]), float(inside.mean()), *right))
    return found


def _stranger(data: Dataset, row: int) -> int:
    """A query about another video, half of the split away."""
    count = len(data.captions)
    away = ((row + count // 2 + step) % count for step in range(count))
    return next(other for other in away if data.query_video[other] != data.query_video[row])


def _by_kind(data: Dataset, row: int, seen: Seen, kind_of: Callable[[str], str]) -> list[tuple[str, int]]:
    """The kind of each word of a query, and its best frame."""
    words = data.captions[row].sentence.split()
    if len(words) != len(seen.words):
        raise SystemExit(f"{data.captions[row].id} has {len(words)} words and {len(seen.words)} word features")
    return [(kind_of(word), seen.words[number]) for number, word in enumerate(words)]


class Row(NamedTuple):
    """One line of the table, averaged over runs; differences in percentage points."""

    count: float  # pointers of a run
    inside: tuple[float, ...]  # per cent, of each run
    chance: float  # per cent
    above_chance: Estimate
    against_base: Estimate
    against_place: Estimate


def summarise(runs: Sequence[Sequence[Pointer]], draws: int = 20_000) -> dict[str, Row]:
    """By kind, how often its pointers are right. Kinds are joined in ``all words``."""
    groups: dict[str, list[list[Pointer]]] = defaultdict(lambda: [[] for _ in runs])
    for number, pointers in enumerate(runs):
        for each in pointers:
            groups[each.kind][number].append(each)
            if each.kind not in (BASE, PLACE):
                groups["all words" + (", stranger" if each.kind.endswith("stranger") else "")][number].append(each)
    return {kind: _row(of_runs, draws) for kind, of_runs in groups.items()}


def _row(runs: Sequence[Sequence[Pointer]], draws: int) -> Row:
    tables = [np.array([(p.inside, p.chance, p.base, p.place) for p in pointers], np.float64) for pointers in runs]
    parts = [
        (table[:, :1] - table[:, 1:], [pointer.video for pointer in pointers])
        for table, pointers in zip(tables, runs, strict=True)
    ]
    drawn = joint_changes(parts, draws=draws)
    average = type(drawn[0]).average(drawn)
    return Row(
        float(np.mean([len(table) for table in tables])),
        tuple(100 * float(table[:, 0].mean()) for table in tables),
        100 * float(np.mean([table[:, 1].mean() for table in tables])),
        *(average.estimate(column) for column in range(3)),
    )


def show(rows: Mapping[str, Row], console: Console) -> None:
    table = Table(
        "points",
        "number",
        "in the moment, %",
        "chance, %",
        "above chance",
        "against the base",
        "against the meeting place",
    )
    usual = [BASE, PLACE, "all words", *KINDS, "content word"]
    for kind in [*usual, *(f"{each}, stranger" for each in usual)]:
        if kind in rows:
            row = rows[kind]
            shares = f"{np.mean(row.inside):.1f} ({', '.join(f'{each:.1f}' for each in row.inside)})"
            table.add_row(kind, f"{row.count:.0f}", shares, f"{row.chance:.1f}", *map(_interval, row[3:]))
    console.print(table)


def _interval(found: Estimate) -> str:
    return f"{signed(found.delta, 1)} [{signed(found.low, 1)}, {signed(found.high, 1)}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="trained with --method witness")
    parser.add_argument("--split", default="test")
    args = parser.parse_args()
    found = []
    for path in args.runs:
        run = Run(path)
        witness = load_run_witness(run)
        if witness is None:
            raise SystemExit(f"{path} has no witness: train it with --method witness")
        root = Path(run.data) / run.config.data.collection
        found.append(point(open_subject(run, split=args.split), witness, kinds_of_words(root)))
    show(summarise(found), Console(highlight=False, width=200))


if __name__ == "__main__":
    main()
