"""Scales of activations that are found before a model runs in int8."""

from __future__ import annotations

import torch
from torch import nn

from prvr.media.encoders.static_int8 import RoundedLinear, round_inputs


def test_a_large_channel_does_not_spoil_the_others() -> None:
    torch.manual_seed(0)
    layer, size = nn.Linear(32, 16), torch.ones(32)
    size[3] = 100.0
    seen = torch.randn(200, 32) * size
    seen[:, 3] = seen[:, 3].abs() + 100  # which is large in every row
    layer.weight.data[:, 3] /= 100  # as trained networks do, so that the large channel counts no more than others
    largest = seen.abs().amax(0)
    scale = float(2 * largest.max()) / 127
    with torch.no_grad():
        expected = layer(seen)
        smoothed = (RoundedLinear(layer, largest)(seen) - expected).std() / expected.std()
        one_scale = layer(torch.fake_quantize_per_tensor_affine(seen, scale, 0, -127, 127))
    assert smoothed < 0.2
    assert smoothed < (one_scale - expected).std() / expected.std() / 4


def test_numbers_beyond_twice_what_was_seen_are_cut_off() -> None:
    layer = nn.Linear(1, 1, bias=False)
    layer.weight.data.fill_(1.0)
    rounded = RoundedLinear(layer, torch.tensor([3.0]))
    found = rounded(torch.tensor([[1.0], [5.9], [100.0]])).flatten()
    torch.testing.assert_close(found, torch.tensor([1.0, 5.9, 6.0]), atol=0.03, rtol=0)


def test_channels_that_never_say_anything_stay_silent() -> None:
    layer = nn.Linear(3, 2)
    for largest in (torch.zeros(3), torch.tensor([0.0, 1.0, 2.0])):
        assert torch.isfinite(RoundedLinear(layer, largest)(torch.zeros(4, 3))).all()


def test_only_layers_that_pictures_pass_are_replaced() -> None:
    torch.manual_seed(0)
    tower = nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.GELU(), nn.Linear(8, 4))
    model = nn.ModuleDict({"pictures": tower, "text": nn.Linear(4, 4)})
    pixels = torch.randn(40, 3, 2, 2)
    before = tower(pixels)
    round_inputs(model, tower, pixels)
    rounded = tower(pixels)
    assert not torch.equal(rounded, before)
    torch.testing.assert_close(rounded, before, atol=0.1, rtol=0)
    assert isinstance(tower[1], RoundedLinear)
    assert isinstance(model["text"], nn.Linear)
    assert not any(layer._forward_pre_hooks for layer in model.modules())  # nothing watches any more
