"""Writes the text files of a split: captions, all correct videos, and moments. ``captions`` reads them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prvr.data.captions import Moment
from prvr.files import write_whole


@dataclass(frozen=True)
class Annotation:
    """A sentence, where it happens, and every video it is true of (its own first)."""

    id: str
    sentence: str
    moment: Moment
    positives: Sequence[str]


def write_annotations(text: Path, collection: str, split: str, annotations: Sequence[Annotation]) -> None:
    """Write one split's files into a collection's ``TextData`` folder."""
    captions = "".join(f"{a.id} {a.sentence}\n" for a in annotations)
    (text / f"{collection}{split}.caption.txt").write_text(captions, encoding="utf-8")
    write_json_lines(
        text / f"{collection}{split}.gt.jsonl",
        [{"query_id": a.id, "caption": a.sentence, "gt_video_ids": list(a.positives)} for a in annotations],
    )
    write_moments(text / f"{collection}{split}.moments.jsonl", {a.id: a.moment for a in annotations})


def write_moments(path: Path, moments: Mapping[str, Moment]) -> None:
    """Write the moments of queries, by query id; ``read_moments`` reads them."""
    write_json_lines(path, [{"query_id": name, **describe_moment(moment)} for name, moment in moments.items()])


def describe_moment(moment: Moment) -> dict[str, Any]:
    """A moment as a line of ``*.moments.jsonl``, without the query's id."""
    row: dict[str, Any] = {"video": moment.video, "start": moment.start, "end": moment.end, "duration": moment.duration}
    row |= {"type": moment.kind} if moment.kind else {}
    return {**row, "windows": [list(window) for window in moment.windows]} if moment.more else row


def write_json_lines(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write one JSON object per line; a file that is there is replaced whole."""
    write_whole(path, "".join(json.dumps(row) + "\n" for row in rows))
