"""``prvr data extract``: add features to a dataset that has captions, from its raw videos."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import tyro

from prvr.cli.console import count
from prvr.cli.extraction import open_feature_encoder, print_failures, require_sampling
from prvr.cli.windowed import NOT_FOR_WINDOWS, WindowedFeature
from prvr.data import DATASETS, KNOWN_FEATURES, Collection, DataError, only_collection, read_captions
from prvr.errors import did_you_mean
from prvr.library import find_videos
from prvr.media import Extraction, TextEncoder, TextFeatures, WindowEncoder, add_features, require_new_features
from prvr.terminal import Console

_NAMED = 3  # missing videos that are named


@dataclass(frozen=True)
class Extract:
    """Add features to a dataset that has captions, made from its raw videos.

    `prvr data extract DATA/charades --videos VIDEOS --features clip-l14` encodes the videos that the captions of
    DATA/charades name (VIDEOS/3MSZA.mp4, at any depth) and the captions themselves, and writes FeatureData/clip-l14 and
    TextData/clip-l14. Both keep their recipe: encoder, weights, rate, preprocessing. Then
    `prvr train charades --data DATA --data.features clip-l14` trains on them, with any method.

    clip-b32 needs `prvr prepare clip-base`, clip-l14 `prvr prepare clip`, or --encoder with the model's folder. You can
    stop with Ctrl-C and run the same command again to continue. The exit status is 1 if videos are missing or cannot be
    read.

    InternVideo2 (a row for each window of eight frames; docs/research.md says which files) needs both models:
    `prvr data extract DATA/qvhighlights --videos VIDEOS --features internvideo2 --encoder WEIGHTS --text-encoder DIR`.
    """

    dir: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DATA")]
    """the collection's folder, with its captions in TextData, or the folder that holds the collection"""
    videos: Annotated[Path, tyro.conf.arg(metavar="FOLDER")]
    """the folder with the videos, named after their ids; folders in it are searched as well"""
    features: str
    """clip-b32, clip-l14, internvideo2 or internvideo2-1b, for the same as published; with --encoder, also a name of
    your own"""
    collection: str | None = None
    """which collection, if there are several"""
    encoder: str | None = None
    """plain, a name that `prvr prepare --list` shows, or a folder [the one that makes the features]; for internvideo2
    the file with its weights, or the folder with both files"""
    text_encoder: Annotated[str | None, tyro.conf.arg(metavar="FOLDER")] = None
    """for internvideo2: the folder of the LLaMA that encodes the captions; without it only frames are made, where the
    words are there already"""
    window: Annotated[float | None, tyro.conf.arg(metavar="SECONDS")] = None
    """for internvideo2: how long a row's window is [2 for QVHighlights, 1 for others, as published]"""
    rate: float | None = None
    """frames per second that are encoded [1]; Moment-DETR's features have one row for two seconds, which is 0.5"""
    pool: int = 1
    """frames whose mean is one row of the features"""
    repeats: float = 0.0
    """a frame is not encoded again if no part of it differs by more than this, of 255 levels, from the last encoded
    one; 0 encodes every frame"""
    text: TextFeatures = "words"
    """keep sentences word by word (the encoder's last hidden states), as trained methods need them; word by word in the
    space of the pictures, ending with the sentence's vector, which also suits tf_prvr; or as one vector each"""
    workers: int = 1
    """processes that decode and encode, with the encoder plain"""

    def run(self) -> int:
        console = Console(highlight=False, soft_wrap=True)
        require_sampling(1.0 if self.rate is None else self.rate, self.pool, self.repeats)
        files, sentences, wanted = self._captions()
        self._require_new(files)
        found = self._find(wanted)
        known = self.features if self.features in KNOWN_FEATURES else None
        made_by, words = self._open(files, [*sentences], console)
        if isinstance(made_by.encoder, WindowEncoder) and words is None:
            sentences = {}
        add = partial(add_features, text=self.text, text_encoder=words, workers=self.workers)
        try:
            made = add(files.folder, self.features, found, sentences, made_by)
        except KeyboardInterrupt:
            console.print("stopped; finished videos are kept, and the same command continues from here")
            raise
        written = f"{count(len(made.frames), 'video')}, {count(len(sentences), 'sentence')}"
        console.print(f"wrote {self.features} into {files.folder}: {written}")
        missing = [name for name in wanted if name not in found]
        if missing:
            names = ", ".join(missing[:_NAMED]) + (" …" if len(missing) > _NAMED else "")
            console.print(f"not in {self.videos}: {count(len(missing), 'video')} ({names})")
        failed = print_failures(found, made, console)
        if missing or failed:
            console.print("to train without these videos, remove their lines from the caption files")
        if files.name in DATASETS:
            flag = f"--data.features {self.features}" if known else f"--data.visual-feature {self.features}"
            console.print(f"next: prvr train {files.name} --data {self.dir} {flag}")
        else:
            console.print(f"next: prvr train {files.folder} --data.visual-feature {self.features}")
        return 1 if missing or failed else 0

    def _open(self, files: Collection, captions: list[str], console: Console) -> tuple[Extraction, TextEncoder | None]:
        """How the features are made, and what encodes sentences if that is another model."""
        known = KNOWN_FEATURES.get(self.features)
        if known is not None and known.windowed:
            for option, why in NOT_FOR_WINDOWS.items():
                if getattr(self, option) != getattr(Extract, option):
                    raise DataError(f"--{option} is not for {known.name}: {why}.")
            windowed = WindowedFeature(known, files, captions, self.encoder, self.text_encoder)
            return windowed.open(self.window, self.pool)
        for option, given in (("--text-encoder", self.text_encoder), ("--window", self.window)):
            if given is not None:
                raise DataError(f"{option} is for internvideo2; an encoder of single pictures takes --rate and --pool.")
        name = None if known is None else known.name
        encoder = open_feature_encoder(name, self.encoder, self.text, self.workers, console)
        return Extraction(encoder, self.rate or 1.0, repeats=self.repeats, pool=self.pool), None

    def _captions(self) -> tuple[Collection, dict[str, str], list[str]]:
        """The collection, the sentence of each caption, and the videos that they are about."""
        files = Collection.find(self.dir, only_collection(self.dir, self.collection), self.features)
        if not files.splits:
            raise DataError(
                f"{files.text} has no captions ({files.name}train.caption.txt …); there is nothing to encode."
            )
        captions = [caption for split in files.splits for caption in read_captions(files.captions(split))]
        videos = dict.fromkeys(caption.video for caption in captions)
        return files, {caption.id: caption.sentence for caption in captions}, [*videos]

    def _require_new(self, files: Collection) -> None:
        if not re.fullmatch(r"[\w.-]+", self.features):
            raise DataError(f"--features {self.features}: choose a name of letters, digits, dots, - and _.")
        for option, given in (("--encoder", self.encoder), ("--text-encoder", self.text_encoder)):
            if given is not None and not given.strip():
                raise DataError(f"{option} is empty; name the model, or leave the option out.")
        known, windowed = KNOWN_FEATURES.get(self.features), self.features.lower().startswith("internvideo")
        if known is None and (self.encoder is None or windowed):
            made = [name for name, feature in KNOWN_FEATURES.items() if feature.encoder]
            raise DataError(
                f"--features {self.features} is none of {', '.join(made)}.{did_you_mean(self.features, made)} Features "
                "of your own have another name, and need --encoder, which makes them."
            )
        words = known is None or not known.windowed or self.text_encoder is not None
        require_new_features(files.folder, self.features, words=words)

    def _find(self, wanted: list[str]) -> dict[str, Path]:
        """The file of each video: the only one of its name, with or without the v_ of ActivityNet's ids."""
        if not self.videos.is_dir():
            raise DataError(f"{self.videos} is not a folder; give the folder with the videos.")
        by_name: dict[str, list[Path]] = {}
        for path in find_videos([self.videos]):
            if isinstance(path, Path) and path.is_file():
                by_name.setdefault(_composed(path.stem), []).append(path)
        found: dict[str, Path] = {}
        for name in wanted:
            same = _composed(name)
            files = by_name.get(same) or by_name.get(same.removeprefix("v_")) or by_name.get(f"v_{same}") or []
            if len(files) > 1:
                raise DataError(f"{name} may be {' or '.join(map(str, files[:3]))}; keep one of them in {self.videos}.")
            if files:
                found[name] = files[0]
        if not found:
            captions = f"the captions name {count(len(wanted), 'video')}, such as {wanted[0]}"
            raise DataError(f"{self.videos} holds none of these videos: {captions} (a file {wanted[0]}.mp4).")
        return found


def _composed(name: str) -> str:
    """A name with its accents in one piece; macOS takes them apart in the names of files."""
    return unicodedata.normalize("NFC", name)
