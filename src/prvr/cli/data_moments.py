"""``prvr data moments``: where in its video each query happens, from published annotation files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from prvr.cli.console import count
from prvr.data import (
    Collection,
    DataError,
    collection_folder,
    match_moments,
    only_collection,
    read_captions,
    read_official_moments,
    write_moments,
)
from prvr.terminal import Console


@dataclass(frozen=True)
class FindMoments:
    """Write COLLECTION{split}.moments.jsonl from published annotations, for moment tables, ratio bins and query types.

    Known: TVR (tvr_*_release.jsonl), ActivityNet Captions (train.json, val_1.json), Charades-STA (charades_sta_*.txt
    with Charades_v1_*.csv); plain or gzipped. `prvr data convert` reads QVHighlights'.
    """

    dir: Annotated[Path, tyro.conf.Positional]
    """The folder that holds the collection, or its own folder."""
    annotations: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="PATH …")]
    """Annotation files, or folders that hold them."""
    collection: str | None = None
    """Which collection, if there are several."""

    def run(self) -> int:
        name = only_collection(self.dir, self.collection)
        missing = [str(path) for path in self.annotations if not path.exists()]
        if missing or not self.annotations:
            problem = f"{', '.join(missing)} is not there" if missing else "name at least one file or folder"
            raise DataError(f"--annotations: {problem}.")
        official, console, written = read_official_moments(self.annotations), Console(), 0
        files = Collection(name, collection_folder(self.dir, name), "")
        for split in files.splits:
            captions = read_captions(files.captions(split))
            found = match_moments(captions, official)
            line = f"{split}: {len(found):,} of {len(captions):,} queries"
            if found:
                written += 1
                path = files.text / f"{files.name}{split}.moments.jsonl"
                write_moments(path, found)
                kinds = sorted({moment.kind for moment in found.values() if moment.kind})
                line += f", types {', '.join(kinds)}: wrote {path}" if kinds else f": wrote {path}"
            console.print(line, soft_wrap=True, highlight=False)
        cut = sum(entry.cut for entry in official)
        if cut:
            text = f"shortened: {count(cut, 'window')} of these annotations that ended after their video"
            console.print(text, soft_wrap=True, highlight=False)
        if not written:
            raise DataError("none of the captions occurs in these annotations: are they of another dataset?")
        return 0
