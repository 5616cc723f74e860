"""From sentences about your own videos to a model, and to a library that searches with it.

python examples/train_on_my_annotations.py ~/Videos captions.csv --encoder siglip2 --out mine
python examples/train_on_my_annotations.py --short        # a few films that are drawn first, a few epochs

captions.csv has the columns video, start, end and sentence. On the command line the same is
`prvr data make`, `prvr train` and `prvr library add --model`.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from prvr.data import read_caption_table
from prvr.library import Library, find_videos
from prvr.media import match_captions, open_encoder, write_dataset
from prvr.training import Run, Trainer, join_processes, preset_for_data
from prvr.worlds import RENDERED_SIZES, render_world


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, help="your videos")
    parser.add_argument("captions", nargs="?", type=Path, help="a .csv, .tsv or .jsonl file")
    parser.add_argument("--encoder", default="plain", help="plain knows colours, shapes and motion only")
    parser.add_argument("--short", action="store_true", help="train for a few epochs only, to try it")
    parser.add_argument(
        "--out", type=Path, default=Path(tempfile.mkdtemp()), help="for the dataset, the run, the library"
    )
    chosen = parser.parse_args()
    folder, captions = (chosen.folder, chosen.captions) if chosen.captions else draw_films(chosen.out)

    # 1. A dataset: every line is matched to its video and checked, then frames and sentences are encoded.
    rows = read_caption_table(captions)
    annotated = match_captions(captions, rows, [Path(file) for file in find_videos([folder])], folder)
    made = write_dataset(chosen.out, "data", annotated.videos, annotated.split(), open_encoder(chosen.encoder))
    print(f"{len(made.frames)} videos, {len(annotated.rows)} sentences")

    # 2. A model: the preset takes widths and number of epochs from the data.
    config = preset_for_data(chosen.out / "data")
    if chosen.short:
        first, second = replace(config.backbone_stage, epochs=4), replace(config.trace_stage, epochs=2)
        config = replace(config, backbone_stage=first, trace_stage=second, validate_every=1)
    run = Run(chosen.out / "run")
    run.create(config, chosen.out / "data")
    with join_processes("auto") as group:
        Trainer(config, chosen.out / "data", run, group, Console()).train()

    # 3. A library that searches with it. It copies the weights, so the run may be moved or deleted.
    library = Library.create(chosen.out / "library.prvr", model=run.path)
    library.add([folder])
    sentence = annotated.rows[0].sentence
    found = library.search(sentence, limit=3)
    print(f"“{sentence}”: {found.message}")
    for hit in found:
        print(f"  {hit.start:5.1f}–{hit.end:.1f} s  right with {hit.confidence or 0:.0%}  {hit.video.path.name}")


def draw_films(out: Path) -> tuple[Path, Path]:
    """Sixteen small films, and a table of sentences about them."""
    world = render_world(out / "films", RENDERED_SIZES["tiny"])
    captions = out / "captions.csv"
    with captions.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["video", "start", "end", "sentence"])
        for query in (query for queries in world.queries.values() for query in queries):
            table.writerow([query.video, query.event.start, query.event.end, query.sentence])
    return world.folder / "videos", captions


if __name__ == "__main__":
    main()
