"""Annotated videos to a dataset: match the lines of a caption table to video files, check them, make splits.

    rows = read_caption_table(Path("captions.csv"))                    # video, start, end, sentence, maybe split
    annotated = match_captions(Path("captions.csv"), rows, files, Path("films"))
    write_dataset("data", "mine", annotated.videos, annotated.split(), open_encoder("siglip2"))

Everything that can be wrong is found before the first frame is encoded.
"""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from prvr.errors import did_you_mean
from prvr.media.errors import MediaError
from prvr.media.reader import open_video

if TYPE_CHECKING:  # importing prvr.data loads torch, which reading a video does not need
    from prvr.data import Annotation, CaptionRow, TableProblems

_SLACK = 1.0  # seconds that a sentence may end after its video: people round up
_HINTS = 10  # unknown names for which a similar one is looked up, which takes a while in a large folder
_FEWEST = 4  # videos from which three splits can be made: two to train on, one for each of the others


@dataclass(frozen=True)
class AnnotatedVideos:
    """Videos, and the sentences about them."""

    videos: dict[str, Path]  # the file of each id that has sentences
    lengths: dict[str, float | None]  # in seconds; None where the file does not say it
    rows: list[CaptionRow]  # with ids as videos
    unreadable: dict[Path, str]  # files that have sentences but are not videos, with the reason
    unused: list[Path]  # files without sentences
    repeated: int  # lines that say the same as an earlier one, and are left out

    def split(self, val: float = 0.1, test: float = 0.1, seed: int = 0) -> dict[str, list[Annotation]]:
        """The sentences of each split: as the table says, or with whole videos drawn at random.

        Args:
            val: share of the videos that are drawn for validation.
            test: share of the videos that are drawn for the test.
            seed: the same seed draws the same videos; further ones change few of the others.

        Raises:
            DataError: there are too few videos for the splits.
        """
        from prvr.data import SPLIT_NAMES, Annotation, DataError, Moment

        given = {row.video: row.split for row in self.rows if row.split is not None}
        chosen = given or _draw(self.videos, val, test, seed)
        training = sum(split == "train" for split in chosen.values())
        if training < 2:
            raise DataError(
                f"{training} of {len(chosen)} videos with sentences are for training: at least two are needed."
            )
        by_split: dict[str, list[CaptionRow]] = {split: [] for split in SPLIT_NAMES if split in chosen.values()}
        for row in self.rows:
            by_split[chosen[row.video]].append(row)
        made: dict[str, list[Annotation]] = {}
        for split, rows in by_split.items():
            same = _videos_by_sentence(rows)
            numbers: defaultdict[str, int] = defaultdict(int)
            made[split] = []
            for row in rows:
                moment = Moment(row.video, row.start, row.end, self.lengths[row.video] or row.end)
                positives = [row.video, *(v for v in same[row.sentence.casefold()] if v != row.video)]
                name = f"{row.video}#enc#{numbers[row.video]}"
                numbers[row.video] += 1
                made[split].append(Annotation(name, row.sentence, moment, positives))
        return made


def match_captions(table: Path, rows: Sequence[CaptionRow], files: Sequence[Path], folder: Path) -> AnnotatedVideos:
    """Find the file of every line, and check times against its length.

    A line may name a file by its path in the folder, by its name, or by its name without ending.

    Args:
        table: where the lines come from, for messages.
        rows: the lines.
        files: the videos in the folder.
        folder: the folder.

    Raises:
        DataError: lines name no video or several, end after their video does, or put one video into two splits.
    """
    from prvr.data import TableProblems

    folder, files = Path(os.path.abspath(folder)), [Path(os.path.abspath(path)) for path in files]
    problems, names = TableProblems(table), _names_of(files, folder)
    file_of: dict[int, Path] = {}
    for row in rows:
        found = names.get(_plain(row.video), [])
        if len(found) == 1:
            file_of[row.line] = found[0]
        elif found:
            which = ", ".join(path.relative_to(folder).as_posix() for path in found[:3])
            problems.add(row.line, f"{row.video!r} may be {which}; write the path inside {folder}.")
        else:
            hint = did_you_mean(_plain(row.video), names) if len(problems.found) < _HINTS else ""
            problems.add(row.line, f"there is no video {row.video!r} in {folder}.{hint}")
    used = list(dict.fromkeys(file_of.values()))
    lengths, unreadable = _lengths(used)
    for row in rows:
        length = lengths.get(file_of.get(row.line, Path()))
        if length is not None and row.end > length + _SLACK:
            problems.add(row.line, f"the end ({row.end:g} s) is after the end of {row.video} ({length:g} s).")
        elif length is not None and row.start >= length:
            problems.add(
                row.line, f"the start ({row.start:g} s) is at the end of {row.video} ({length:g} s) or after it."
            )
    _refuse_two_splits(rows, file_of, problems)
    problems.refuse()
    ids = _ids([path for path in used if path not in unreadable], folder)
    kept = [_with_id(row, ids[path], lengths[path]) for row in rows if (path := file_of[row.line]) in ids]
    unique = {(row.video, row.start, row.end, row.sentence): row for row in reversed(kept)}
    return AnnotatedVideos(
        videos={name: path for path, name in ids.items()},
        lengths={name: lengths[path] for path, name in ids.items()},
        rows=list(reversed(unique.values())),
        unreadable=unreadable,
        unused=[path for path in files if path not in {*used}],
        repeated=len(kept) - len(unique),
    )


def _names_of(files: Iterable[Path], folder: Path) -> dict[str, list[Path]]:
    """Every name that a line may give a file: path in the folder or whole, name, each with and without ending."""
    names: dict[str, list[Path]] = defaultdict(list)
    for path in files:
        inside = path.relative_to(folder)
        for name in dict.fromkeys((inside, inside.with_suffix(""), Path(path.name), Path(path.stem), path)):
            names[_plain(name.as_posix())].append(path)
    whole: dict[str, list[Path]] = defaultdict(list)
    for path in files:  # a whole path in the folder means that file, whatever others are called
        whole[_plain(path.relative_to(folder).as_posix())].append(path)
    return {**names, **whole}


def _plain(name: str) -> str:
    """A name as lines and files share it; macOS takes accents apart in the names of files."""
    return unicodedata.normalize("NFC", name.replace("\\", "/").removeprefix("./"))


def _lengths(files: Iterable[Path]) -> tuple[dict[Path, float | None], dict[Path, str]]:
    """The length of each video, and why others cannot be opened."""
    from prvr.data import show_progress

    lengths: dict[Path, float | None] = {}
    unreadable: dict[Path, str] = {}
    listed = list(files)
    for path in show_progress(listed, total=len(listed), label="opening videos"):
        try:
            with open_video(path) as video:
                lengths[path] = video.info.duration
        except MediaError as problem:
            unreadable[path] = problem.reason
    return lengths, unreadable


def _refuse_two_splits(rows: Iterable[CaptionRow], file_of: Mapping[int, Path], problems: TableProblems) -> None:
    first: dict[Path, CaptionRow] = {}
    for row in rows:
        path = file_of.get(row.line)
        if path is None or row.split is None:
            continue
        before = first.setdefault(path, row)
        if before.split != row.split:
            problems.add(
                row.line,
                f"{row.video} is in {row.split} here and in {before.split} on line {before.line}; "
                "all sentences of a video belong to one split.",
            )


def _ids(files: Iterable[Path], folder: Path) -> dict[Path, str]:
    """An id of each video, from its path in the folder: letters, digits, dots, - and _ only."""
    ids: dict[Path, str] = {}
    taken: set[str] = set()
    for path in files:
        inside = path.relative_to(folder)
        name = re.sub(r"[^\w.-]+", "-", inside.with_suffix("").as_posix()).strip("-.") or "video"
        if name in taken:
            name += f"-{hashlib.sha256(inside.as_posix().encode()).hexdigest()[:8]}"
        taken.add(name)
        ids[path] = name
    return ids


def _with_id(row: CaptionRow, name: str, length: float | None) -> CaptionRow:
    return replace(row, video=name, end=row.end if length is None else min(row.end, length))


def _draw(videos: Iterable[str], val: float, test: float, seed: int) -> dict[str, str]:
    """A split for each video. Their order is that of a hash, so that a further video changes few others."""
    from prvr.data import DataError

    if not (0 <= val < 1 and 0 <= test < 1 and val + test < 1):
        raise DataError(
            f"the shares for val and test must be 0 or more and below 1 together, not {val:g} and {test:g}."
        )
    order = sorted(videos, key=lambda name: hashlib.sha256(f"{seed}:{name}".encode()).digest())
    if len(order) < _FEWEST:
        raise DataError(
            f"videos with sentences: {len(order)}; at least {_FEWEST} are needed to train, validate and test on "
            "different ones. Annotate more videos."
        )
    held = {split: max(1, round(share * len(order))) if share else 0 for split, share in (("val", val), ("test", test))}
    splits = ["val"] * held["val"] + ["test"] * held["test"]
    splits += ["train"] * max(0, len(order) - len(splits))
    return dict(zip(order, splits, strict=False))


def _videos_by_sentence(rows: Iterable[CaptionRow]) -> dict[str, list[str]]:
    """The videos that a sentence is said of: all of them are right answers to it."""
    videos: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for row in rows:
        videos[row.sentence.casefold()][row.video] = None
    return {sentence: list(found) for sentence, found in videos.items()}
