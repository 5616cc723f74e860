"""The model card of a run: what it is, how it was made, how well it ranks, where its limits are, how to load it."""

from __future__ import annotations

import torch

from prvr.backbones import build
from prvr.evaluation import EvaluationRecord, RecordError, compare_ranks, describe_weights, load_record
from prvr.media import require_hub
from prvr.sharing.layout import SharedRun

_ROWS = {  # columns of a record that a card shows
    "backbone": "backbone alone",
    "base": "base score",
    "trace": "with TRACE",
    "witness": "with the witness",
}
_NEVER = torch.iinfo(torch.int64).max  # a rank that meets no cut-off
_TASK = "partially-relevant-video-retrieval"


def evaluations(shared: SharedRun) -> list[EvaluationRecord]:
    """What `prvr eval` has saved for these weights. Evaluations of weights that were replaced since are left out."""
    about = shared.run.weights(shared.weights)[1]
    chosen = describe_weights(shared.weights, about, shared.config)
    found = []
    for folder in sorted((shared.run.path / "eval").glob(f"*-{shared.weights}")):
        try:
            record = load_record(folder)
        except RecordError:
            continue
        if record.protocol.selection == chosen:
            found.append(record)
    return found


def model_card(shared: SharedRun, name: str, *, licence: str | None = None) -> str:
    """The text of ``README.md``: front matter that the hub reads, and the card itself.

    Args:
        shared: the run.
        name: of the repository, ``OWNER/NAME``, or what to call the model.
        licence: the hub's name of a licence, such as ``apache-2.0``.
    """
    records = evaluations(shared)
    parts = [
        f"# {name.rpartition('/')[2]}",
        _purpose(shared),
        "## Results",
        *(_results(record, shared) for record in records),
        *([] if records else ["Nobody has measured this model with `prvr eval` yet: no number is known."]),
        "## How to load it",
        _usage(name),
        "## How it was made",
        _making(shared),
        "## Limits",
        _limits(shared, records),
    ]
    return f"---\n{_front_matter(shared, name, records, licence)}\n---\n\n" + "\n\n".join(parts) + "\n"


def _front_matter(shared: SharedRun, name: str, records: list[EvaluationRecord], licence: str | None) -> str:
    hub = require_hub()
    results = []
    for record in (record for record in records if not _trained_on(record, shared)):  # a name tells nothing of others
        best = [column for column in _ROWS if column in record.ranks][-1]
        for key, value in record.recalls()[best].as_dict().items():
            if key != "count":
                number = key.removeprefix("r")
                kind = ("sum_r", "SumR") if key == "sum_r" else (f"recall_at_{number}", f"R@{number}")
                results.append(
                    hub.EvalResult(
                        task_type=_TASK,
                        task_name="Partially relevant video retrieval",
                        dataset_type=record.protocol.dataset,
                        dataset_name=record.protocol.dataset,
                        dataset_split=record.protocol.split,
                        metric_value=round(float(value), 2),
                        metric_type=kind[0],
                        metric_name=kind[1],
                    )
                )
    tags = ["prvr", "video-retrieval", "text-to-video-retrieval", _TASK, shared.config.method]
    data = hub.ModelCardData(
        library_name="prvr",
        license=licence,
        tags=[*tags, *(["trace"] if _with_trace(shared) else [])],
        model_name=name.rpartition("/")[2] if results else None,
        eval_results=results or None,
    )
    return str(data.to_yaml()).strip()


def _with_trace(shared: SharedRun) -> bool:
    return shared.config.trace_stage.epochs > 0


def _purpose(shared: SharedRun) -> str:
    backbone = build(shared.config.method, shared.config.model)
    year = f" ({backbone.year})" if backbone.year else ""
    trace = " and TRACE on top" if _with_trace(shared) else ""
    return (
        "Finds, among untrimmed videos, the one in which a sentence describes some moment (partially relevant video "
        f"retrieval). The model is {backbone.title or backbone.method}{year}{trace}, in the form that prvr reads. Its "
        "inputs are features of frames and words, not pixels."
    )


def _trained_on(record: EvaluationRecord, shared: SharedRun) -> str:
    """What the run was trained on, where the record is of another dataset; otherwise an empty word."""
    own = shared.config.data.collection
    return record.protocol.trained_on or (own if record.protocol.dataset != own else "")


def _results(record: EvaluationRecord, shared: SharedRun) -> str:
    """A table of recalls with intervals."""
    lines = ["| | R@1 | R@5 | R@10 | R@100 | SumR |", "|---|---|---|---|---|---|"]
    for column in (column for column in _ROWS if column in record.ranks):
        ranks = record.ranks[column]
        against_nothing = compare_ranks(torch.full_like(ranks, _NEVER), ranks)  # so the difference is the recall
        cells = [*against_nothing.at.values(), against_nothing.sum_r]
        shown = [f"{cell.delta:.1f} [{cell.low:.1f}, {cell.high:.1f}]" for cell in cells]
        lines.append(f"| {_ROWS[column]} | {' | '.join(shown)} |")
    protocol, config = record.protocol, shared.config
    size = f"{len(record.query_ids):,} queries about {len(set(record.video_ids)):,} videos"
    notes = ["In percent, with 95 % bootstrap intervals over queries.", f"Weights: {protocol.selection}."]
    notes += [f"One training, seed {config.seed}."] if "imported_from" not in shared.run.record else []
    notes += [f"Note: {protocol.notes}."] if protocol.notes else []
    other = _trained_on(record, shared)
    if not other and protocol.split == config.data.validation_split and not config.held_out:
        notes.append(f"Training was watched on this split ({protocol.split}), so the numbers may be too high.")
    name = f"{protocol.dataset} (cross-dataset: trained on {other})" if other else protocol.dataset
    return "\n\n".join([f"{name}, split {protocol.split}: {size}.", "\n".join(lines), " ".join(notes)])


def _usage(name: str) -> str:
    place = f"hf://{name}" if "/" in name else name
    return (
        "```python\n"
        'from prvr.sharing import load_run  # pip install "prvr[hub]"\n\n'
        f'model, about = load_run("{name}").load_model()\n'
        "vectors = model.backbone.encode_queries(word_features, mask)  # (Q, L, width), (Q, L)\n"
        "```\n\n"
        f"or `prvr eval {place} --data DIR`, `prvr train --from {place}`, `prvr convert {place} --onnx query.onnx`."
    )


def _making(shared: SharedRun) -> str:
    config, record = shared.config, shared.run.record
    machine, versions = record.get("machine") or {}, record.get("versions") or {}
    known = f" (fingerprint {str(record['fingerprint'])[:16]})" if "fingerprint" in record else ""
    made = [f"Data: {config.data.collection}, split {config.data.train_split}{known}."]
    for part, recipe in shared.run.features.items():
        rate = f" at {recipe['rate']:g} per second" if recipe.get("rate") else ""
        made.append(f"{part.capitalize()}: {recipe.get('encoder', 'unknown')}{rate}, width {recipe.get('width')}.")
    if not shared.run.features:
        widths = f"{config.model.visual_width} (frames) and {config.model.query_width} (words)"
        made.append(f"Features of width {widths}; how they were made was not recorded.")
    if "imported_from" in record:
        made.append(f"Weights: converted from the authors' checkpoint {record['imported_from']}, not trained here.")
    else:
        stages = f"{config.backbone_stage.epochs} epochs of the backbone, then {config.trace_stage.epochs} with TRACE"
        made.append(f"Training: {stages}; {config.batch_size} videos per step, seed {config.seed}.")
        made.append(f"Machine: {machine.get('gpu') or machine.get('processor') or 'not recorded'}.")
    count = sum(parameter.numel() for parameter in build(config.method, config.model).parameters())
    made.append(f"Size: {count / 1e6:.2f} million parameters in the backbone.")
    made.append(f"Software: prvr {versions.get('prvr', '?')}, torch {versions.get('torch', '?')}.")
    made.append("Every setting is in `config.json`.")
    return "\n".join(f"- {line}" for line in made)


def _limits(shared: SharedRun, records: list[EvaluationRecord]) -> str:
    config, notice = shared.config, build(shared.config.method, shared.config.model).notice
    sure = " (`calibration.json` says how probable an answer is, on such data)" if shared.calibration else ""
    own, cross = config.data.collection, [each.protocol.dataset for each in records if _trained_on(each, shared)]
    abroad = {f"another {own}" if name == own else name for name in cross}
    elsewhere = f"Others that it was tried on: {', '.join(sorted(abroad))}." if abroad else "It was tried on no others."
    limits = [
        f"It fits features of the same kind only: {config.model.visual_width} numbers per frame and "
        f"{config.model.query_width} per word, made as above. Others give meaningless scores.",
        f"It has seen the videos and sentences of {config.data.collection} only. {elsewhere}",
        f"It always ranks something first, also where no video shows what was asked for{sure}.",
    ]
    limits += ["The intervals are of one training. Another seed may differ by more than they show."] if records else []
    return "\n".join(f"- {line}" for line in [*limits, *([notice] if notice else [])])
