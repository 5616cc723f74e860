"""The transformer of CLIP's towers: pre-norm blocks with QuickGELU, as CLIP4Clip and Cap4Video put over frames."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from prvr.backbones.blocks.official import OfficialKey, affine, under

MASKED_LOGIT = -1_000_000.0  # the authors' value
LARGEST_LOGIT_SCALE = math.log(100)
NORM_EPSILON = 1e-12  # CLIP4Clip's LayerNorm; everything else in this field has 1e-5


def multi_head(
    query: Tensor, key: Tensor, value: Tensor, heads: int, key_mask: Tensor | None, masked_logit: float = MASKED_LOGIT
) -> Tensor:
    """Scaled dot-product attention: (B, N, D), (B, L, D), (B, L, D) → (B, N, D). A masked key's logit is lowered, not
    set to −∞, so that a sequence without any real key still gives numbers."""
    batch, _, width = query.shape
    q, k, v = (t.view(batch, -1, heads, width // heads).transpose(1, 2) for t in (query, key, value))  # (B, H, ·, D/H)
    penalty = None if key_mask is None else (masked_logit * (~key_mask).to(query.dtype))[:, None, None, :]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=penalty).transpose(1, 2).flatten(2)


def quick_gelu(x: Tensor) -> Tensor:
    """``x · sigmoid(1.702 x)``."""
    return x * torch.sigmoid(1.702 * x)


@torch.no_grad()
def bound_logit_scale(log_scale: Tensor) -> None:
    """Keep a learned scale of cosines at 100 or below. The authors do so after every step; to do it where the next one
    begins is the same, since nothing reads the value in between."""
    log_scale.clamp_(max=LARGEST_LOGIT_SCALE)


def mean_direction(frames: Tensor, mask: Tensor) -> Tensor:
    """The mean of the real frames' directions, at unit length: (V, M, D), (V, M) → (V, D).

    >>> mean_direction(torch.tensor([[[3.0, 0.0], [0.0, 0.5], [9.0, 9.0]]]), torch.tensor([[True, True, False]]))
    tensor([[0.7071, 0.7071]])
    """
    unit = F.normalize(frames, dim=-1).masked_fill(~mask[..., None], 0.0)
    return F.normalize(unit.sum(1) / mask.sum(1, keepdim=True).clamp(min=1), dim=-1)


class ClipBlock(nn.Module):
    """``x + heads(LN(x))``, then ``x + W₂ QuickGELU(W₁ LN(x))``, four times as wide inside. (B, L, D) → (B, L, D)."""

    def __init__(self, width: int, heads: int, norm_epsilon: float = NORM_EPSILON, masked_logit: float = MASKED_LOGIT):
        super().__init__()
        if width % heads:
            raise ValueError(f"width {width} is not divisible by {heads} heads")
        self.heads, self.masked_logit = heads, masked_logit
        self.norm1 = nn.LayerNorm(width, norm_epsilon)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width, norm_epsilon)
        self.inner = nn.Linear(width, 4 * width)
        self.outer = nn.Linear(4 * width, width)

    def forward(self, x: Tensor, key_mask: Tensor | None = None) -> Tensor:
        query, key, value = self.qkv(self.norm1(x)).chunk(3, dim=-1)
        x = x + self.out(multi_head(query, key, value, self.heads, key_mask, self.masked_logit))
        return x + self.outer(quick_gelu(self.inner(self.norm2(x))))

    def official_keys(self, prefix: str) -> dict[str, OfficialKey]:
        keys: dict[str, OfficialKey] = {f"qkv.{part}": f"{prefix}.attn.in_proj_{part}" for part in ("weight", "bias")}
        keys |= affine("out", f"{prefix}.attn.out_proj")
        keys |= affine("norm1", f"{prefix}.ln_1") | affine("norm2", f"{prefix}.ln_2")
        return keys | affine("inner", f"{prefix}.mlp.c_fc") | affine("outer", f"{prefix}.mlp.c_proj")


class ClipTransformer(nn.Module):
    """Learned positions, then a stack of blocks: (B, L, D) → (B, L, D)."""

    def __init__(
        self,
        width: int,
        heads: int,
        layers: int,
        positions: int,
        dropout: float = 0.0,
        norm_epsilon: float = NORM_EPSILON,
        masked_logit: float = MASKED_LOGIT,
    ):
        super().__init__()
        self.position = nn.Embedding(positions, width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(ClipBlock(width, heads, norm_epsilon, masked_logit) for _ in range(layers))

    def forward(self, x: Tensor, key_mask: Tensor | None = None) -> Tensor:
        length, known = x.shape[1], self.position.num_embeddings
        if length > known:
            raise ValueError(f"{length} tokens, but positions were learned for {known}: shorten or resample the input")
        x = self.dropout(x + self.position.weight[:length])
        for block in self.blocks:
            x = block(x, key_mask)
        return x

    def official_keys(self, positions: str, blocks: str) -> dict[str, OfficialKey]:
        keys: dict[str, OfficialKey] = {"position.weight": f"{positions}.weight"}
        for i, block in enumerate(self.blocks):
            assert isinstance(block, ClipBlock)
            keys |= under(f"blocks.{i}", block.official_keys(f"{blocks}.{i}"))
        return keys
