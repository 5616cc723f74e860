"""Cap4Video gives the authors' numbers, with each interaction and each way to pool captions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from prvr.backbones import CheckpointMismatch, build, from_official, load_official, to_official, total_loss
from prvr.backbones.blocks.interaction import softmax_weights
from prvr.backbones.blocks.packed_words import unpack_query
from prvr.backbones.cap4video import Cap4Video, CaptionedTokens
from prvr.scoring import Gallery, NotSeparable
from prvr.tokens import QueryBatch, TrainBatch, VideoBatch


@pytest.fixture
def case(golden: Callable[[str], Any]) -> Any:
    return golden("cap4video")


def load(case: Any, **more: Any) -> Cap4Video:
    model = from_official("cap4video", case.weights, case.config | more)
    assert isinstance(model, Cap4Video)
    return model


def videos_of(case: Any, count: int = 5) -> VideoBatch:
    return VideoBatch(
        case["frames"][:count],
        case["video_mask"][:count] > 0,
        torch.zeros(count, 0, 64),
        captions=case["caption_tokens"][:count],
        caption_mask=case["caption_mask"][:count] > 0,
    )


def encoded(model: Cap4Video, case: Any) -> tuple[Tensor, CaptionedTokens]:
    with torch.no_grad():
        queries = model.encode_queries(case["query_tokens"], case["query_mask"])
        return queries, model.encode_video_batch(videos_of(case))


def small(**more: Any) -> Cap4Video:
    sizes: dict[str, Any] = {
        "visual_width": 20, "query_width": 24, "width": 32, "heads": 4, "layers": 1, "frames": 12, "dropout": 0.0,
    }  # fmt: skip
    model = build("cap4video", **(sizes | more))
    assert isinstance(model, Cap4Video)
    return model


def small_batch(padding: int = 0, captions: bool = True) -> TrainBatch:
    g = torch.Generator().manual_seed(3)
    mask = torch.arange(9)[None] < torch.tensor([9, 4, 7])[:, None]
    words = torch.arange(6)[None] < torch.tensor([6, 3, 5, 2])[:, None]
    heard = torch.arange(5)[None, None] < torch.tensor([[5, 2], [3, 0], [0, 0]])[..., None]  # 2, 1 and no captions
    tokens = torch.randn(4, 6, 24, generator=g) * words[..., None]
    videos = VideoBatch(torch.randn(3, 9, 20, generator=g) * mask[..., None], mask, torch.zeros(3, 4, 20))
    if captions:
        spoken = torch.randn(3, 2, 5, 24, generator=g) * heard[..., None]
        videos = replace(videos, captions=spoken, caption_mask=heard)
    return TrainBatch(
        videos,
        QueryBatch(F.pad(tokens, (0, 0, 0, 0, 0, padding)), F.pad(words, (0, 0, 0, padding))),
        torch.cat([torch.tensor([0, 0, 1, 2]), torch.full((padding,), -1)]),
    )


def test_sentences_co_attention_and_frames_are_the_authors(case: Any) -> None:
    model = load(case)
    queries, videos = encoded(model, case)
    case.check("query_vec", unpack_query(queries).vector)
    case.check("caption_vec", model.read_captions(case["caption_tokens"], case["caption_mask"] > 0)[0].vector)
    every = torch.ones(5, 3, dtype=torch.bool)
    assert model.reader is not None
    with torch.no_grad():
        case.check("coatt_video_context", model.reader.context(case["frames"], case["caption_vec"], every))
        case.check("video_after_coatt", model.reader(case["frames"], case["caption_vec"], every))
    real = case["video_mask"][..., None]
    assert float((videos.frames - case["video_after_temporal"] * real).abs().max()) < 1e-5


def test_weights_and_every_interaction_are_the_authors(case: Any) -> None:
    model = load(case)
    queries, videos = encoded(model, case)
    query = unpack_query(queries)
    with torch.no_grad():
        case.check("wti_text_weight", softmax_weights(model.word_weight(query.words), query.mask))
        case.check("wti_video_weight", softmax_weights(model.frame_weight(videos.frames), videos.frame_mask))
        for interaction in ("wti", "ti", "dp"):
            other = load(case, interaction=interaction)
            case.check(f"video_scores_{interaction}", other.video_scores(query, videos))


def test_captions_as_one_vector_and_their_scores_are_the_authors(case: Any) -> None:
    model = load(case)
    queries, videos = encoded(model, case)
    vectors, every = case["caption_vec"], torch.ones(5, 3, dtype=torch.bool)
    assert model.caption_pool is not None
    assert videos.captions is not None
    with torch.no_grad():
        case.check("caption_encoded", model.caption_pool.states(vectors, every))
        case.check("caption_pooled", videos.captions)
        for pooling, name in (("transformer", ""), ("mean", "_avg"), ("first", "_top1")):
            pooled = model.caption_pool(vectors, every, pooling)  # type: ignore[arg-type]
            scores = model.caption_scores(unpack_query(queries).vector, replace(videos, captions=pooled))
            case.check(f"caption_scores{name}", scores)


def test_fused_scores_are_the_authors(case: Any) -> None:
    model = load(case)
    case.check("fused_scores", model.base_score(*encoded(model, case)))


@pytest.mark.parametrize("interaction", ["wti", "ti", "dp"])
def test_losses_are_the_authors(interaction: str, case: Any) -> None:
    model, count = load(case, interaction=interaction), case.config["loss_batch"]
    model = Cap4Video(replace(model.config, caption_pairs=False, words=6, frames=8))  # padded as far as the fixture is
    load_official(model, case.weights)
    words = QueryBatch(case["query_tokens"], case["query_mask"] > 0)
    batch = TrainBatch(videos_of(case, count), words, torch.arange(count))
    terms = model.objective(model.encode_batch(batch), epoch=0)
    case.check(f"video_loss_{interaction}", model.loss_weights["video"] * terms["video"])
    case.check("caption_loss", model.loss_weights["caption"] * terms["caption"])


def test_official_keys_round_trip_without_the_half_that_reaches_no_score(case: Any) -> None:
    model = load(case)
    written = to_official(model)
    assert all(torch.equal(case.weights[name], value) for name, value in written.items())
    left_over = case.weights.keys() - written.keys()
    assert all(name.startswith("co_connetion_transformer_model_block.0.") for name in left_over)
    fresh = Cap4Video(model.config)
    load_official(fresh, written)
    assert all(torch.equal(a, b) for a, b in zip(fresh.parameters(), model.parameters(), strict=True))


def test_a_wrong_checkpoint_says_what_differs(case: Any) -> None:
    model = load(case)
    other = {k: v for k, v in case.weights.items() if k != "text_weight_fc.0.bias"} | {"extra.weight": torch.zeros(1)}
    with pytest.raises(CheckpointMismatch, match=r"missing \(text_weight_fc.0.bias\).*known \(extra.weight\)"):
        load_official(model, other)
    with pytest.raises(CheckpointMismatch, match=r"sentence_position_embeddings.weight has shape \(29, 64\)"):
        load_official(model, case.weights | {"sentence_position_embeddings.weight": torch.zeros(29, 64)})
    with pytest.raises(CheckpointMismatch, match="lacks 'hidden_size'"):
        from_official("cap4video", case.weights, {k: v for k, v in case.config.items() if k != "hidden_size"})


@pytest.mark.parametrize("captions", [True, False])
def test_scores_do_not_depend_on_padding(captions: bool) -> None:
    model, batch = small(captions=captions).eval(), small_batch(captions=captions)
    videos, queries = batch.videos, batch.queries
    noise = 3 * torch.randn_like(videos.frames) * ~videos.frame_mask[..., None]
    longer = replace(
        videos,
        frames=F.pad(videos.frames + noise, (0, 0, 0, 3), value=2.0),
        frame_mask=F.pad(videos.frame_mask, (0, 3)),
    )
    if videos.captions is not None and videos.caption_mask is not None:
        more_slots = F.pad(videos.captions, (0, 0, 0, 2, 0, 3), value=1.0)
        longer = replace(longer, captions=more_slots, caption_mask=F.pad(videos.caption_mask, (0, 2, 0, 3)))
    with torch.no_grad():
        plain = model.base_score(model.encode_queries(queries.tokens, queries.mask), model.encode_video_batch(videos))
        words = F.pad(queries.tokens, (0, 0, 0, 4), value=1.0), F.pad(queries.mask, (0, 4))
        padded = model.base_score(model.encode_queries(*words), model.encode_video_batch(longer).padded(12))
    torch.testing.assert_close(plain, padded, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("captions", [True, False])
def test_padding_queries_leave_loss_and_gradients_alone(captions: bool) -> None:
    def gradients(padding: int) -> dict[str, Tensor]:
        torch.manual_seed(1)
        model = small(captions=captions, caption_pairs=False)
        batch = small_batch(padding, captions)
        total_loss(model.objective(model.encode_batch(batch), epoch=0), model.loss_weights).backward()
        return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}

    plain, padded = gradients(0), gradients(3)
    assert plain.keys() == dict(small(captions=captions).named_parameters()).keys()
    for name, gradient in plain.items():
        assert gradient.isfinite().all(), name
        torch.testing.assert_close(gradient, padded[name], atol=1e-6, rtol=1e-4)


def test_a_caption_of_each_video_joins_its_queries() -> None:
    model, batch = small(captions=True), small_batch(padding=1)
    encoded = model.encode_batch(batch)
    assert encoded.labels.tolist() == [0, 0, 1, 2, -1, 0, 1, -1]  # the third video has no caption
    assert encoded.queries.shape == (8, 31, 33)
    caption = unpack_query(encoded.queries).vector[6]  # the second video has only one to draw
    assert batch.videos.captions is not None
    assert batch.videos.caption_mask is not None
    alone = model.encode_queries(batch.videos.captions[1, :1], batch.videos.caption_mask[1, :1])
    torch.testing.assert_close(caption, unpack_query(alone).vector[0])


def test_the_caption_branch_does_not_move_the_text_tower() -> None:
    model = small(captions=True, caption_pairs=False)
    model.objective(model.encode_batch(small_batch()), epoch=0)["caption"].backward()
    assert all(p.grad is None or not p.grad.any() for p in model.towers.text.parameters())
    assert model.caption_pool is not None
    assert all(p.grad is not None for p in model.caption_pool.parameters())


def test_missing_captions_are_said() -> None:
    assert small(captions=True).notice == ""
    model, batch = small(), small_batch(captions=False)
    assert model.notice.startswith("Cap4Video without captions")
    assert model.encode_video_batch(batch.videos).captions is None
    with pytest.raises(ValueError, match="reads auxiliary captions and was given none"):
        small(captions=True).encode_video_batch(batch.videos)


def test_no_gallery_can_be_prepared() -> None:
    model = small()
    with pytest.raises(NotSeparable, match="cap4video scores each query–video pair by itself"):
        Gallery.build(model, None, [small_batch().videos])
