"""Search a folder of videos with a sentence, and cut out the best moment.

python examples/search_my_folder.py ~/Videos "a man opens a red door" --encoder siglip2
python examples/search_my_folder.py        # without arguments: a few films that are drawn first
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from prvr.library import Library
from prvr.media import cut_clip
from prvr.worlds import RENDERED_SIZES, render_world


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, help="your videos")
    parser.add_argument("sentence", nargs="?", default="a red square moves left")
    parser.add_argument("--encoder", default="plain", help="plain knows colours, shapes and motion only")
    parser.add_argument("--out", type=Path, default=Path(tempfile.mkdtemp()), help="for the library and the clip")
    chosen = parser.parse_args()
    folder = chosen.folder or render_world(chosen.out / "films", RENDERED_SIZES["tiny"]).folder

    # A library is a folder that keeps the vectors of your videos. Adding again skips what is there already.
    place = chosen.out / "library.prvr"
    library = Library.open(place) if place.exists() else Library.create(place, encoder=chosen.encoder)
    report = library.add([folder])
    print(f"{len(report.added)} added, {len(report.unchanged)} unchanged, {len(report.failed)} could not be read")

    found = library.search(chosen.sentence, limit=3)
    print(found.message or "found:")
    for hit in found:
        print(f"  {hit.start:5.1f}–{hit.end:.1f} s  score {hit.score:.2f}  {hit.video.path.name}")

    if found:
        best = found[0]
        print("clip:", cut_clip(best.video.path, best.start, best.end, chosen.out / "moment.mp4"))


if __name__ == "__main__":
    main()
