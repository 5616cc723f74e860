"""The frozen backbone: nothing learned, moments with times, anchors for registers."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from prvr.backbones import FrozenTokens, build
from prvr.scoring import Gallery, score
from prvr.tokens import TrainBatch, VideoBatch, VideoTokens
from prvr.trace import Trace


def videos(width: int = 16) -> tuple[torch.Tensor, torch.Tensor]:
    frames = torch.randn(3, 60, width).cumsum(1)
    mask = torch.ones(3, 60, dtype=torch.bool)
    mask[1, 25:] = False
    return frames, mask


@pytest.mark.parametrize("local", ["moments", "frames", "windows"])
def test_tokens_know_their_times(local: str) -> None:
    frames, mask = videos()
    tokens = build("frozen", visual_width=16, query_width=16, local=local).encode_videos(frames, mask, frames[:, :0])
    assert isinstance(tokens, FrozenTokens)
    seconds = tokens.seconds(rate=2.0)
    assert seconds.shape == (*tokens.frames.shape[:2], 2)
    assert seconds[0].max() == 30.0
    assert seconds[1].max() == 12.5
    assert (tokens.frames[~tokens.frame_mask] == 0).all()
    assert tokens.registers is not None
    assert tokens.registers.shape == (3, 8, 16)  # hybrid: four over time, four regardless of it
    longer = tokens.padded(100)
    assert longer.spans is not None
    assert longer.spans.shape[1] == longer.frames.shape[1] == 100
    one: VideoTokens = tokens[1:2]
    assert isinstance(one, FrozenTokens)


def test_a_video_is_the_same_alone_or_in_company() -> None:
    frames, mask = videos()
    backbone = build("frozen", visual_width=16, query_width=16)
    together = backbone.encode_videos(frames, mask, frames[:, :0])
    alone = backbone.encode_videos(frames[1:2, :25], mask[1:2, :25], frames[:1, :0])
    count = int(alone.frame_mask.sum())
    torch.testing.assert_close(together.frames[1, :count], alone.frames[0])


def test_the_score_is_the_best_product_with_a_moment_of_its_own_length() -> None:
    frames, mask = videos()
    backbone = build("frozen", visual_width=16, query_width=16)
    tokens = backbone.encode_videos(frames, mask, frames[:, :0])
    queries = backbone.encode_queries(torch.randn(4, 1, 16), torch.ones(4, 1))
    expected = torch.einsum("qd,vmd->qvm", queries, tokens.frames).amax(-1)
    torch.testing.assert_close(backbone.base_score(queries, tokens), expected)
    batch = VideoBatch(frames, mask, frames[:, :0], ("a", "b", "c"))
    torch.testing.assert_close(score(queries, Gallery.build(backbone, None, [batch])), expected)
    assert score(queries, Gallery.build(backbone, Trace(16), [batch])).shape == (4, 3)


def test_frames_only_is_plain_max_pooling() -> None:
    frames, mask = videos()
    backbone = build("frozen", visual_width=16, query_width=16, local="frames", anchors="none")
    tokens = backbone.encode_videos(frames, mask, frames[:, :0])
    queries = F.normalize(torch.randn(2, 16), dim=-1)
    cosines = torch.einsum("qd,vmd->qvm", queries, F.normalize(frames, dim=-1)).masked_fill(~mask, 0)
    torch.testing.assert_close(backbone.base_score(queries, tokens), cosines.amax(-1))
    assert tokens.registers is None


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="one space"):
        build("frozen", visual_width=16, query_width=8)
    with pytest.raises(ValueError, match="propagation"):
        build("frozen", propagation=1.0)
    backbone = build("frozen", visual_width=4, query_width=4)
    with pytest.raises(ValueError, match="without a single frame"):
        backbone.encode_videos(torch.zeros(1, 3, 4), torch.zeros(1, 3), torch.zeros(1, 0, 4))
    with pytest.raises(TypeError, match="nothing to train"):
        backbone.encode_batch(TrainBatch(None, None, None))  # type: ignore[arg-type]
