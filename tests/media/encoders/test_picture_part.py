"""A model whose pictures are computed in another way, while others use the model as it is."""

from __future__ import annotations

from pathlib import Path

import torch

from prvr.media import open_encoder
from prvr.media.encoders.image_text import ImageTextEncoder
from prvr.media.encoders.picture_part import picture_parts, with_own_picture_part


def test_changing_the_picture_part_of_a_copy_leaves_the_model_as_it_is(pair_folder: Path) -> None:
    encoder = open_encoder(str(pair_folder), device="cpu")
    assert isinstance(encoder, ImageTextEncoder)
    model, other = encoder.model, with_own_picture_part(encoder.model)
    assert not {*model.modules()} & {*other.modules()}
    assert {weights.data_ptr() for weights in model.text_model.parameters()} == {
        weights.data_ptr() for weights in other.text_model.parameters()
    }  # which would take memory
    for part in picture_parts(other):
        part.to(torch.bfloat16)
    assert {weights.dtype for part in picture_parts(other) for weights in part.parameters()} == {torch.bfloat16}
    assert {weights.dtype for weights in model.parameters()} == {torch.float32}
