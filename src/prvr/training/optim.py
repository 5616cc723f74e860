"""Optimisers: BertAdam for backbones, as usual in this field, and AdamW for the TRACE phase."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from prvr.backbones import Backbone, official_names, stack_depth
from prvr.training.config import BackboneStage, TraceStage

_BETA1, _EPSILON = 0.9, 1e-6
_LARGEST_GRADIENT = 1.0


class BertAdam(torch.optim.Optimizer):
    """Adam as usual in this field: no bias correction, decoupled decay, and each tensor's gradient clipped separately.

    ``m ← 0.9m + 0.1g``, ``v ← β₂v + (1−β₂)g²``, ``p ← p − lr·(m/(√v + 1e-6) + wd·p)``, with g first scaled to at most
    unit norm *per tensor*. Our banks stack the tensors of several blocks into one parameter; a group's ``stack`` says
    how many leading axes to treat as separate tensors, so that clipping equals the authors'.
    """

    def __init__(
        self,
        groups: Iterable[Mapping[str, Any]],
        learning_rate: float,
        weight_decay: float = 0.01,
        beta2: float = 0.999,
    ):
        defaults = {"lr": learning_rate, "weight_decay": weight_decay, "beta2": beta2, "stack": 0}
        super().__init__([dict(group) for group in groups], defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        assert closure is None, "BertAdam takes no closure"
        for group in self.param_groups:
            ready = [p for p in group["params"] if p.grad is not None]
            if not ready:
                continue
            for p in ready:
                if not self.state[p]:
                    self.state[p] = {"mean": torch.zeros_like(p), "square": torch.zeros_like(p)}
            gradients = _clipped([p.grad for p in ready], group["stack"])
            means = [self.state[p]["mean"] for p in ready]
            squares = [self.state[p]["square"] for p in ready]
            torch._foreach_lerp_(means, gradients, 1 - _BETA1)
            torch._foreach_mul_(squares, group["beta2"])
            torch._foreach_addcmul_(squares, gradients, gradients, 1 - group["beta2"])
            scale = torch._foreach_sqrt(squares)
            torch._foreach_add_(scale, _EPSILON)
            update = torch._foreach_div(means, scale)
            if group["weight_decay"]:
                torch._foreach_add_(update, ready, alpha=group["weight_decay"])
            torch._foreach_mul_(update, group["lr"])
            torch._foreach_sub_(ready, update)


def _clipped(gradients: list[Tensor], stack: int) -> list[Tensor]:
    """Gradients with each tensor (of each stack) scaled to at most unit norm."""
    if stack == 0:
        norms = list(torch._foreach_norm(gradients))
    else:
        # The axis added at the end is for stacks of scalars: given no axes, torch would reduce over all of them.
        rest = [tuple(range(stack, g.ndim + 1)) for g in gradients]
        pairs = zip(gradients, rest, strict=True)
        norms = [torch.linalg.vector_norm(g[..., None], dim=dims, keepdim=True).squeeze(-1) for g, dims in pairs]
    scales = torch._foreach_add(norms, 1e-6)
    torch._foreach_reciprocal_(scales)
    torch._foreach_clamp_max_(scales, _LARGEST_GRADIENT)
    return list(torch._foreach_mul(gradients, scales))


def backbone_optimiser(backbone: Backbone, stage: BackboneStage) -> torch.optim.Optimizer:
    """The optimiser of the backbone's phase, with the authors' groups: no weight decay for biases and for norms that
    their code calls ``LayerNorm``."""
    keys = backbone.official_keys()
    groups: dict[tuple[int, bool], list[nn.Parameter]] = {}
    for name, parameter in backbone.named_parameters():
        key = keys.get(name, name)
        official = next(official_names(key))
        decayed = "bias" not in official and "LayerNorm" not in official
        groups.setdefault((stack_depth(key), decayed), []).append(parameter)
    described = [
        {"params": parameters, "stack": stack, "weight_decay": stage.weight_decay if decayed else 0.0}
        for (stack, decayed), parameters in groups.items()
    ]
    if stage.optimiser == "bert-adam":
        return BertAdam(described, stage.learning_rate, beta2=stage.beta2)
    return _adamw(backbone, described, stage.learning_rate, (_BETA1, stage.beta2), _EPSILON)


def trace_optimiser(model: nn.Module, stage: TraceStage) -> torch.optim.AdamW:
    """AdamW over backbone and projections, with weight decay for everything but norms and biases."""
    exempt = {name for name, _ in model.named_parameters() if "norm" in name or "bias" in name}
    named = list(model.named_parameters())
    groups = [
        {"params": [p for name, p in named if name not in exempt], "weight_decay": stage.weight_decay},
        {"params": [p for name, p in named if name in exempt], "weight_decay": 0.0},
    ]
    return _adamw(model, groups, stage.learning_rate, (stage.beta1, stage.beta2), stage.epsilon)


def _adamw(
    model: nn.Module, groups: list[dict[str, Any]], rate: float, betas: tuple[float, float], epsilon: float
) -> torch.optim.AdamW:
    on_gpu = all(p.is_cuda for p in model.parameters())
    return torch.optim.AdamW(groups, lr=rate, betas=betas, eps=epsilon, fused=on_gpu, capturable=on_gpu)


def rate_on_device(optimiser: torch.optim.Optimizer, device: torch.device) -> None:
    """Keep the learning rate in a tensor on the device, so that a captured step reads the current one when replayed."""
    for group in optimiser.param_groups:
        group["lr"] = torch.tensor(float(group["lr"]), device=device)


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of every group."""
    for group in optimiser.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def optimiser_tensors(optimiser: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """An optimiser's state as flat named tensors, for a checkpoint: ``parameter|entry``."""
    names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
    return {
        f"{names[parameter]}|{entry}": value
        for parameter, state in optimiser.state.items()
        for entry, value in state.items()
    }


def restore_optimiser(optimiser: torch.optim.Optimizer, model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Restore the state that ``optimiser_tensors`` returned."""
    parameters = dict(model.named_parameters())
    for key, value in tensors.items():
        name, entry = key.rsplit("|", 1)
        parameter = parameters[name]
        on_host = entry == "step" and not optimiser.defaults.get("fused")
        optimiser.state[parameter][entry] = value.clone() if on_host else value.to(parameter.device)
