"""``prvr data``: make a dataset of your own videos, add features, check or convert one, or write a synthetic one."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import tyro
from rich.table import Table
from rich.text import Text

from prvr.cli.console import count, print_table
from prvr.cli.data_extract import Extract
from prvr.cli.data_make import Make
from prvr.cli.data_moments import FindMoments
from prvr.cli.group import print_group_help
from prvr.data import (
    CheckReport,
    Collection,
    DataError,
    annotation_splits,
    check_collections,
    convert_annotations,
    convert_features,
    find_collections,
    has_array_files,
    has_collection,
    only_collection,
)
from prvr.media import open_text_encoder
from prvr.terminal import Console
from prvr.worlds import (
    FEATURE_SIZES,
    FeatureWorldConfig,
    ProxyConfig,
    read_activitynet,
    read_charades,
    write_feature_world,
    write_proxy,
)

_MARKS = {"ok": Text("ok", "green"), "warning": Text("look", "yellow"), "error": Text("wrong", "red")}


@dataclass(frozen=True)
class Check:
    """Check a dataset: which files are there, which are missing, and whether they are the published ones."""

    dir: Annotated[Path, tyro.conf.Positional]
    """The folder that holds the collections, or one collection's own folder."""
    collection: str | None = None
    """Check this collection only, such as charades."""
    every: bool = False
    """Read every feature instead of a sample. Finds every NaN, and takes as long as reading the files."""

    def run(self) -> int:
        report = check_collections(self.dir, self.collection, every=self.every)
        console = Console()
        for title, table in _tables(report):
            console.print(title, style="italic", highlight=False, soft_wrap=True)
            print_table(console, table)
        return 0 if report.ok else 1


@dataclass(frozen=True)
class Convert:
    """Turn published files into the form that training reads.

    Features: feature.bin, or a folder with one .npy, .npz or .pt file per video, becomes feature.hdf5 beside it, with
    one dataset per video. If interrupted, run it again to continue. Folders of one file per video are also read as they
    are; converting them makes the first reading faster.

    Annotations of QVHighlights (highlight_train_release.jsonl and so on; also other files of this form):
    `prvr data convert ANNOTATIONS --out DATA/qvhighlights` writes captions, correct videos and moments into
    DATA/qvhighlights/TextData. Then put the features into FeatureData and TextData as they are published, and
    `prvr data check DATA` names them.
    """

    dir: Annotated[Path, tyro.conf.Positional]
    """The folder of the features, or a collection's folder, or the folder that holds the collections; or the folder of
    the annotation files."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """For annotations: the folder of the new collection, whose name it gets."""
    collection: str | None = None
    """Which collection, if there are several."""
    visual_feature: str | None = None
    """Which folder under FeatureData, if there are several."""
    force: bool = False
    """Write feature.hdf5 again if it exists already."""

    def run(self) -> int:
        console = Console(highlight=False, soft_wrap=True)
        if self.out is not None or (annotation_splits(self.dir) and not has_collection(self.dir, self.dir.name)):
            return self._annotations(console)
        places = self._places()
        for place in places:
            done = place / "feature.hdf5" if len(places) > 1 and not self.force else place
            if done.is_file():
                console.print(f"{done} is one HDF5 file already")
            else:
                console.print(f"wrote {convert_features(place, force=self.force)}")
        return 0

    def _annotations(self, console: Console) -> int:
        if self.out is None:
            raise DataError(
                f"{self.dir} holds annotations: say where the dataset goes, such as --out DATA/qvhighlights."
            )
        if not re.fullmatch(r"[\w.-]+", self.out.resolve().name):
            raise DataError(f"--out {self.out}: choose a name of letters, digits, dots, - and _.")
        made = convert_annotations(self.dir, self.out.resolve())
        for split, (queries, videos, windows) in made.splits.items():
            found = count(windows, "window") if windows else "no windows, so no moments"
            console.print(f"{split}: {count(queries, 'sentence')} about {count(videos, 'video')}, {found}")
        if made.cut:
            console.print(f"shortened: {count(made.cut, 'window')} that ended after their video")
        console.print(f"wrote {self.out / 'TextData'}")
        console.print(f"next: put the features into {self.out}, then prvr data check {self.out}")
        return 0

    def _places(self) -> list[Path]:
        """The folders to convert, or files that are one HDF5 file; several where features stand side by side."""
        if (self.dir / "feature.bin").is_file() or (self.dir.is_dir() and has_array_files(self.dir)):
            return [self.dir]
        names = [self.collection] if self.collection else find_collections(self.dir)
        if not names:
            raise DataError(
                f"{self.dir} holds neither features (feature.bin, or one .npy, .npz or .pt file per video) nor a "
                "collection (a folder with TextData) nor annotations (highlight_train_release.jsonl …)."
            )
        files = Collection.find(self.dir, only_collection(self.dir, self.collection), self.visual_feature)
        parts = [replace(files, visual_feature=part) for part in files.visual_feature.split("+")]
        return [part.features if part.features.is_dir() else part.video_features for part in parts]


@dataclass(frozen=True)
class Synth:
    """Write a synthetic dataset in the layout of the real ones. Every command works on it, offline, in minutes."""

    dir: Annotated[Path, tyro.conf.Positional]
    """Where to write it; the dataset is the folder synth inside."""
    size: Literal["tiny", "demo", "full", "stress"] = "demo"
    """Preset for all numbers below: tiny (seconds), demo (1,300 videos), full (3,170 videos, 1024 wide, 3 GB)."""
    store: Literal["hdf5", "bigfile"] = "hdf5"
    """How frame features are stored."""
    world: Annotated[FeatureWorldConfig, tyro.conf.arg(name="")] = field(default_factory=FeatureWorldConfig)

    def run(self) -> int:
        folder = write_feature_world(self.dir, self.world, store=self.store)
        Console().print(f"wrote {folder}", soft_wrap=True)
        return 0


@dataclass(frozen=True)
class Proxy:
    """Make a proxy dataset from annotations: real sentences and moments, with symbolic frames instead of pixels.

    charades: frames from Charades' timed action labels, scene and objects, queries from Charades-STA. activitynet:
    frames from one annotator's captions (val_1), queries in another's words (val_2). Train on the result with
    `prvr train proxy --data OUT`. Results are never results on Charades-STA or ActivityNet, and the files written may
    not be passed on: their sources' licences do not allow it.
    """

    source: Annotated[Literal["charades", "activitynet"], tyro.conf.Positional]
    """Which annotations."""
    annotations: Annotated[Path, tyro.conf.arg(metavar="DIR")]
    """Folder with the annotation files, plain or gzipped, there or one level below. charades: Charades_v1_classes.txt,
    Charades_v1_{train,test}.csv, charades_sta_{train,test}.txt; activitynet: val_1.json, val_2.json."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")]
    """Where to write it; the dataset is the folder proxy inside."""
    encoder: str = "minilm"
    """Sentence encoder: the folder of a sentence model, or the name of one that `prvr prepare` has downloaded."""
    embeddings: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Where sentence embeddings are stored for the next proxy [default: SOURCE-embeddings next to OUT]."""
    both_directions: bool = False
    """activitynet: add every training video a second time, with the two annotators exchanged."""
    exchanged: bool = False
    """activitynet: frames from the second annotator (val_2), queries in the first one's words."""
    config: Annotated[ProxyConfig, tyro.conf.arg(name="")] = field(default_factory=ProxyConfig)

    def run(self) -> int:
        if self.source == "charades":
            if self.both_directions or self.exchanged:
                flag = "--both-directions" if self.both_directions else "--exchanged"
                raise DataError(f"{flag} is for activitynet: charades has one annotator's labels only.")
            source = read_charades(self.annotations)
        else:
            source = read_activitynet(self.annotations, both_directions=self.both_directions, exchanged=self.exchanged)
        encoder = open_text_encoder(self.encoder)
        folder = write_proxy(self.out, source, encoder, self.config, embeddings=self.embeddings)
        console = Console()
        for note in source.notes:
            console.print(f"note: {note}", soft_wrap=True, highlight=False)
        console.print(f"wrote {folder}", soft_wrap=True)
        return 0


Command: TypeAlias = Make | Extract | Check | Convert | FindMoments | Synth | Proxy
_COMMANDS: dict[str, type[Command]] = {
    "make": Make,
    "extract": Extract,
    "check": Check,
    "convert": Convert,
    "moments": FindMoments,
    "synth": Synth,
    "proxy": Proxy,
}


def data_command(argv: list[str]) -> int:
    """Run ``prvr data`` with the words that follow it; returns the exit status."""
    try:
        return _parse(argv).run()
    except SystemExit as done:  # tyro has printed the help, or what is wrong with the arguments
        return done.code if isinstance(done.code, int) else 2


def _parse(argv: list[str]) -> Command:
    name = argv[0] if argv else ""
    if name not in _COMMANDS:
        raise SystemExit(print_group_help("prvr data", f"{__doc__}", _COMMANDS, name))
    prog, rest = f"prvr data {name}", argv[1:]
    if name != "synth":
        return tyro.cli(_COMMANDS[name], args=rest, prog=prog)
    # The size sets the defaults of all other numbers, so it is parsed first.
    sizes = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    sizes.add_argument("--size", default="demo")
    size = sizes.parse_known_args(rest)[0].size
    return tyro.cli(
        Synth, args=rest, prog=prog, default=Synth(tyro.MISSING, world=FEATURE_SIZES.get(size, FeatureWorldConfig()))
    )


def _tables(report: CheckReport) -> Iterator[tuple[str, Table]]:
    """A title and a table for each collection."""
    for name, rows in groupby(report.rows, key=lambda row: row.collection):
        table = Table()
        for column in ("", "what", "found", "expected"):
            table.add_column(column, overflow="fold")
        for row in rows:
            table.add_row(_MARKS[row.state], row.item, Text(row.found), row.expected)
        yield f"{name} in {report.root}", table
