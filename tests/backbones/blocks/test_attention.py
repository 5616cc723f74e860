"""The stacked bank equals its blocks one by one; the folded cross-attention equals the plain one."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from prvr.backbones.blocks.attention import MASKED_LOGIT, AttentionBank, CrossAttention
from prvr.backbones.blocks.windows import gaussian_window


def heads(x: Tensor, count: int) -> Tensor:
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def one_block(bank: AttentionBank, k: int, x: Tensor, mask: Tensor, registers: Tensor, window: Tensor | None) -> Tensor:
    """A block written out on its own, as the specification does."""
    tokens = torch.cat([x, registers], 1)
    q, key, value = (heads(F.linear(tokens, bank.qkv_weight[k, i], bank.qkv_bias[k, i]), bank.heads) for i in range(3))
    length, extra = x.shape[1], registers.shape[1]
    logits = q[:, :, :length] @ key.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if window is not None:
        logits = logits * torch.cat([window, torch.ones(length, extra)], 1)
    allowed = torch.cat([mask, torch.ones(len(x), extra, dtype=torch.bool)], 1)
    logits = logits + MASKED_LOGIT * (~allowed).float()[:, None, None]
    attended = (logits.softmax(-1) @ value).transpose(1, 2).flatten(2)
    width, after = (x.shape[-1],), bank.feed_forward
    x1 = F.layer_norm(x + attended, width, after.norm1_weight[k], after.norm1_bias[k])
    inner = F.relu(F.linear(x1, after.ffn1_weight[k], after.ffn1_bias[k]))
    outer = F.linear(inner, after.ffn2_weight[k], after.ffn2_bias[k])
    return F.layer_norm(x1 + outer, width, after.norm2_weight[k], after.norm2_bias[k])


def test_a_bank_equals_its_blocks_one_by_one() -> None:
    widths = [None, 0.5, 2.0]
    bank = AttentionBank(16, 4, widths, length=10, dropout=0.3).eval()
    for parameter in bank.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    x, registers = torch.randn(2, 10, 16), torch.randn(2, 3, 16)
    mask = torch.arange(10) < torch.tensor([[10], [4]])
    together = bank(x, mask, registers)
    for k, width in enumerate(widths):
        window = None if width is None else gaussian_window(10, width)
        assert torch.allclose(together[k], one_block(bank, k, x, mask, registers, window), atol=1e-5)


def test_folded_cross_attention_equals_projecting_every_key() -> None:
    cross = CrossAttention(16, 4, dropout=0.3).eval()
    for parameter in cross.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    tokens, x = torch.randn(2, 3, 16), torch.randn(2, 7, 16)
    mask = torch.arange(7) < torch.tensor([[7], [2]])
    q, key, value = heads(cross.query(tokens), 4), heads(cross.key(x), 4), heads(cross.value(x), 4)
    logits = q @ key.transpose(-1, -2) / 2 + MASKED_LOGIT * (~mask).float()[:, None, None]
    attended = (logits.softmax(-1) @ value).transpose(1, 2).flatten(2)
    x1 = cross.norm1(tokens + attended)
    assert torch.allclose(cross(tokens, x, mask), cross.norm2(x1 + cross.ffn2(F.relu(cross.ffn1(x1)))), atol=1e-5)


def test_dropout_on_weights_scales_the_value_bias_too() -> None:
    """Folding must not change what dropout does: a dropped key takes its share of the bias with it."""
    cross = CrossAttention(4, 1, dropout=0.5).train()
    torch.nn.init.zeros_(cross.value.weight)
    torch.nn.init.ones_(cross.value.bias)
    torch.nn.init.zeros_(cross.key.weight)  # every key is attended evenly
    x = torch.randn(1, 2, 4)
    torch.manual_seed(0)
    seen = cross.attend(torch.zeros(1, 1, 4), x, None)
    torch.manual_seed(0)
    weights = F.dropout(torch.full((1, 1, 2), 0.5), 0.5, True)
    assert torch.allclose(seen, weights.sum(-1, keepdim=True).expand(1, 1, 4), atol=1e-6)


def test_a_mask_shorter_than_the_sequence_stands_for_padding_behind_it() -> None:
    torch.manual_seed(0)
    bank = AttentionBank(16, 2, [None, 0.5, 2.0], 12, 0.0)
    bank.initialise(0.3)
    x, registers = torch.randn(2, 12, 16), torch.randn(2, 3, 16)
    mask = torch.arange(12) < torch.tensor([[7], [4]])
    torch.testing.assert_close(bank(x, mask[:, :7], registers), bank(x, mask, registers))
