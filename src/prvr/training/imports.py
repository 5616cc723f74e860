"""The authors' checkpoints as runs, so that every command that takes a run takes them too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from prvr.backbones import from_official, read_official_checkpoint
from prvr.data.layout import Collection
from prvr.trace import Trace
from prvr.training.config import load_preset
from prvr.training.model import TraceModel
from prvr.training.run import Run


def import_checkpoint(
    method: str, file: str | Path, run: Run, *, dataset: str, data: str | Path, config: str | Path | None = None
) -> TraceModel:
    """Read, rename, verify that every key was used, and write a run with these weights (named ``last``)."""
    official = read_official_checkpoint(file, config)
    backbone = from_official(method, official.state_dict, official.config)
    preset = load_preset(dataset, method)
    Collection.find(data, preset.data.collection, preset.data.visual_feature)  # a run without its data is of no use
    settings = replace(
        preset, model=backbone.config, selection="last", trace_stage=replace(preset.trace_stage, epochs=0)
    )
    model = TraceModel(backbone, Trace(backbone.width, settings.trace), settings.trace_stage)
    run.create(settings, data, imported_from=Path(file).name)
    run.save_weights("last", model.state_dict(), epoch=official.epoch or 0, imported_from=Path(file).name)
    return model
