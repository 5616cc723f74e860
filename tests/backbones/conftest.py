"""What golden tests of several methods do alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from prvr.backbones import Backbone, from_official, official_names, total_loss, unstack
from prvr.tokens import QueryBatch, TrainBatch, VideoBatch, VideoTokens
from prvr.training import BackboneStage, backbone_optimiser, backbone_rate, set_rate


class NoGlance(TorchDispatchMode):
    """Refuses what would make the host wait for a device: reading a value, or a shape that depends on values."""

    waiting = ("_local_scalar_dense", "nonzero", "masked_select", "equal", "_unique2", "is_nonzero")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        indices = args[1] if name in ("index", "index_put", "index_put_") else ()
        by_mask = any(t is not None and t.dtype == torch.bool for t in indices)
        assert not by_mask, f"{func} by a mask waits for how many are True"
        assert name not in self.waiting, f"{func} waits for a value"
        return func(*args, **(kwargs or {}))


@dataclass(frozen=True)
class Authors:
    """A method's fixture: its authors' weights, one batch, and what their code makes of it."""

    method: str
    case: Any

    def model(self) -> Backbone:
        return from_official(self.method, self.case.weights, self.case.config)

    def batch(self, padding: int = 0) -> TrainBatch:
        """The fixture's batch; with ``padding`` queries of label −1 that hold nothing but noise."""
        case = self.case
        tokens, mask, labels = case["in.text_feat"], case["in.text_mask"] > 0, case["in.text_labels"]
        noise = torch.randn(padding, *tokens.shape[1:])
        return TrainBatch(
            VideoBatch(case["in.frame_video_features"], case["in.videos_mask"] > 0, case["in.clip_video_features"]),
            QueryBatch(torch.cat([tokens, noise]), torch.cat([mask, mask[:1].expand(padding, -1)])),
            torch.cat([labels, labels.new_full((padding,), -1)]),
        )

    def encode(self, model: Backbone) -> tuple[Tensor, VideoTokens]:
        batch = self.batch()
        with torch.no_grad():
            videos = model.encode_videos(batch.videos.frames, batch.videos.frame_mask, batch.videos.clips)
            return model.encode_queries(batch.queries.tokens, batch.queries.mask), videos

    def short(self, model: Backbone, rows: slice = slice(None), noise: float = 0.0) -> VideoTokens:
        """The fixture's short videos, padded only to the longest of them; noise goes into padded slots."""
        case = self.case
        frames, mask = case["short.in.frame_video_features"], case["short.in.videos_mask"] > 0
        frames = frames + noise * torch.randn_like(frames) * ~mask[..., None]
        with torch.no_grad():
            return model.encode_videos(
                frames[rows], mask[rows], case["in.clip_video_features"][case["short.rows"]][rows]
            )

    def terms(self, model: Backbone, epoch: int = 0, padding: int = 0) -> dict[str, Tensor]:
        return model.objective(model.encode_batch(self.batch(padding)), epoch=epoch)

    def check_no_waiting(self, model: Backbone, epoch: int) -> None:
        """A training step up to its gradients never looks at a value, so that it can be captured and replayed."""
        batch, weights = self.batch(padding=2), model.loss_weights
        model.train()
        with NoGlance():
            total_loss(model.objective(model.encode_batch(batch), epoch=epoch), weights).backward()  # type: ignore[no-untyped-call]

    def check_gradients(self, model: Backbone, loss: Tensor, expected: str) -> None:
        """The norm of every parameter's gradient under the authors' names; −1 where they have none."""
        model.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        keys = model.official_keys()
        norms: dict[str, float] = {}
        for name, parameter in model.named_parameters():
            if parameter.grad is not None:
                norms |= {key: float(part.norm()) for key, part in unstack(keys[name], parameter.grad).items()}
        for name, value in zip(self.case.config["grad_names"], self.case[expected].tolist(), strict=True):
            assert norms.get(name, -1.0) == pytest.approx(value, rel=1e-3, abs=1e-6), name

    def losses_of_steps(self, model: Backbone, epoch: int = 0) -> Tensor:
        """The losses before each step of the fixture's optimiser run."""
        run = self.case.config["optim_run"]
        stage = BackboneStage(learning_rate=run["lr"], warmup=run["warmup"], weight_decay=run["weight_decay"])
        optimiser, losses = backbone_optimiser(model, stage), []
        for step in range(run["steps"]):
            set_rate(optimiser, run["lr"] * backbone_rate(step, run["t_total"], stage))
            optimiser.zero_grad()
            loss = total_loss(self.terms(model, epoch), model.loss_weights)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            losses.append(loss.detach())
        return torch.stack(losses)

    def decayed(self, model: Backbone) -> dict[str, float]:
        """Which of the authors' parameters our optimiser decays."""
        names = {parameter: name for name, parameter in model.named_parameters()}
        return {
            official: float(group["weight_decay"] > 0)
            for group in backbone_optimiser(model, BackboneStage()).param_groups
            for parameter in group["params"]
            for official in official_names(model.official_keys()[names[parameter]])
        }

    @property
    def decay_flags(self) -> dict[str, float]:
        return dict(zip(self.case.config["grad_names"], self.case["optim.decay_flag"].tolist(), strict=True))


@pytest.fixture
def authors(golden: Callable[[str], Any]) -> Callable[[str], Authors]:
    """``authors("holmes")``: a method's fixture with what tests ask of it."""
    return lambda name: Authors(name, golden(name))


@pytest.fixture
def batch(case: Any) -> TrainBatch:
    """The batch of a fixture whose inputs are named as in the PRVR releases."""
    return Authors("", case).batch()


@pytest.fixture
def by_official_name() -> Callable[[Backbone, dict[str, Tensor]], dict[str, Tensor]]:
    """Tensors under our parameters' names → under the authors', taken apart where we stack theirs."""

    def rename(model: Backbone, values: dict[str, Tensor]) -> dict[str, Tensor]:
        keys = model.official_keys()
        return {name: part for ours, value in values.items() for name, part in unstack(keys[ours], value).items()}

    return rename
