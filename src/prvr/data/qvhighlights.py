"""QVHighlights' annotation files, and other moment-retrieval files of the same form, as a collection's text files.

    {"qid": 12, "query": "A man opens a red door.", "vid": "abc_60.0_210.0", "duration": 150,
     "relevant_windows": [[4, 10], [52, 60]], …}

One JSON object per line; the file's name says its split. A query is about one video, so that video is its correct
answer, and so is every other that the same sentence was written for. Its moment has all its windows; the test split is
published without windows, and then without moments.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prvr.data.annotation_files import describe_moment, write_json_lines
from prvr.data.caption_table import SPLIT_NAMES, TableProblems
from prvr.data.captions import Moment, is_window
from prvr.data.errors import DataError
from prvr.data.text_files import text_lines
from prvr.files import whole_folder

_SPLIT = re.compile(rf"(?:^|[_.-])({'|'.join(SPLIT_NAMES)})(?=[_.-])")
_LONGEST = 1e6  # seconds


@dataclass(frozen=True)
class ConvertedAnnotations:
    """What was written: queries, videos and windows of each split, and what was left out."""

    folder: Path
    splits: dict[str, tuple[int, int, int]]
    cut: int  # windows that ended after their video, and now end with it


def annotation_splits(source: Path) -> dict[str, Path]:
    """The annotation files in a folder, or the file itself, by split; empty where there are none.

    >>> annotation_splits(Path("nowhere"))
    {}
    """
    paths = sorted(source.glob("*.jsonl*")) if source.is_dir() else [source] if source.is_file() else []
    found: dict[str, Path] = {}
    for path in paths:
        named = _SPLIT.search(path.name)
        if named is None or not path.name.endswith((".jsonl", ".jsonl.gz")) or path.name.startswith("subs_"):
            continue
        split = named[1]
        if split in found:
            raise DataError(f"{source} holds two files for '{split}': {found[split].name} and {path.name}; remove one.")
        found[split] = path
    return found


def convert_annotations(source: Path, out: Path) -> ConvertedAnnotations:
    """Write the text files of a collection from annotation files.

    Args:
        source: a folder with files such as ``highlight_train_release.jsonl``, plain or gzipped, or one of them.
        out: folder of the collection; its name is the collection's.

    Raises:
        DataError: a file or line is wrong, or the collection has captions already.
    """
    files = annotation_splits(source)
    if not files:
        raise DataError(
            f"{source} holds no annotation files; expected names with their split, such as "
            "highlight_train_release.jsonl, highlight_val_release.jsonl."
        )
    text, made = out / "TextData", out / ".annotations"
    for leftover in out.glob(f".{made.name}.*"):  # of a conversion that was killed while it wrote
        shutil.rmtree(leftover, ignore_errors=True)
    if any(text.glob("*.caption.txt")) and not made.exists():  # if it exists, one was killed in the loop below
        raise DataError(f"{text} has captions already; delete them, or choose another --out.")
    read = {split: _read(path) for split, path in files.items()}
    splits: dict[str, tuple[int, int, int]] = {}
    with whole_folder(made) as unfinished:
        for split in (name for name in SPLIT_NAMES if name in read):
            rows = read[split]
            _write(unfinished / f"{out.name}{split}", rows)
            windows = sum(len(row.moment.windows) for row in rows if row.moment is not None)
            splits[split] = (len(rows), len({row.video for row in rows}), windows)
    text.mkdir(parents=True, exist_ok=True)
    captions_last = sorted(made.iterdir(), key=lambda path: path.name.endswith(".caption.txt"))
    for path in captions_last:  # one by one: TextData may hold word features already
        path.replace(text / path.name)
    made.rmdir()
    return ConvertedAnnotations(out, splits, sum(row.cut for rows in read.values() for row in rows))


def _read(path: Path) -> list[_Row]:
    problems = TableProblems(path)
    rows: list[_Row] = []
    seen: dict[str, int] = {}
    for number, line in text_lines(path):
        of_another_form = line.startswith("{") and not any(f'"{key}"' in line for key in ("qid", "query", "vid"))
        if of_another_form and not rows and not problems.found:
            raise DataError(
                f"{path} is not of QVHighlights' form (qid, query, vid, duration, relevant_windows). For TVR, "
                "ActivityNet Captions and Charades-STA, `prvr data moments` adds moments to the published captions."
            )
        try:
            row = _Row.parse(line)
        except ValueError as problem:
            problems.add(number, str(problem))
            continue
        if row.qid in seen:
            problems.add(number, f"the qid {row.qid} is already on line {seen[row.qid]}; qids must be unique.")
        seen[row.qid] = number
        rows.append(row)
    problems.refuse()
    if not rows:
        raise DataError(f"{path} is empty; expected one JSON object per line.")
    return rows


def _write(stem: Path, rows: Sequence[_Row]) -> None:
    """Write captions, all correct videos, and the moments that are known."""
    same: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for row in rows:
        same[row.sentence.casefold()][row.video] = None
    captions = "".join(f"{row.id} {row.sentence}\n" for row in rows)
    stem.with_name(f"{stem.name}.caption.txt").write_text(captions, encoding="utf-8")
    positives = [
        {"query_id": row.id, "gt_video_ids": [*dict.fromkeys([row.video, *same[row.sentence.casefold()]])]}
        for row in rows
    ]
    write_json_lines(stem.with_name(f"{stem.name}.gt.jsonl"), positives)
    moments = [{"query_id": row.id, **describe_moment(row.moment)} for row in rows if row.moment is not None]
    if moments:
        write_json_lines(stem.with_name(f"{stem.name}.moments.jsonl"), moments)


@dataclass(frozen=True)
class _Row:
    """One line of an annotation file."""

    qid: str
    video: str
    sentence: str
    moment: Moment | None
    cut: int

    @property
    def id(self) -> str:
        """The caption's id. It ends with the name under which moment-retrieval features store the query."""
        return f"{self.video}#qid{self.qid}"

    @staticmethod
    def parse(line: str) -> _Row:
        """Read a line; a ``ValueError`` says what is wrong with it."""
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as problem:
            raise ValueError(f"not JSON ({problem}); expected one JSON object per line.") from None
        if not isinstance(row, dict):
            raise ValueError(f"expected a JSON object, found {line[:60]}.")
        qid, sentence, video = row.get("qid"), row.get("query"), row.get("vid")
        if isinstance(qid, bool) or not isinstance(qid, int | str) or not re.fullmatch(r"[\w.-]+", str(qid)):
            raise ValueError(f"'qid' must be a number, found {qid!r:.40}.")
        if not isinstance(video, str) or not video or re.search(r"[\s#/\\]", video):
            raise ValueError(f"'vid' must be a video's id without blanks, found {video!r:.60}.")
        if not isinstance(sentence, str) or not sentence.split():
            raise ValueError("the query is empty.")
        if any("\ud800" <= letter <= "\udfff" for letter in video + sentence):
            raise ValueError("the text holds half a character (\\ud800 to \\udfff); write it as UTF-8.")
        moment, cut = _moment(row, video)
        return _Row(str(qid), video, " ".join(sentence.split()), moment, cut)


def _moment(row: dict[str, Any], video: str) -> tuple[Moment | None, int]:
    """The moment of a line, None where it has no windows; and how many windows had to be cut to the video's length."""
    windows, duration = row.get("relevant_windows"), row.get("duration")
    if isinstance(duration, bool) or not isinstance(duration, int | float) or not 0 < duration <= _LONGEST:
        raise ValueError(f"'duration' must be the video's length in seconds, found {duration!r:.40}.")
    if windows is None or windows == []:
        return None, 0
    if not isinstance(windows, list) or not all(is_window(window) for window in windows):
        raise ValueError(f"'relevant_windows' must be a list of [start, end] in seconds, found {windows!r:.60}.")
    wrong = [window for window in windows if not 0 <= window[0] < min(window[1], duration)]
    if wrong:
        raise ValueError(f"the window {wrong[0]} is not a stretch of a video of {duration:g} s.")
    first, *more = [(float(start), float(min(end, duration))) for start, end in windows]
    return Moment(video, *first, float(duration), more=tuple(more)), sum(end > duration for _, end in windows)
