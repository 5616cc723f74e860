"""Authors' checkpoints of other sizes and with other settings load too, whatever their configuration leaves out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from prvr.backbones import Backbone, CheckpointMismatch, from_official, method, methods, to_official
from prvr.tokens import VideoBatch

TRUNK = {"hidden_size": 24, "n_heads": 3, "visual_input_size": 10, "query_input_size": 14}
OLD_NAMES = {"visual_feat_dim": 10, "q_feat_size": 14}  # what some releases call those two
SHORT = {"max_ctx_l": 20, "max_desc_l": 7, "map_size": 6}
CLIP = {"hidden_size": 32, "n_heads": 2, "cross_num_hidden_layers": 3, "max_position_embeddings": 25}
LEARNING = [name for name, cls in methods().items() if cls.trainable]
VARIATIONS: dict[str, tuple[str, dict[str, Any]]] = {  # name -> method, what differs from its golden configuration
    "mssl": ("mssl", TRUNK | SHORT),
    "gmmformer": ("gmmformer", TRUNK | SHORT | {"gaussian_widths": [None, 2.0]}),
    "gmmformer_v2": ("gmmformer_v2", TRUNK | SHORT | {"gaussian_widths": [None, 0.5, 3.0], "sft_factor": 0.2}),
    "hlformer": ("hlformer", TRUNK | OLD_NAMES | SHORT | {"attention_num": 4, "lorentz_dim": 11, "learn_curv": False}),
    "holmes": ("holmes", TRUNK | OLD_NAMES | SHORT | {"attention_num": 5}),
    "dreamprvr": (
        "dreamprvr",
        TRUNK | OLD_NAMES | SHORT | {"attention_num": 3, "num_registers": 7, "timesteps": 4, "num_diffusion_layers": 1},
    ),
    "msc_prvr": ("msc_prvr", TRUNK | {"max_ctx_l": 20, "max_desc_l": 7, "clips": 6, "gaussian_widths": [None, 2.0]}),
    "ral": ("ral", TRUNK | SHORT | {"gaussian_widths": [None, 0.5]}),
    "uem": ("uem", TRUNK | SHORT | {"threshold": 0.5}),
    "xml": ("xml", TRUNK | {"max_ctx_l": 20, "max_desc_l": 7, "conv_kernel_size": 3}),
    "conquer": (
        "conquer",
        {"hidden_dim": 24, "n_heads": 3, "num_hidden_layers": 2, "intermediate_size": 40, "max_ctx_len": 20}
        | {"visual_dim": 10, "query_dim": 14, "max_desc_len": 7, "head_hidden": 5},
    ),
    "cap4video": ("cap4video", CLIP | {"num_captions": 4, "fusion_video": 0.6, "fusion_caption": 0.4}),
} | {
    f"clip4clip-{head}": ("clip4clip", CLIP | {"sim_header": head})
    for head in ("meanP", "seqLSTM", "seqTransf", "tightTransf")
}
NEEDED = {  # without these a configuration says nothing; the rest has defaults
    "hidden_size", "hidden_dim", "visual_input_size", "query_input_size", "visual_feat_dim", "q_feat_size",
    "visual_dim", "query_dim",
}  # fmt: skip


def random_checkpoint(name: str, config: dict[str, Any]) -> tuple[Backbone, dict[str, Tensor]]:
    """A model of these sizes and its weights under the authors' keys."""
    cls = method(name)
    model = cls(cls.config_from_official(config)).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return model, to_official(model)


def scores(model: Backbone) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    c = model.config
    frames, words = min(18, c.frames), min(6, c.words)
    videos = VideoBatch(
        torch.randn(3, frames, c.visual_width, generator=generator),
        torch.arange(frames) < torch.tensor([[frames], [4], [1]]),
        torch.randn(3, c.clips, c.visual_width, generator=generator),
        captions=torch.randn(3, 2, 5, c.query_width, generator=generator),
        caption_mask=torch.ones(3, 2, 5, dtype=torch.bool),
    )
    tokens = torch.randn(4, words, c.query_width, generator=generator)
    with torch.no_grad():
        queries = model.encode_queries(tokens, torch.arange(words) < torch.tensor([[words], [2], [1], [3]]))
        return model.base_score(queries, model.encode_video_batch(videos))


def test_no_method_is_left_out() -> None:
    assert {name for name, _ in VARIATIONS.values()} == set(LEARNING)


@pytest.mark.parametrize("variation", VARIATIONS)
def test_a_checkpoint_of_other_sizes_gives_the_scores_of_the_model_it_came_from(
    variation: str, golden: Callable[[str], Any]
) -> None:
    name, changed = VARIATIONS[variation]
    config = golden(name).config | changed
    model, weights = random_checkpoint(name, config)
    wrapped = {f"module.{key}": tensor for key, tensor in weights.items()}
    wrapped["module.embeddings.position_ids"] = torch.arange(20)[None]  # a buffer that older libraries save
    constants = {f"module.encoder.{key}": torch.tensor(value) for key, value in model.official_constants.items()}
    found = from_official(name, wrapped | constants, config)
    expected = scores(model)
    assert bool(expected.isfinite().all())
    torch.testing.assert_close(scores(found), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", LEARNING)
def test_what_a_configuration_leaves_out_keeps_the_authors_default(name: str) -> None:
    cls = method(name)
    sparse = {key: 64 if key.startswith("hidden") else 16 for key in NEEDED}
    default, settings = cls.config_type(), cls.config_from_official(sparse)
    assert settings.words == default.words
    for field in ("margin", "blocks", "registers", "clip_weight", "layers", "norm_epsilon"):
        assert getattr(settings, field, None) == getattr(default, field, None), field
    from_official(name, random_checkpoint(name, sparse)[1], sparse)


def test_a_configuration_that_cannot_be_built_is_one_sentence() -> None:
    with pytest.raises(CheckpointMismatch, match=r"no xml model can be built .* width 10 is not divisible by 4 heads"):
        from_official("xml", {}, {"hidden_size": 10, "n_heads": 4})


@pytest.mark.parametrize("head", ["meanP", "seqLSTM", "seqTransf", "tightTransf"])
def test_a_head_that_is_not_named_is_the_one_whose_weights_are_there(head: str) -> None:
    _, weights = random_checkpoint("clip4clip", CLIP | {"sim_header": head})
    assert getattr(from_official("clip4clip", weights, CLIP).config, "head", None) == head


@pytest.mark.parametrize(
    ("name", "part", "field"),
    [
        ("cap4video", ("co_connetion", "sentence_position", "caption_transformer"), "captions"),
        ("xml", ("video_encoder2", "video_encoder3", "video_query_linear", "video_st_", "video_ed_"), "moment_head"),
        ("conquer", ("moment_localization_head",), "moment_head"),
    ],
)
def test_parts_that_a_checkpoint_does_not_hold_are_left_out(
    name: str, part: tuple[str, ...], field: str, golden: Callable[[str], Any]
) -> None:
    case = golden(name)
    kept = {key: tensor for key, tensor in case.weights.items() if not key.startswith(part)}
    assert len(kept) < len(case.weights)
    model = from_official(name, kept, case.config)
    assert getattr(model.config, field) is False
    assert getattr(from_official(name, case.weights, case.config).config, field) is True
