"""Wavelet details against numbers of an independent implementation."""

import torch

from prvr.backbones.blocks.wavelets import details, levels


def test_details_of_a_chirp() -> None:
    """Expected: every sixth value of the details that PyWavelets 1.8 reconstructs ('db4', mode 'symmetric')."""
    signal = torch.cos(torch.arange(30, dtype=torch.float64) ** 1.5 / 7)
    fine, coarse = details(signal)
    expected = [
        [0.00627794, -0.01959592, 0.01949297, 0.1397454, 0.17412612],
        [-0.0817088, 0.17911054, 0.84667311, -0.17466199, -0.77136936],
    ]
    torch.testing.assert_close(torch.stack([fine, coarse])[:, ::6], torch.tensor(expected).double(), atol=1e-7, rtol=0)


def test_constants_and_slopes_have_no_detail_inside() -> None:
    signal = 3 + 0.5 * torch.arange(200, dtype=torch.float64)
    assert all(part[60:140].abs().max() < 1e-6 for part in details(signal)[:2])
    assert len(details(signal)) == levels(200) == 4


def test_a_short_signal_has_none() -> None:
    assert details(torch.zeros(13)) == []
