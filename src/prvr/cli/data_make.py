"""``prvr data make``: annotated videos to a dataset that `prvr train` learns from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from prvr.cli.console import count
from prvr.cli.extraction import open_feature_encoder, print_failures, require_sampling
from prvr.data import DataError, read_caption_table
from prvr.library import find_videos
from prvr.media import (
    USUAL_REPEATS,
    AnnotatedVideos,
    Encoder,
    ExtractionResult,
    TextFeatures,
    match_captions,
    write_dataset,
)
from prvr.terminal import Console
from prvr.training import preset_names

_REPEATS = (
    "a frame is not encoded again if no part of it differs by more than this, of 255 levels, from the last encoded "
    f"one; 0 encodes every frame. `prvr library add` uses {USUAL_REPEATS:g}"
)


@dataclass(frozen=True)
class Make:
    """Turn a folder of videos and a table of sentences about them into a dataset to train on.

    `prvr data make FILMS --captions captions.csv --out DATA`, then `prvr train DATA`, then
    `prvr library add FILMS --model RUN`. The table has a header and one line per sentence:

        video,start,end,sentence
        holiday.mp4,3.0,8.5,a dog jumps into the lake

    Times are seconds, or written like 1:30 or 1m30s. A column split (train, val or test) says what each video is for;
    without it, videos are drawn at random. A .jsonl file has the same names, one object per line. The table is
    checked as a whole before anything is encoded. You can stop with Ctrl-C and run the same command again to continue.

    The exit status is 1 if videos could not be read. The dataset is then written without them.
    """

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")]
    """the folder with the videos; folders in it are searched as well"""
    captions: Annotated[Path, tyro.conf.arg(metavar="FILE")]
    """the sentences: a .csv, .tsv or .jsonl file with video, start, end, sentence and perhaps split"""
    out: Annotated[Path, tyro.conf.arg(metavar="DATA")]
    """folder to write the dataset to; it must not hold one yet"""
    features: str | None = None
    """make the same as published features, clip-b32 or clip-l14: chooses the encoder, and refuses other widths"""
    encoder: str | None = None
    """plain, a name that `prvr prepare --list` shows, or a folder [the one that is prepared on this machine]"""
    rate: float = 1.0
    """frames per second that are encoded"""
    pool: int = 1
    """frames whose mean is one row of the features"""
    repeats: Annotated[float, tyro.conf.arg(help=_REPEATS)] = 0.0
    val: float | None = None
    """share of the videos that is drawn for validation, without a column split [0.1]"""
    test: float | None = None
    """share of the videos that is drawn for the test [0.1]"""
    seed: int | None = None
    """which videos are drawn; the same seed draws the same [0]"""
    text: TextFeatures = "words"
    """keep sentences word by word, as trained methods need them; word by word in the space of the pictures, ending with
    the sentence's vector (CLIP); or as one vector each, for the frozen backbone"""
    workers: int = 1
    """processes that decode and encode, with the encoder plain"""

    def run(self) -> int:
        out = self.out.resolve()
        self._require_sensible(out)
        annotated = self._match()
        splits = annotated.split(**self._draws())
        console = Console(highlight=False, soft_wrap=True)
        encoder = self._open_encoder(console)
        try:
            made = write_dataset(
                out.parent,
                out.name,
                annotated.videos,
                splits,
                encoder,
                rate=self.rate,
                repeats=self.repeats,
                pool=self.pool,
                text=self.text,
                name=self.features,
                workers=self.workers,
            )
        except KeyboardInterrupt:
            console.print("stopped; finished videos are kept, and the same command continues from here")
            raise
        written = {
            split: [a.moment.video for a in part if a.moment.video in made.frames] for split, part in splits.items()
        }
        parts = ", ".join(f"{len({*videos})} {split}" for split, videos in written.items())
        sentences = count(sum(map(len, written.values())), "sentence")
        console.print(f"wrote {self.out}: {count(len(made.frames), 'video')} ({parts}), {sentences}")
        failed = self._notes(annotated, made, console)
        folder = f"./{self.out}" if str(self.out) in preset_names() else self.out  # a bare name would mean the preset
        console.print(f"next: prvr train {folder}")
        return 1 if failed else 0

    def _open_encoder(self, console: Console) -> Encoder:
        return open_feature_encoder(self.features, self.encoder, self.text, self.workers, console)

    def _require_sensible(self, out: Path) -> None:
        """Refuse what would only be found out after hours."""
        if not self.folder.is_dir():
            raise DataError(f"{self.folder} is not a folder; give the folder with the videos.")
        if not re.fullmatch(r"[\w.-]+", out.name):
            raise DataError(f"--out {self.out}: choose a name of letters, digits, dots, - and _.")
        if (out / "TextData").exists():
            raise DataError(f"{self.out} holds a dataset already; delete it, or choose another --out.")
        require_sampling(self.rate, self.pool, self.repeats)

    def _draws(self) -> dict[str, Any]:
        """The options that say how videos are drawn, as far as they are given."""
        options = {"val": self.val, "test": self.test, "seed": self.seed}
        return {name: given for name, given in options.items() if given is not None}

    def _match(self) -> AnnotatedVideos:
        rows = read_caption_table(self.captions)
        if self._draws() and any(row.split is not None for row in rows):
            options = ", ".join(f"--{name}" for name in self._draws())
            raise DataError(
                f"{self.captions} says in its column split what each video is for, and {options} would draw videos at "
                f"random: leave {options} out, or remove the column."
            )
        files = [path for path in find_videos([self.folder]) if isinstance(path, Path) and path.is_file()]
        if not files:
            raise DataError(f"{self.folder} holds no video.")
        annotated = match_captions(self.captions, rows, files, self.folder)
        if not annotated.videos:
            path, reason = next(iter(annotated.unreadable.items()))
            raise DataError(f"none of the {count(len(annotated.unreadable), 'video')} can be read ({path}: {reason}).")
        return annotated

    def _notes(self, annotated: AnnotatedVideos, made: ExtractionResult, console: Console) -> bool:
        """Print what was left out; returns whether videos could not be read."""
        if annotated.repeated:
            console.print(f"left out: {count(annotated.repeated, 'line')} that repeat an earlier one")
        if annotated.unused:
            console.print(f"left out: {count(len(annotated.unused), 'video')} in {self.folder} without sentences")
        unreadable = {str(path): reason for path, reason in annotated.unreadable.items()}
        return print_failures(annotated.videos, made, console, unreadable)
