"""What CLIP4Clip and Cap4Video share: numbers of a head over CLIP-like vectors, and their names in the releases."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from prvr.backbones.base import BackboneConfig
from prvr.backbones.blocks.official import renamed


@dataclass(frozen=True)
class ClipFamilyConfig(BackboneConfig):
    """Defaults: the releases' heads at CLIP's width, over small towers for the standard features."""

    towers: Literal["features", "none"] = "features"
    """features: small trainable towers; none: words and frames are in one space already (CLIP features)"""
    width: int = 512
    """width D of the shared space"""
    heads: int = 8
    """attention heads"""
    layers: int = 4
    """blocks of the transformer over frames"""
    positions: int = 129
    """learned frame positions (tightTransf needs one more than frames)"""
    dropout: float = 0.1
    """dropout of the towers (and before tightTransf's blocks)"""
    logit_scale: float = math.log(1 / 0.07)
    """starting value of the log of the scale that scores are multiplied by in the loss"""
    norm_epsilon: float = 1e-12
    """epsilon of the norms in the transformer over frames"""
    masked_logit: float = -1e6
    """what is added to the attention logit of a padded frame"""
    init_std: float = 0.02
    """deviation of the initial weights"""


def family_settings(config: Mapping[str, Any], norm_epsilon: str) -> dict[str, Any]:
    """The fields of ``ClipFamilyConfig`` from the authors' names; one of them differs from release to release.

    Features are CLIP's there, heads are 64 wide by default, and there are as many positions as CLIP has words.
    """
    width = config["hidden_size"]
    names = {"cross_num_hidden_layers": "layers", norm_epsilon: "norm_epsilon", "attn_mask_value": "masked_logit"}
    return {
        "visual_width": width,
        "query_width": width,
        "width": width,
        "towers": "none",
        "heads": config.get("n_heads", max(1, width // 64)),
        "positions": config.get("max_position_embeddings", _CLIP_POSITIONS),
    } | renamed(config, names)


_CLIP_POSITIONS = 77
