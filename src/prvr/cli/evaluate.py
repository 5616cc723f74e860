"""``prvr eval``: rank a split with one run, or with several seeds of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.status import Status
from rich.text import Text

from prvr.cli.console import print_table
from prvr.cli.hub_runs import RunPath
from prvr.cli.sections import print_section
from prvr.evaluation import (
    FINER_SECTIONS,
    Finer,
    Outcome,
    Recall,
    compare_ranks,
    evaluate_run,
    published_caveat,
    published_recall,
    recall_table,
)
from prvr.terminal import Console
from prvr.training import Run, RunError, TrainConfig, choose_device, config_changes, config_to_dict, flat_settings

ROWS = {  # column of the record -> what is printed
    "backbone": "backbone alone",
    "base": "base branch",
    "trace": "TRACE",
    "hubs": "base, hub offset",
    "witness": "witness",
    "base_any": "base, any",
    "trace_any": "TRACE, any",
    "hubs_any": "base, hub offset, any",
    "witness_any": "witness, any",
    "base_bank": "base, query bank",
    "trace_bank": "TRACE, query bank",
    "base_bank_any": "base, query bank, any",
    "trace_bank_any": "TRACE, query bank, any",
}

_SHOWN = 6  # settings in which runs differ


@dataclass(frozen=True)
class EvalArguments:
    """Rank a split and print recalls, base and TRACE side by side; several runs (seeds) give mean ± sd.

    Every query's rank is saved in RUN/eval/SPLIT-WEIGHTS/ranks.csv. If the data lists several correct videos per
    query, the rank of the best of them and the share of them that was found (coverage) are shown too.

    `--finer` adds tables by moment-to-video ratio and query type, mAP and nDCG, moment retrieval in the whole corpus,
    and hubs. `--data OTHER` ranks a dataset that the run was not trained on (cross-dataset).
    """

    runs: tyro.conf.Positional[tuple[RunPath, ...]]
    """folders of runs, as `prvr train` writes them"""
    data: Path | None = None
    """folder with the dataset, also another one with features of the same widths [default: the one the run was
    trained on]"""
    split: str = "test"
    """split to rank"""
    weights: str | None = None
    """which weights: average, best, last or backbone [default: the run's selection]"""
    finer: bool = False
    """measure more: groups of queries, several positives, moments in the corpus, hubs (finer.json, queries.csv)"""
    query_bank: bool = False
    """also rank with scores corrected for hubs by a bank of training sentences"""
    labels: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """file with all correct videos of each query: a *.gt.jsonl, plain, gzipped or in a .zip"""
    device: str = "auto"
    """auto, cpu, cuda or cuda:1"""
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False
    """print JSON instead of tables"""


def eval_command(argv: list[str]) -> int:
    arguments = tyro.cli(EvalArguments, prog="prvr eval", args=argv)
    if not arguments.runs:
        raise RunError("name at least one run: prvr eval RUN …")
    console = Console()
    device = choose_device(arguments.device)
    outcomes = []
    for path in arguments.runs:
        with Console(stderr=True).status(f"ranking {arguments.split} with {path}") as status:

            def tick(done: int, total: int, show: Status = status) -> None:
                show.update(f"searching moments: {done:,} of {total:,} videos")

            outcomes.append(
                evaluate_run(
                    Run(path),
                    data=arguments.data,
                    split=arguments.split,
                    weights=arguments.weights,
                    device=device,
                    labels=arguments.labels,
                    query_bank=arguments.query_bank,
                    finer=arguments.finer,
                    tick=tick,
                )
            )
    if arguments.as_json:
        print(json.dumps([outcome_dict(outcome) for outcome in outcomes], indent=2))
        return 0
    if outcomes[0].dataset.split != arguments.split:
        console.print(f"no {arguments.split} captions: ranked {outcomes[0].dataset.split} instead", style="yellow")
    if len({(outcome.record.query_ids, tuple(outcome.record.ranks)) for outcome in outcomes}) > 1:
        raise RunError(
            "these runs were ranked on different queries, or in different ways (only some have TRACE or a witness): "
            "evaluate them one by one, or use `prvr compare`"
        )
    print_outcomes(outcomes, console)
    differing = differing_settings([Run(path).config for path in arguments.runs])
    if differing:
        console.print(
            f"mean ± sd mixes runs of different settings, not only of different seeds: {differing}",
            style="yellow",
            highlight=False,
            soft_wrap=True,
        )
    for outcome in outcomes:
        if outcome.finer is not None:
            print_finer(outcome.finer, console, title=str(outcome.folder) if len(outcomes) > 1 else "")
    return 0


def differing_settings(configs: Sequence[TrainConfig]) -> str:
    """The settings besides the seed in which configurations differ, with their values; "" if there are none.

    >>> differing_settings([TrainConfig(seed=0), TrainConfig(seed=1)])
    ''
    >>> differing_settings([TrainConfig(batch_size=64), TrainConfig(), TrainConfig(batch_size=64)])
    'batch_size 64, 128, 64'
    """
    settings = [flat_settings(config_to_dict(config)) for config in configs]
    names = dict.fromkeys(name for config in configs[1:] for name in config_changes(configs[0], config))
    values = {name: ", ".join(f"{each.get(name)}" for each in settings) for name in names if name != "seed"}
    shown = [f"{name} {of_runs}" for name, of_runs in list(values.items())[:_SHOWN]]
    more = [f"and {len(values) - _SHOWN} more"] if len(values) > _SHOWN else []
    return "; ".join([*shown, *more])


def print_finer(finer: Finer, console: Console, title: str = "") -> None:
    """Print the finer tables; what a run or dataset cannot show is said in a line."""
    if title:
        console.print(Text(f"\n{title}", style="bold underline"), soft_wrap=True)
    for make in FINER_SECTIONS.values():
        print_section(make(finer), console)


def print_outcomes(outcomes: list[Outcome], console: Console) -> None:
    """Print the recalls and what differs between base and TRACE."""
    first = outcomes[0].record.protocol
    rows: dict[str, list[Recall] | Recall] = {}
    for column, name in ROWS.items():
        found = [outcome.record.recalls()[column] for outcome in outcomes if column in outcome.record.ranks]
        if found:
            rows[name] = found
    notes = [f"{first.dataset} {first.split}: {outcomes[0].record.recalls()['base'].count} queries"]
    if first.trained_on:
        notes.append(f"cross-dataset: trained on {first.trained_on}")
    own, feature = outcomes[0].model.backbone.method, outcomes[0].dataset.visual_feature
    for method in () if first.trained_on else (own, "trace") if own == "dreamprvr" else (own,):
        known = published_recall(method, first.dataset, feature)
        if known is not None:
            rows[f"{method} (published)"] = known
            notes = [*dict.fromkeys([*notes, published_caveat(feature)])]
    if any(name.endswith("any") for name in rows):
        notes.append("any: the best of all correct videos")
    notes += [first.notes] if first.notes else []
    if len(outcomes) > 1:
        notes.append(f"mean ± sd of {len(outcomes)} runs")
    print_table(console, recall_table(rows, note="; ".join(notes)))
    for outcome in outcomes:
        console.print(f"{outcome.folder}  weights: {outcome.selection}", highlight=False, soft_wrap=True)
        if outcome.model.backbone.notice:
            console.print(f"  {outcome.model.backbone.notice}", highlight=False, soft_wrap=True)
        for scoring, shares in outcome.coverage.items() if outcome.finer is None else ():
            within = ", ".join(f"{share:.1f} % within {k}" for k, share in shares.items())
            console.print(f"  {ROWS[scoring]}, share of all correct videos: {within}", highlight=False)
        if outcome.trust is not None:
            console.print(f"  probabilities: {outcome.trust.quality}", highlight=False, soft_wrap=True)
        if outcome.trust is not None and outcome.trust.verdicts is not None:
            console.print(
                f"  first answers by TRACE's support: {outcome.trust.verdicts}",
                highlight=False,
                soft_wrap=True,
            )
        if outcome.comparison is not None:
            c = outcome.comparison
            moved = f"{c.rank_up} ranks up, {c.rank_down} down, mean gain {c.mean_gain:+.2f}"
            console.print(f"  TRACE against base: {c} (paired, 95 %); {moved}", highlight=False, soft_wrap=True)
        if outcome.witness_note:
            console.print(f"  {outcome.witness_note}", highlight=False, soft_wrap=True, style="yellow")
        for what, change in outcome.witness_changes.items():
            console.print(f"  {what}: {change} (paired, 95 %)", highlight=False, soft_wrap=True)
        final = "trace" if outcome.comparison is not None else "base"
        if outcome.bank is not None:
            change = compare_ranks(outcome.record.ranks[final], outcome.record.ranks[f"{final}_bank"])
            console.print(f"  {ROWS[f'{final}_bank']} against {ROWS[final]}: {change} (paired, 95 %)", highlight=False)


def outcome_dict(outcome: Outcome) -> dict[str, object]:
    """An outcome as plain data, for JSON."""
    recalls = {name: recall.as_dict() for name, recall in outcome.record.recalls().items()}
    comparison = None if outcome.comparison is None else outcome.comparison.as_dict()
    return {
        "folder": str(outcome.folder),
        "weights": outcome.selection,
        "recalls": recalls,
        "comparison": comparison,
        "witness_note": outcome.witness_note,
        "witness_changes": {what: change.as_dict() for what, change in outcome.witness_changes.items()},
        "protocol": asdict(outcome.record.protocol),
        "coverage": outcome.coverage,
        "probabilities": None if outcome.trust is None else asdict(outcome.trust.quality),
        "verdicts": None
        if outcome.trust is None or outcome.trust.verdicts is None
        else outcome.trust.verdicts.to_dict(),
        **({} if outcome.finer is None else {"finer": outcome.finer.as_dict()}),
    }
