"""Token-wise interaction: every word meets every frame."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

_PAIR_ELEMENTS = 1 << 28  # words × frames that are held at once: 1 GiB in float32
_NO_MATCH = -2.0  # below any cosine


def softmax_weights(energy: Tensor, mask: Tensor) -> Tensor:
    """Softmax over real tokens, (B, N, 1), (B, N) → (B, N)."""
    energy = energy.squeeze(-1).float()
    return energy.masked_fill(~mask, torch.finfo(energy.dtype).min).softmax(-1)


def uniform_weights(mask: Tensor) -> Tensor:
    """The same weight for every real token, (B, N) → (B, N)."""
    return mask / mask.sum(1, keepdim=True).clamp(min=1)


def token_interaction(
    words: Tensor,
    word_mask: Tensor,
    word_weight: Tensor,
    frames: Tensor,
    frame_mask: Tensor,
    frame_weight: Tensor,
    *,
    masked_max: bool = True,
) -> Tensor:
    """Each word's best frame and each frame's best word, weighted: (Q, L, …), (V, M, …) → (Q, V).

    ``½ (Σ_n α_n max_l cos_nl + Σ_l β_l max_n cos_nl)``. With ``masked_max=False`` padded tokens take part in the maxima
    with cosine 0, so that a score depends on whether the batch made a video or query carry padding.

    >>> words, frames = torch.eye(2)[None], torch.tensor([[[1.0, 0.0], [1.0, 0.0]]])
    >>> real, half = torch.ones(1, 2, dtype=torch.bool), torch.full((1, 2), 0.5)
    >>> token_interaction(words, real, half, frames, real, half)  # words find 1 and 0, frames 1 and 1
    tensor([[0.7500]])
    """
    cosine = torch.einsum("qld,vmd->qvlm", F.normalize(words, dim=-1), F.normalize(frames, dim=-1))
    real = word_mask[:, None, :, None] & frame_mask[None, :, None, :]
    cosine = cosine.masked_fill(~real, _NO_MATCH if masked_max else 0.0)
    by_word = torch.einsum("qvl,ql->qv", cosine.amax(3), word_weight.to(cosine.dtype))
    by_frame = torch.einsum("qvm,vm->qv", cosine.amax(2), frame_weight.to(cosine.dtype))
    return (by_word + by_frame) / 2


def best_frames(words: Tensor, weight: Tensor, frames: Tensor) -> Tensor:
    """Each word's best frame, weighted, (Q, L, D), (Q, L), (V, M, D) → (Q, V): ``Σ_l w_l max_m x_l·f_m``.

    Zero frames take part with 0. Videos are taken in parts, and of each maximum only its place is kept for gradients.

    >>> best_frames(torch.eye(2)[None], torch.tensor([[0.75, 0.25]]), torch.tensor([[[1.0, -1.0], [0.0, 0.0]]]))
    tensor([[0.7500]])
    """
    together = max(1, _PAIR_ELEMENTS // max(1, words.shape[0] * words.shape[1] * frames.shape[1]))
    parts = [
        torch.einsum("qld,vmd->qvlm", words, part).max(3).values for part in torch.split(frames, together)
    ]  # (Q, v, L) each
    return torch.einsum("qvl,ql->qv", torch.cat(parts, 1), weight.to(words.dtype))
