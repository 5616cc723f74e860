"""Start a training from the weights of another run: TRACE on any backbone, or the next part of a method.

The weights are copied into the new run at once, so that it can be resumed when the other run is gone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from prvr.backbones import build
from prvr.training.config import TraceStage, TrainConfig
from prvr.training.model import TraceModel
from prvr.training.run import Run, RunError

STARTED_FROM = "started_from"  # in run.json: the run that weights came from


def config_from_run(source: Run) -> TrainConfig:
    """The configuration of a training that continues a run's backbone.

    Where the backbone has tokens for TRACE, only the second phase is left, with the paper's number of epochs if the run
    had none. The phase begins as it would after a first one: with hard negatives, and past a method's own warm-up.
    """
    config = source.config
    backbone = build(config.method, config.model)
    if not backbone.separable:
        return replace(config, trace_stage=replace(config.trace_stage, epochs=0))
    early = ("hard_negative_epoch", "warmup_epochs")
    settled: dict[str, Any] = {name: 0 for name in early if hasattr(config.model, name)}
    return replace(
        config,
        model=replace(config.model, **settled),
        backbone_stage=replace(config.backbone_stage, epochs=0),
        trace_stage=replace(config.trace_stage, epochs=config.trace_stage.epochs or TraceStage.epochs),
        selection="average",
    )


def copy_start(source: Run, run: Run, config: TrainConfig, model: TraceModel) -> list[str]:
    """Copy a run's backbone into a new run as the weights it starts from; TRACE starts anew.

    Do this before ``run.create``: a run that exists can then be resumed. A run that has been through the second phase
    gives the backbone that it entered it with.

    Returns:
        parts of the new model that the other run does not have; they keep their initial values.

    Raises:
        RunError: the run's backbone does not fit the new model.
    """
    name = "backbone" if source.has_weights("backbone") else source.config.selection
    given, about = source.weights(name)
    given = {key: tensor for key, tensor in given.items() if key.startswith("backbone.")}
    own = model.state_dict()
    wrong = sorted(key for key, tensor in given.items() if key not in own or own[key].shape != tensor.shape)
    if wrong:
        raise RunError(
            f"the backbone of {source.path} does not fit these settings ({wrong[0]} and {len(wrong) - 1} more tensors "
            "differ): --from needs the run's own method and model settings"
        )
    made_of = {"epoch": about.get("epoch", max(about.get("epochs", [0]))), STARTED_FROM: str(source.path)}
    run.save_weights(start_name(config), own | given, **made_of)
    new = {key.split(".")[1] for key in own if key.startswith("backbone.") and key not in given}
    return sorted(new)


def load_start(run: Run, model: TraceModel) -> None:
    """Give a model the weights that its run starts from, if it starts from another run."""
    if STARTED_FROM in run.record:
        model.load_state_dict(run.weights(start_name(run.config))[0])


def start_name(config: TrainConfig) -> str:
    """The weights that a run starts from. For the second phase they are what the first would have left."""
    return "backbone" if config.backbone_stage.epochs == 0 else "start"
