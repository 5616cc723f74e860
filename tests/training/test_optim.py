"""BertAdam is the authors' optimiser; state survives a checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from prvr.training import BackboneStage, TraceStage, backbone_rate, set_rate
from prvr.training.optim import BertAdam, optimiser_tensors, restore_optimiser, trace_optimiser


def test_the_trajectory_of_three_tensors_is_the_authors(golden: Callable[[str], Any]) -> None:
    case = golden("dreamprvr")
    stage = BackboneStage(warmup=0.1)
    p = {name: nn.Parameter(case[f"optim.{name}.init"].clone()) for name in ("p0", "p1", "p2")}
    optimiser = BertAdam(
        [{"params": [p["p0"], p["p2"]], "weight_decay": 0.01}, {"params": [p["p1"]], "weight_decay": 0.0}], 0.05
    )
    for step, expected_rate in enumerate(case["optim.lr_mult"].tolist()):
        rate = backbone_rate(step, 20, stage)
        assert rate == pytest.approx(expected_rate, abs=1e-6)
        set_rate(optimiser, 0.05 * rate)
        for name, parameter in p.items():
            parameter.grad = case[f"optim.{name}.grads"][step].clone()
        optimiser.step()
        for name, parameter in p.items():
            torch.testing.assert_close(parameter.data, case[f"optim.{name}.traj"][step], atol=1e-5, rtol=0)


def test_a_stacked_parameter_steps_as_its_parts_would() -> None:
    gradients = [torch.randn(4, 3) * scale for scale in (0.01, 5.0)]
    apart = [nn.Parameter(torch.ones(4, 3)) for _ in gradients]
    together = nn.Parameter(torch.ones(2, 4, 3))
    separate, stacked = BertAdam([{"params": apart}], 0.1), BertAdam([{"params": [together], "stack": 1}], 0.1)
    for _ in range(3):
        for parameter, gradient in zip(apart, gradients, strict=True):
            parameter.grad = gradient
        together.grad = torch.stack(gradients)
        separate.step()
        stacked.step()
    torch.testing.assert_close(together.data, torch.stack([p.data for p in apart]))


def test_stacked_scalars_are_clipped_one_by_one() -> None:
    apart, together = [nn.Parameter(torch.ones(())) for _ in range(2)], nn.Parameter(torch.ones(2))
    for parameter, gradient in zip(apart, (0.5, 9.0), strict=True):
        parameter.grad = torch.tensor(gradient)
    together.grad = torch.tensor([0.5, 9.0])
    BertAdam([{"params": apart}], 0.1).step()
    stacked = BertAdam([{"params": [together], "stack": 1}], 0.1)
    stacked.step()
    torch.testing.assert_close(together.data, torch.stack([p.data for p in apart]))
    torch.testing.assert_close(stacked.state[together]["mean"], torch.tensor([0.05, 0.1]))


def test_adamw_spares_norms_and_biases() -> None:
    model = nn.ModuleDict({"linear": nn.Linear(3, 3), "norm": nn.LayerNorm(3)})
    decayed, spared = trace_optimiser(model, TraceStage()).param_groups
    assert [p.shape for p in decayed["params"]] == [(3, 3)]
    assert (decayed["weight_decay"], spared["weight_decay"], len(spared["params"])) == (1e-4, 0.0, 3)


@pytest.mark.parametrize("kind", ["bert", "adamw"])
def test_optimiser_state_survives_a_checkpoint(kind: str) -> None:
    def fresh() -> tuple[nn.Module, torch.optim.Optimizer]:
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        if kind == "bert":
            return model, BertAdam([{"params": model.parameters()}], 0.1)
        return model, trace_optimiser(model, TraceStage(learning_rate=0.1))

    def step(model: nn.Module, optimiser: torch.optim.Optimizer) -> None:
        optimiser.zero_grad()
        model(torch.ones(4, 3)).square().sum().backward()
        optimiser.step()

    model, optimiser = fresh()
    step(model, optimiser)
    state = {name: tensor.clone() for name, tensor in optimiser_tensors(optimiser, model).items()}
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    step(model, optimiser)

    resumed, restored = fresh()
    resumed.load_state_dict(weights)
    restore_optimiser(restored, resumed, state)
    step(resumed, restored)
    for name, value in model.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name])
