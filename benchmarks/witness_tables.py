"""``python benchmarks/witness_tables.py RESULTS [RESULTS …]``: the tables of ``witness_study.py``, from its ranks.

RESULTS is a folder with ranks.zip, or such a file. A difference is paired by query, and its 95 % interval draws whole
videos: all queries of a video, in all seeds of a cell, together. Rows named *pooled over* average cells.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch
from torch import Tensor

from prvr.evaluation import (
    WITNESS_ABLATIONS,
    Estimate,
    RankPair,
    blank_figure,
    pooled_change,
    recalls,
    save_figure,
    signed,
)

SCORINGS = {
    "hubs": "hub offset alone",
    "other-hubs": "hub offset of another video",
    "words": "words",
    "words+hubs": "**words and hub offset**",
    "raw+hubs": "the same, reading raw features",
    "both+hubs": "the same, reading raw and encoded features",
    "pooled": "pooled query for the words",
    "pooled+hubs": "pooled query, hub offset",
    "shuffled+hubs": "other queries' words, hub offset",
    "shuffled-own+hubs": "the same, with a weight of its own",
    "uniform+hubs": "uniform evidence, hub offset",
    "uniform-own+hubs": "the same, with a weight of its own",
    "candidates-100+hubs": "words and hub offset, a hundred candidates",
    "query-weights+hubs": "words and hub offset, a weight λ for each query",
}


OTHER_BASES = {
    "longer:base": "twice the epochs",
    "longer:hubs": "the same, hub offset",
    "longer:words+hubs": "the same, words and hub offset",
    "second:better-base": "the better of two bases on validation",
    "second:second-base": "the base of another seed as the witness",
    "second:second-base+hubs": "the same, hub offset",
    "second:second-base+words+hubs": "the same, words and hub offset",
    "second:second-base+pooled+hubs": "the same, pooled query and hub offset",
    "second:third-base+hubs": "two bases as witnesses, hub offset",
    "quarter:second-base+hubs": "one of a quarter of the epochs as the witness, hub offset",
    "quarter:second-base+words+hubs": "the same, words and hub offset",
    "compiled:base": "trained in the compiled form",
    "alike:base": "paraphrases are not wrong",
    "alike:hubs": "the same, hub offset",
    "alike:words+hubs": "the same, words and hub offset",
    "alike:pooled+hubs": "the same, pooled query and hub offset",
    "alike:shuffled+hubs": "the same, other queries' words and hub offset",
}


@dataclass(frozen=True)
class Result:
    """One training: its numbers, and each query's rank under each scoring."""

    about: dict[str, Any]
    videos: tuple[str, ...]
    ranks: dict[str, Tensor]

    @property
    def cell(self) -> str:
        return str(self.about["cell"])

    @property
    def dataset(self) -> str:
        """What shares its videos: both shapes of noise."""
        return self.cell.partition("-")[0]

    def pair(self, before: str, after: str, ending: str = "") -> RankPair:
        return RankPair(self.ranks[before + ending], self.ranks[after + ending], self.videos, self.dataset)


def read_results(path: Path) -> Iterator[Result]:
    with zipfile.ZipFile(path / "ranks.zip" if path.is_dir() else path) as archive:
        for name in sorted(archive.namelist()):
            if not name.endswith("/about.json"):
                continue
            about = json.loads(archive.read(name))
            text = archive.read(name.replace("about.json", "ranks.csv")).decode()
            header, *lines = list(csv.reader(io.StringIO(text)))
            columns = {key: torch.tensor([int(line[c]) for line in lines]) for c, key in enumerate(header) if c > 1}
            yield Result(about, tuple(line[1] for line in lines), columns)


def joined(results: Sequence[Result]) -> list[Result]:
    """One result per cell and seed: what other bases gave stands beside the usual one's, as ``longer:base``."""
    usual = {(r.cell, r.about["seed"]): r for r in results if r.about["base"] == "usual"}
    for result in results:
        base, beside = result.about["base"], usual.get((result.cell, result.about["seed"]))
        if base == "usual":
            continue
        if beside is None or beside.videos != result.videos:
            print(f"left out: {result.cell}, seed {result.about['seed']}, {base}: no usual base of the same queries\n")
            continue
        beside.ranks.update({f"{base}:{key}": column for key, column in result.ranks.items()})
    return list(usual.values())


DRAWS = 5_000  # of every interval
_LEAD = "lead of the base"


def pooled(pairs: Sequence[RankPair]) -> Estimate:
    return pooled_change(pairs, draws=DRAWS)


def interval(found: Estimate) -> str:
    return f"{signed(found.delta)} [{signed(found.low)}, {signed(found.high)}]"


def spread(values: Sequence[float]) -> str:
    return f"{fmean(values):.1f}" + (f" ± {stdev(values):.1f}" if len(values) > 1 else "")


def changes(cells: dict[str, list[Result]], before: str, scorings: dict[str, str], ending: str = "") -> str:
    """A table: scorings by cells, each against ``before``, and of how many trainings where a scoring lacks some."""
    lines = [f"| ΔSumR against {before} | {' | '.join(cells)} | pooled over all |", f"|---|{'---|' * (len(cells) + 1)}"]
    base = [spread([recalls(r.ranks[before + ending]).sum_r for r in some]) for some in cells.values()]
    lines.append(f"| {before} (SumR, seeds) | {' | '.join(base)} | |")
    for key, label in scorings.items():
        row, everything = [], []
        for some in cells.values():
            pairs = [r.pair(before, key, ending) for r in some if key in r.ranks]
            everything += pairs
            fewer = f" ({len(pairs)} of {len(some)})" if len(pairs) < len(some) else ""
            row.append(interval(pooled(pairs)) + fewer if pairs else "")
        lines.append(f"| {label} | {' | '.join(row)} | {interval(pooled(everything)) if everything else ''} |")
    return "\n".join(lines)


def kept(cells: dict[str, list[Result]], ending: str = "") -> str:
    """How much of the witness's own gain its controls keep."""
    lines = ["| cell | words | words alone, shuffled | words alone, uniform | pooled |", "|---|--:|--:|--:|--:|"]
    for cell, some in cells.items():
        row = []
        for key in ("words", "shuffled", "uniform", "pooled"):
            pairs = [r.pair("base", key, ending) for r in some if key in r.ranks]
            row.append(signed(pooled(pairs).delta) if pairs else "")
        lines.append(f"| {cell} | {' | '.join(row)} |")
    return "\n".join(lines)


def support(cells: dict[str, list[Result]]) -> str:
    lines = [
        "| cell | supported | correct if supported | correct if not | difference | read as | by the base's lead |",
        "|---|--:|--:|--:|--:|---|--:|",
    ]
    for cell, some in cells.items():
        share, yes, no = (
            100 * fmean(r.about["support"][key] for r in some)
            for key in ("supported", "correct_if_supported", "correct_if_not")
        )
        readings = ", ".join(dict.fromkeys(r.about["support"]["reading"] for r in some))
        leads = [r.about["support"][_LEAD] for r in some if _LEAD in r.about["support"]]
        lead = signed(100 * fmean(leads), 1) if leads else ""
        difference = signed(yes - no, 1)
        lines.append(f"| {cell} | {share:.0f} % | {yes:.1f} % | {no:.1f} % | {difference} | {readings} | {lead} |")
    return "\n".join(lines)


def having(cells: dict[str, list[Result]], *keys: str) -> dict[str, list[Result]]:
    """Only trainings that were ranked by all these scorings."""
    left = {cell: [r for r in some if r.ranks.keys() >= {*keys}] for cell, some in cells.items()}
    return {cell: some for cell, some in left.items() if some}


def numbers(cells: dict[str, list[Result]]) -> str:
    """Weights that validation chose, validation SumR, and seconds."""
    lines = ["| cell | seeds | μ | λ | λ of pooled | validation: base → words and hubs | base s | witness s |"]
    lines.append("|---|--:|---|---|---|---|--:|--:|")
    for cell, some in cells.items():
        weights = []
        for key in ("hubs", "words+hubs", "pooled+hubs"):
            chosen = [r.about["weights"][key] for r in some if key in r.about["weights"]]
            weights.append(" / ".join(f"{weight:.2g}" for weight in chosen))
        val = [fmean(r.about["validation"][key] for r in some) for key in ("base", "words+hubs")]
        seconds = [
            fmean(sum(r.about["step seconds"]) for r in some),
            fmean(r.about["seconds"]["witness"] for r in some),
        ]
        lines.append(
            f"| {cell} | {len(some)} | {' | '.join(weights)} | {val[0]:.1f} → {val[1]:.1f} | "
            f"{seconds[0]:.0f} | {seconds[1]:.0f} |"
        )
    return "\n".join(lines)


def validation(cells: dict[str, list[Result]], rows: dict[str, str]) -> str:
    """SumR of the validation split, by which a choice between these rows would have to be made."""
    lines = [f"| validation SumR | {' | '.join(cells)} |", f"|---|{'--:|' * len(cells)}"]
    for key, label in rows.items():
        of_cells = [
            [r.about["validation"][key] for r in some if key in r.about["validation"]] for some in cells.values()
        ]
        lines.append(f"| {label} | {' | '.join(f'{fmean(some):.1f}' if some else '' for some in of_cells)} |")
    return "\n".join(lines)


def draw(cells: dict[str, list[Result]]) -> Any:
    """ΔSumR of some scorings against the base, with intervals, cell by cell."""
    shown = {
        "hubs": ("hub offset", "#999999"),
        "shuffled+hubs": ("+ other queries' words", "#D55E00"),
        "words+hubs": ("+ words", "#0072B2"),
        "second:second-base+hubs": ("+ second base", "#E69F00"),
        "second:second-base+words+hubs": ("+ second base and words", "#009E73"),
    }
    height = 1.1 + 0.7 * len(cells)
    with blank_figure(9.6, height) as figure:
        axes = figure.add_axes((0.24, 0.6 / height, 0.73, 1 - 1.1 / height))
        for place, (key, (label, colour)) in enumerate(shown.items()):
            tried = [(row, [r for r in some if key in r.ranks]) for row, some in enumerate(cells.values())]
            if not any(some for _, some in tried):
                continue
            found = [pooled([r.pair("base", key) for r in some]) for _, some in tried if some]
            rows = [row + 0.15 * (place - 2) for row, some in tried if some]
            sides = [[e.delta - e.low for e in found], [e.high - e.delta for e in found]]
            axes.errorbar([e.delta for e in found], rows, xerr=sides, fmt="o", color=colour, label=label, markersize=4)
        axes.axvline(0, color="#888888", linewidth=0.8)
        axes.set_yticks(range(len(cells)), labels=list(cells))
        axes.invert_yaxis()
        axes.set(xlabel="ΔSumR to the base, 95 % interval over videos")
        axes.legend(frameon=False, ncols=5, fontsize=8, loc="lower left", bbox_to_anchor=(-0.3, 1.0))
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="+", metavar="RESULTS")
    parser.add_argument("--figure", type=Path, help="also draw the first table: a path without suffix")
    arguments = parser.parse_args()
    try:
        found = joined([r for path in arguments.results for r in read_results(path)])
    except (OSError, zipfile.BadZipFile) as problem:
        parser.error(f"not the results of a study (a folder with ranks.zip, or such a file): {problem}")
    if not found:
        parser.error("no training of a usual base is in these results")
    cells: dict[str, list[Result]] = {}
    for result in found:
        cells.setdefault(result.cell, []).append(result)
    print("### Labelled video\n\n" + changes(cells, "base", SCORINGS) + "\n")
    print("### Any correct video\n\n" + changes(cells, "base", SCORINGS, "_any") + "\n")
    print("### Other bases, labelled video\n\n" + changes(cells, "base", OTHER_BASES) + "\n")
    words = {"words+hubs": SCORINGS["words+hubs"]}
    if longer := having(cells, "longer:hubs"):
        both = {**words, "longer:hubs": "hub offset on the longer base", "longer:words+hubs": "words on it, hub offset"}
        print("### Against a base of twice the epochs\n\n" + changes(longer, "longer:base", both) + "\n")
        del both["longer:hubs"]
        print(changes(longer, "longer:hubs", both) + "\n")
    for beside in ("second", "quarter"):
        before, after = f"{beside}:second-base+hubs", f"{beside}:second-base+words+hubs"
        if some := having(cells, after, "words"):
            print(f"### Against this and a second base ({beside})\n")
            on_top = {after: "words on top of both", after.replace("words", "pooled"): "pooled query on top of both"}
            on_top[f"{beside}:third-base+hubs"] = "a third base on top of both"
            print(changes(some, before, {**words, **on_top}) + "\n")
            if third := having(some, f"{beside}:third-base+hubs"):
                print(changes(third, f"{beside}:third-base+hubs", {after: "words in place of the third base"}) + "\n")
    if some := having(cells, "second:better-base"):
        print("### Is a sum more than luck?\n")
        print(changes(some, "second:better-base", {"second:second-base": "the sum of both"}) + "\n")
    print("### Other bases, any correct video\n\n" + changes(cells, "base", OTHER_BASES, "_any") + "\n")
    drawn, cells = cells, having(cells, "words")
    controls = ("pooled+hubs", "uniform+hubs", "uniform-own+hubs", "shuffled+hubs", "shuffled-own+hubs")
    above = {key: SCORINGS[key] for key in ("words+hubs", *controls)}
    above["second:second-base+hubs"] = "the base of another seed as the witness"
    if some := having(cells, "pooled+hubs"):
        print("### Words above one pooled vector\n\n" + changes(some, "pooled+hubs", words) + "\n")
    print("### Above the hub offset\n\n" + changes(cells, "hubs", above) + "\n")
    print("### Controls, without the hub offset: ΔSumR\n\n" + kept(cells) + "\n")
    print("### First answers\n\n" + support(cells) + "\n")
    tried = {key: key for r in found for key in r.ranks if key.removesuffix("+hubs") not in _KNOWN and ":" not in key}
    tried = {key: key for key in tried if not key.endswith("_any")}
    names = {f"{name}+hubs" for name in WITNESS_ABLATIONS}
    first = {cell: [r for r in some if names & r.ranks.keys()] or some[:1] for cell, some in cells.items()}
    rows = {"words+hubs": "recipe", **tried}
    print("### Ablations, first seed, hub offset included\n\n" + changes(first, "base", rows))
    print("\n" + validation(first, rows))
    print("\n### Chosen on validation, and cost\n\n" + numbers(cells) + "\n")
    if arguments.figure:
        print(f"wrote {save_figure(draw(drawn), arguments.figure)[0]}\n")


_KNOWN = {
    "base",
    *(key.removesuffix("+hubs") for key in SCORINGS),
    "shuffled",
    "shuffled-own",
    "uniform",
    "uniform-own",
}


if __name__ == "__main__":
    main()
