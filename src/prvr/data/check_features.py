"""Checks the features of a collection: each one that is there, and under which name it is published."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from prvr.data.auxiliary import captions_by_video
from prvr.data.check_rows import CheckRow, CheckState
from prvr.data.datasets import DATASETS
from prvr.data.errors import DataError
from prvr.data.known_features import KNOWN_FEATURES, recognise
from prvr.data.layout import Collection
from prvr.data.store_base import FeatureStore
from prvr.data.stores import open_feature_store

SAMPLE = 24  # ids whose numbers are read, spread over the store


@dataclass(frozen=True)
class OpenedFeature:
    """One of a collection's features; a side that cannot be opened is None."""

    label: str  # begins the items of its rows; empty where it is the only one
    videos: FeatureStore | None
    words: FeatureStore | None
    wrong: CheckState  # how bad a fault of it is: there may be another that can be used


@dataclass
class FeatureReport:
    """What was found about all features of a collection."""

    rows: list[CheckRow] = field(default_factory=list)
    opened: list[OpenedFeature] = field(default_factory=list)  # the one that is used by default first


def check_features(root: Path, files: Collection, every: bool, stack: ExitStack) -> FeatureReport:
    """Check every feature of a collection. Stores are closed with ``stack``.

    A fault is an error where it keeps one from training: in the feature that is used by default, or in all of them.
    """
    report = FeatureReport()
    try:
        names = [Collection.find(root, files.name).visual_feature]
    except DataError as problem:
        names, several = _names(files), str(problem)
        state: CheckState = "warning" if len(names) > 1 else "error"
        report.rows.append(
            CheckRow(files.name, "frame features", state, several, "--data.features NAME" * (len(names) > 1))
        )
        names = names or [""]
        by_default = False
    else:
        names += [name for name in _names(files) if name not in names]
        by_default = True
    checked = [_check_feature(replace(files, visual_feature=name), every, stack) for name in names]
    usable = [all(row.state != "error" for row in rows) for rows, _, _ in checked]
    for number, (name, (rows, videos, words)) in enumerate(zip(names, checked, strict=True)):
        spare = number > 0 if by_default else any(usable)
        wrong: CheckState = "warning" if spare else "error"
        known = recognise(files.name, name)
        label = f"{known[0].name if known else name}: " if len(names) > 1 else ""
        report.rows += [
            replace(row, item=label + row.item, state=wrong if row.state == "error" else row.state) for row in rows
        ]
        report.opened.append(OpenedFeature(label, videos, words, wrong))
    return report


def _names(files: Collection) -> list[str]:
    """The features of a collection. Those that are known side by side count as one, and their parts if known alone."""
    found = [files.files_of(feature) for feature in KNOWN_FEATURES.values()]
    joined = [name for name in found if name is not None and "+" in name]
    parts = {part for name in joined for part in name.split("+")}
    alone = [name for name in files.found_features if name not in parts or recognise(files.name, name)]
    return [*alone, *joined]


def _check_feature(
    files: Collection, every: bool, stack: ExitStack
) -> tuple[list[CheckRow], FeatureStore | None, FeatureStore | None]:
    visual, query = files.published_widths
    rows: list[CheckRow] = []
    videos = _check_store(files, "frame features", visual, every, stack, rows) if files.visual_feature else None
    words = _check_store(files, "word features", query, every, stack, rows)
    rows += [*_published_as(files), *_check_recipes(files, videos, words)] if files.visual_feature else []
    return rows, videos, words


def _check_store(
    files: Collection, item: str, width: int | None, every: bool, stack: ExitStack, rows: list[CheckRow]
) -> FeatureStore | None:
    try:
        path = files.video_features if item == "frame features" else files.query_features
        store = stack.enter_context(open_feature_store(path))
    except DataError as problem:
        rows.append(CheckRow(files.name, item, "error", str(problem)))
        return None
    state: CheckState = "error" if width is not None and store.width != width else "ok"
    found = f"{path.name}: {len(store.ids):,} ids, {store.width} wide"
    rows.append(CheckRow(files.name, item, state, found, f"{width} wide" if width else ""))
    sample = store.ids if every else store.ids[:: max(1, len(store.ids) // SAMPLE)]
    which = f"{item}, {'all' if every else 'sample'}"
    try:
        lengths = [len(store.read(name)) for name in sample]
    except DataError as problem:
        rows.append(CheckRow(files.name, which, "error", str(problem)))
        return store
    found = f"{len(sample)} read, {min(lengths)} to {max(lengths)} rows each, all finite" if sample else "no ids"
    rows.append(CheckRow(files.name, which, "ok" if sample else "error", found))
    return store


def _published_as(files: Collection) -> Iterator[CheckRow]:
    """Which published feature this is, and how to train on it."""
    item, spec, known = "published as", DATASETS.get(files.name), recognise(files.name, files.visual_feature)
    if known is not None:
        feature, by = known[0], known[1].by
        command = f"prvr train {files.name} --data.features {feature.name}" if spec else ""
        yield CheckRow(files.name, item, "ok", f"{feature.name}: {feature.title}, by {by}", command)
    elif spec is not None and files.visual_feature == spec.visual_feature:
        yield CheckRow(files.name, item, "ok", "the standard features", f"prvr train {files.name}")
    elif spec is not None:
        names = f"{spec.visual_feature} (standard), {', '.join(KNOWN_FEATURES)}"
        yield CheckRow(files.name, item, "warning", f"{files.visual_feature}: nothing that we know", names)


def _check_recipes(files: Collection, videos: FeatureStore | None, words: FeatureStore | None) -> Iterator[CheckRow]:
    """How features were made, where that was kept; both sides should come from one encoder."""
    try:
        recipes = files.recipes
    except DataError as problem:
        yield CheckRow(files.name, "recipe", "error", str(problem))
        return
    for what, store in (("frames", videos), ("queries", words)):
        if what in recipes:
            recipe = recipes[what]
            other = store is not None and recipe.get("width") not in (None, store.width)
            found = _described(recipe) + (f", {recipe['width']} wide: not the features beside it" if other else "")
            yield CheckRow(files.name, f"recipe of {what}", "error" if other else "ok", found)
    made_by = {what: (recipe.get("encoder"), recipe.get("weights")) for what, recipe in recipes.items()}
    if len({*made_by.values()}) > 1:
        found = " and ".join(f"{what} by {encoder}" for what, (encoder, _) in made_by.items())
        known = recognise(files.name, files.visual_feature)
        state: CheckState = "ok" if known is not None and known[0].windowed else "warning"  # ok: two by their design
        yield CheckRow(files.name, "recipes", state, f"{found}: only methods that learn both sides can use them")


def _described(recipe: dict[str, Any]) -> str:
    rate, how = recipe.get("rate"), str(recipe.get("preprocessing", ""))[:60]
    parts = [str(recipe.get("encoder", "unknown encoder")), f"{rate:g} a second" if rate else "", how]
    return ", ".join(part for part in parts if part)


def check_auxiliary(files: Collection, words: FeatureStore | None) -> Iterator[CheckRow]:
    """Check the auxiliary captions, which only Cap4Video uses."""
    item, path = "auxiliary captions", files.caption_features
    if path is None:
        yield CheckRow(files.name, item, "ok", "none (optional; Cap4Video then trains without them)")
        return
    try:
        with open_feature_store(path) as store:
            width, grouped = store.width, captions_by_video(store.ids)
    except DataError as problem:
        yield CheckRow(files.name, item, "error", str(problem))
        return
    found = f"{path.name}: {sum(map(len, grouped.values())):,} of {len(grouped):,} videos, {width} wide"
    expected = "" if words is None else f"{words.width} wide"
    yield CheckRow(files.name, item, "ok" if words is None or words.width == width else "error", found, expected)
