"""CLIP4Clip gives the authors' numbers with each of its four heads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from prvr.backbones import CheckpointMismatch, build, from_official, load_official, to_official, total_loss
from prvr.backbones.blocks.clip import ClipBlock, ClipTransformer
from prvr.backbones.clip4clip import CLIP4Clip
from prvr.scoring import Gallery, NotSeparable, score
from prvr.tokens import QueryBatch, TrainBatch, VideoBatch, VideoTokens

LOOSE = ["meanP", "seqLSTM", "seqTransf"]
HEADS = [*LOOSE, "tightTransf"]


@pytest.fixture
def case(golden: Callable[[str], Any]) -> Any:
    return golden("clip4clip")


def load(case: Any, head: str) -> CLIP4Clip:
    model = from_official("clip4clip", case.weights, case.config | {"sim_header": head})
    assert isinstance(model, CLIP4Clip)
    return model


def encoded(model: CLIP4Clip, case: Any) -> tuple[Tensor, VideoTokens]:
    text = case["text_vec"]
    no_clips = torch.zeros(len(case["frames"]), 0, text.shape[-1])
    with torch.no_grad():
        queries = model.encode_queries(text, torch.ones(text.shape[:2]))
        return queries, model.encode_videos(case["frames"], case["video_mask"], no_clips)


def small(head: str, **more: Any) -> CLIP4Clip:
    sizes: dict[str, Any] = {"visual_width": 20, "query_width": 24, "width": 32, "heads": 4, "layers": 2, "frames": 12}
    model = build("clip4clip", head=head, **(sizes | more))
    assert isinstance(model, CLIP4Clip)
    return model


def small_batch(padding: int = 0) -> TrainBatch:
    mask = torch.arange(9)[None] < torch.tensor([9, 4, 7])[:, None]
    words = torch.arange(6)[None] < torch.tensor([6, 3, 5, 2])[:, None]
    labels = torch.cat([torch.tensor([0, 0, 1, 2]), torch.full((padding,), -1)])
    g = torch.Generator().manual_seed(3)
    tokens = torch.randn(4, 6, 24, generator=g) * words[..., None]
    return TrainBatch(
        VideoBatch(torch.randn(3, 9, 20, generator=g) * mask[..., None], mask, torch.zeros(3, 4, 20)),
        QueryBatch(F.pad(tokens, (0, 0, 0, 0, 0, padding)), F.pad(words, (0, 0, 0, padding))),
        labels,
    )


@pytest.mark.parametrize("head", LOOSE)
def test_frames_video_vectors_and_logits_are_the_authors(head: str, case: Any) -> None:
    model = load(case, head)
    queries, videos = encoded(model, case)
    real = case["video_mask"][..., None]
    worst = (F.normalize(videos.frames, dim=-1) - case[f"{head}_frames_normed"] * real).abs().max()
    assert worst < 1e-5
    case.check(f"{head}_video_vec", model.video_vectors(videos))
    case.check(f"{head}_logits", model.base_score(queries, videos))


def test_the_lstm_and_each_block_give_the_authors_states(case: Any) -> None:
    mask = case["video_mask"] > 0
    with torch.no_grad():
        case.check("seqLSTM_lstm_out", load(case, "seqLSTM").over_time(case["frames"], mask)[:, : mask.sum(1).max()])
        transformer = load(case, "seqTransf").temporal
        assert isinstance(transformer, ClipTransformer)
        x = case["frames"] + transformer.position.weight[: mask.shape[1]]
        for i, block in enumerate(transformer.blocks):
            assert isinstance(block, ClipBlock)
            x = block(x, mask)
            case.check(f"seqTransf_block{i}_out", x)


def test_the_tight_head_gives_the_authors_numbers_for_every_pair(case: Any) -> None:
    model = load(case, "tightTransf")
    queries, videos = encoded(model, case)
    assert model.tight is not None
    q, v = len(queries), len(videos)
    frames, mask = videos.frames.repeat(q, 1, 1), videos.frame_mask.repeat(q, 1)
    with torch.no_grad():
        first = model.tight.first_token(queries.repeat_interleave(v, 0), frames, mask)
        case.check("tightTransf_first_token", first.view(q, v, -1))
        case.check("tightTransf_pooled", model.tight.pooled(first).view(q, v, -1))
        case.check("tightTransf_logits", model.base_score(queries, videos))


@pytest.mark.parametrize("head", HEADS)
def test_the_loss_is_the_authors(head: str, case: Any) -> None:
    model, count = load(case, head), case.config["loss_batch"]
    batch = TrainBatch(
        VideoBatch(case["frames"][:count], case["video_mask"][:count] > 0, torch.zeros(count, 0, 64)),
        QueryBatch(case["text_vec"][:count], torch.ones(count, 1, dtype=torch.bool)),
        torch.arange(count),
    )
    terms = model.objective(model.encode_batch(batch), epoch=0)
    case.check(f"{head}_loss", total_loss(terms, model.loss_weights))


@pytest.mark.parametrize("head", LOOSE)
def test_a_gallery_scores_as_the_method_does(head: str, case: Any) -> None:
    model = load(case, head)
    queries, videos = encoded(model, case)
    gallery = Gallery.of_tokens(model, None, videos)
    torch.testing.assert_close(score(queries, gallery), case[f"{head}_logits"], atol=1e-4, rtol=0)


def test_only_the_tight_head_needs_every_pair(case: Any) -> None:
    assert all(load(case, head).separable for head in LOOSE)
    model = load(case, "tightTransf")
    _, videos = encoded(model, case)
    with pytest.raises(NotSeparable, match="clip4clip scores each query–video pair by itself"):
        Gallery.of_tokens(model, None, videos)
    with pytest.raises(TypeError, match="no token sets"):
        model.token_sets(videos)


@pytest.mark.parametrize("head", HEADS)
def test_official_keys_round_trip_and_other_heads_are_left_over(head: str, case: Any) -> None:
    model = load(case, head)
    written = to_official(model)
    assert all(torch.equal(case.weights[name], value) for name, value in written.items())
    fresh = CLIP4Clip(model.config)
    load_official(fresh, written)
    assert all(torch.equal(a, b) for a, b in zip(fresh.parameters(), model.parameters(), strict=True))


def test_a_wrong_checkpoint_says_what_differs(case: Any) -> None:
    model = load(case, "seqTransf")
    other = {k: v for k, v in case.weights.items() if k != "clip.logit_scale"} | {"extra.weight": torch.zeros(1)}
    with pytest.raises(CheckpointMismatch, match=r"missing \(clip.logit_scale\).*known \(extra.weight\)"):
        load_official(model, other)
    with pytest.raises(CheckpointMismatch, match=r"frame_position_embeddings.weight has shape"):
        load_official(model, case.weights | {"frame_position_embeddings.weight": torch.zeros(19, 64)})
    with pytest.raises(CheckpointMismatch, match="lacks 'hidden_size'"):
        from_official("clip4clip", case.weights, {k: v for k, v in case.config.items() if k != "hidden_size"})


@pytest.mark.parametrize("head", HEADS)
def test_scores_do_not_depend_on_padding(head: str) -> None:
    model, batch = small(head).eval(), small_batch()
    frames, mask = batch.videos.frames, batch.videos.frame_mask
    tokens, words = batch.queries.tokens, batch.queries.mask
    with torch.no_grad():
        plain = model.base_score(
            model.encode_queries(tokens, words), model.encode_videos(frames, mask, batch.videos.clips)
        )
        dirty = frames + 3 * torch.randn_like(frames) * ~mask[..., None]
        longer = F.pad(dirty, (0, 0, 0, 3), value=2.0), F.pad(mask, (0, 3))
        more_words = F.pad(tokens, (0, 0, 0, 4), value=1.0), F.pad(words, (0, 4))
        padded = model.base_score(
            model.encode_queries(*more_words), model.encode_videos(*longer, batch.videos.clips).padded(12)
        )
        alone = model.base_score(
            model.encode_queries(tokens[1:2, :3], words[1:2, :3]),
            model.encode_videos(frames[1:2, :4], mask[1:2, :4], batch.videos.clips[1:2]),
        )
    torch.testing.assert_close(plain, padded, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(plain[1:2, 1:2], alone, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("head", HEADS)
def test_padding_queries_leave_loss_and_gradients_alone(head: str) -> None:
    def gradients(padding: int) -> list[Tensor]:
        torch.manual_seed(1)
        model = small(head, dropout=0.0)
        loss = total_loss(model.objective(model.encode_batch(small_batch(padding)), epoch=0), model.loss_weights)
        loss.backward()
        return [loss.detach(), *(p.grad for p in model.parameters() if p.grad is not None)]

    plain, padded = gradients(0), gradients(3)
    model = small(head)
    reached = [name for name, _ in model.named_parameters() if not name.startswith(model.untrained)]
    assert len(plain) == 1 + len(reached)
    for a, b in zip(plain, padded, strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-4)


def test_the_logit_scale_stops_at_a_hundred() -> None:
    model = small("meanP", logit_scale=6.0)
    model.encode_batch(small_batch())
    assert float(model.logit_scale.detach().exp()) == pytest.approx(100)


def test_too_many_frames_or_other_widths_are_refused_with_the_fix() -> None:
    model = small("seqTransf", positions=12)
    with pytest.raises(ValueError, match="13 tokens, but positions were learned for 12"):
        model.encode_videos(torch.zeros(1, 13, 20), torch.ones(1, 13), torch.zeros(1, 4, 20))
    with pytest.raises(ValueError, match="features are 21 wide, but this model was made for 20"):
        model.encode_videos(torch.zeros(1, 9, 21), torch.ones(1, 9), torch.zeros(1, 4, 21))


def test_the_heads_have_the_authors_sizes() -> None:
    def count(head: str) -> float:
        model = build("clip4clip", head=head, towers="none", positions=77)
        return sum(p.numel() for p in model.parameters()) / 1e6

    # spec 4.2: 12.6 M, 2.1 M, 12.9 M, one parameter
    assert [round(count(head), 1) for head in ("seqTransf", "seqLSTM", "tightTransf")] == [12.6, 2.1, 12.9]
    assert count("meanP") == 1e-6
