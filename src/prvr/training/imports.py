"""Import an authors' checkpoint as a run, so that every command that takes a run can use it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from prvr.backbones import from_official, read_official_checkpoint
from prvr.data import Collection, open_feature_store
from prvr.trace import Trace
from prvr.training.config import load_preset
from prvr.training.model import TraceModel
from prvr.training.run import Run
from prvr.training.splits import require_widths, resolve_config


def import_checkpoint(
    method: str, file: str | Path, run: Run, *, dataset: str, data: str | Path, config: str | Path | None = None
) -> TraceModel:
    """Read an authors' checkpoint and write it as a run, with weights named ``last``.

    Args:
        method: the backbone.
        file: the checkpoint.
        run: where to write; its folder must not hold a run.
        dataset: name of the preset that the other settings come from.
        data: folder of the dataset that the run is evaluated on.
        config: JSON file with the authors' hyper-parameters, where the checkpoint does not hold them.

    Raises:
        CheckpointMismatch: a tensor of the checkpoint is missing, unknown or of another shape.
        DataError: the data is missing, or its features have other widths than the model's.
    """
    official = read_official_checkpoint(file, config)
    backbone = from_official(method, official.state_dict, official.config)
    preset = resolve_config(load_preset(dataset, method), data)
    settings = replace(
        preset, model=backbone.config, selection="last", trace_stage=replace(preset.trace_stage, epochs=0)
    )
    # Raises where the data is missing or of another width: a run without it would be useless.
    files = Collection.find(data, preset.data.collection, preset.data.visual_feature)
    with open_feature_store(files.video_features) as videos, open_feature_store(files.query_features) as queries:
        require_widths(settings, data, [("visual_width", videos.width), ("query_width", queries.width)])
    model = TraceModel(backbone, Trace(backbone.width, settings.trace), settings.trace_stage)
    run.create(settings, data, imported_from=Path(file).name)
    run.save_weights("last", model.state_dict(), epoch=official.epoch or 0, imported_from=Path(file).name)
    return model
