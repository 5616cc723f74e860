"""The fused kernel. Imported only where Triton is.

A program takes a block of queries and walks over a run of videos. For each page three products share one pass over the
width: with the local tokens, with the frame keys, and with a side tile of 64 rows (short set, registers, attended
values). Nothing larger than a tile of scores exists, and it never leaves the registers of the chip:

- maxima of the first product and of the side tile's first half give the base score;
- ``A = exp((a − a_max)/τ)`` comes from the side tile's third quarter; ``A·B`` with the stored ``B = exp(b/τ)`` is the
  log-sum-exp over registers, and one logarithm per frame puts it on the direct evidence, before the maximum;
- ``A`` with the Gram matrix gives the length of the attended frame, the side tile's last quarter its direction.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator,operator,attr-defined"

from __future__ import annotations

import itertools
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from prvr.scoring.engines.common import Queries, Scores
from prvr.scoring.gallery import Gallery
from prvr.scoring.packed import MOST_REGISTERS, Packed
from prvr.scoring.storage import Vectors


def _configs() -> list[triton.Config]:
    shapes = [(64, 64, 4, 2), (128, 64, 8, 3), (64, 64, 4, 3), (64, 32, 4, 3)]  # queries, width step, warps, stages
    return [
        triton.Config(
            {"BQ": queries, "BD": width, "VIDEOS": videos, "STAGES": stages},
            num_warps=warps,
            num_stages=stages,
            pre_hook=_shape_descriptors,
        )
        for (queries, width, warps, stages), videos in itertools.product(shapes, (4, 8, 16))
    ]


def _shape_descriptors(args: dict[str, Any]) -> None:
    """The tiles that the descriptors load are the configuration's."""
    args["q_desc"].block_shape = [args["BQ"], args["BD"]]
    for name in ("local_desc", "key_desc"):
        args[name].block_shape = [args["PAGE"], args["BD"]]
    args["side_desc"].block_shape = [args["SIDE"], args["BD"]]


@triton.jit
def _log2(x):
    # one instruction; tl.log2 spends three more on denormals, which mean "no path" here, just like zero
    return tl.inline_asm_elementwise("lg2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)


_TUNED_FOR = ["query_bucket", "D", "PAGE", "TRACE", "HAS_SIDE", "QUANTISED", "PLAIN", "BITS"]


@triton.autotune(configs=_configs(), key=_TUNED_FOR, cache_results=True)
@triton.jit(do_not_specialize=["queries", "first_video", "last_video", "query_bucket"])
def _kernel(
    q_desc, local_desc, key_desc, side_desc,
    scale_ptr, q_scale_ptr, local_scale_ptr, key_scale_ptr, side_scale_ptr,
    grounding_ptr, gram_ptr, ceiling_ptr, first_page_ptr, base_ptr, trace_ptr,
    queries, first_video, last_video, query_bucket, weight_local, weight_fixed, gamma, tau, eta,
    D: tl.constexpr, PAGE: tl.constexpr, SIDE: tl.constexpr, REGISTERS: tl.constexpr,
    TRACE: tl.constexpr, HAS_SIDE: tl.constexpr, QUANTISED: tl.constexpr, GATE: tl.constexpr, PLAIN: tl.constexpr,
    BITS: tl.constexpr,
    BQ: tl.constexpr, BD: tl.constexpr, VIDEOS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    R: tl.constexpr = SIDE // 4
    TOTAL: tl.constexpr = tl.int32 if QUANTISED else tl.float32
    block = tl.program_id(0)
    rows = block * BQ + tl.arange(0, BQ)
    real = rows < queries
    slots = tl.arange(0, PAGE)
    registers = tl.arange(0, R)
    scale = tl.load(scale_ptr + rows, mask=real, other=1.0)
    q_scale = tl.load(q_scale_ptr + rows, mask=real, other=1.0) if QUANTISED else scale * 0 + 1
    scale = scale * q_scale  # of a product with a folded vector
    sharpness = scale * (1.4426950408889634 / tau)
    pull = (gamma * tau * 0.6931471805599453) / scale
    local_best = tl.full((BQ,), float("-inf"), tl.float32)
    route_best = tl.full((BQ,), float("-inf"), tl.float32)
    videos = last_video - first_video
    video = first_video + tl.program_id(1) * VIDEOS
    video_end = tl.load(first_page_ptr + video + 1)
    last_page = tl.load(first_page_ptr + tl.minimum(video + VIDEOS, last_video))
    for page in range(tl.load(first_page_ptr + video), last_page):
        local = tl.zeros((BQ, PAGE), TOTAL)
        keys = tl.zeros((BQ, PAGE), TOTAL)
        side = tl.zeros((BQ, SIDE), TOTAL)
        for k in tl.range(0, D, BD, num_stages=STAGES):
            q = q_desc.load([block * BQ, k])
            if HAS_SIDE:
                side = tl.dot(q, side_desc.load([video * SIDE, k]).T, side, out_dtype=TOTAL)
            local = tl.dot(q, local_desc.load([page * PAGE, k]).T, local, out_dtype=TOTAL)
            if TRACE:
                keys = tl.dot(q, key_desc.load([page * PAGE, k]).T, keys, out_dtype=TOTAL)
        if QUANTISED:
            local = local.to(tl.float32) * tl.load(local_scale_ptr + page * PAGE + slots)[None, :]
            if HAS_SIDE:
                side = side.to(tl.float32) * tl.load(side_scale_ptr + video * SIDE + tl.arange(0, SIDE))[None, :]
            if TRACE:
                keys = keys.to(tl.float32) * tl.load(key_scale_ptr + page * PAGE + slots)[None, :]
        local_best = tl.maximum(local_best, tl.max(local, 1))
        base = weight_local * local_best
        if PLAIN:  # as many columns of plain maxima, to measure the cost of TRACE's arithmetic
            base += weight_fixed * tl.max(side, 1)
            route_best = tl.maximum(route_best, tl.max(keys, 1))
            trace = route_best
        elif HAS_SIDE:
            fixed, routing = tl.split(tl.permute(tl.reshape(side, (BQ, 2, SIDE // 2)), (0, 2, 1)))
            base += weight_fixed * tl.max(fixed, 1)
            if TRACE:
                affinity, value = tl.split(tl.permute(tl.reshape(routing, (BQ, 2, R)), (0, 2, 1)))
                grounding = tl.load(grounding_ptr + page.to(tl.int64) * (R * PAGE) + registers[:, None] * PAGE + slots)
                gram = tl.load(gram_ptr + video.to(tl.int64) * (R * R) + registers[:, None] * R + registers)
                if REGISTERS < R:
                    affinity = tl.where((registers < REGISTERS)[None, :], affinity, float("-inf"))
                strongest = tl.max(affinity, 1)
                logits = (affinity - strongest[:, None]) * sharpness[:, None]  # base 2
                exact = tl.exp2(logits)
                reach = exact.to(grounding.dtype)
                paths = tl.dot(reach, grounding)
                spread = tl.dot(reach, gram)
                reach = reach.to(tl.float32)
                length = tl.maximum(tl.sum(spread * reach, 1), 1e-12)
                soft = tl.sum(reach * value, 1) * scale * tl.rsqrt(length)
                soft = tl.minimum(tl.maximum(soft, -1.0), 1.0)
                route_best = tl.maximum(route_best, tl.max(keys + pull[:, None] * _log2(paths), 1))
                ceiling = tl.load(ceiling_ptr + video)
                trace = (route_best + gamma * strongest) * scale + gamma * ceiling + eta * soft
                if GATE:
                    total = tl.sum(exact, 1)
                    finite = tl.where(exact > 0, logits, 0.0)
                    entropy = tl.log2(total) - tl.sum(exact * finite, 1) / total
                    trace *= tl.minimum(tl.maximum(1 - entropy / tl.log2(REGISTERS * 1.0), 0.0), 1.0)
        if page + 1 == video_end:
            base = base * q_scale
            place = rows.to(tl.int64) * videos + (video - first_video)
            tl.store(base_ptr + place, base, mask=real)
            if TRACE:
                tl.store(trace_ptr + place, trace, mask=real)
            local_best = tl.full((BQ,), float("-inf"), tl.float32)
            route_best = tl.full((BQ,), float("-inf"), tl.float32)
            video += 1
            video_end = tl.load(first_page_ptr + tl.minimum(video + 1, last_video))


def launch(
    queries: Queries,
    gallery: Gallery,
    packed: Packed,
    run: slice,
    *,
    plain: bool = False,
    like: triton.Config | None = None,
) -> Scores:
    """Score queries against a run of videos of a packed gallery.

    For measuring: ``plain`` makes maxima alone, over as many columns; ``like`` takes these tiles untuned.
    """
    device, config, count, videos = gallery.device, gallery.config, len(queries), run.stop - run.start
    stored = Vectors.store_unit(queries.unit, gallery.storage)
    has_trace, has_side = packed.keys is not None, packed.side is not None
    base = torch.empty(count, videos, device=device)
    trace = torch.empty(count, videos, device=device) if has_trace else None
    unused = packed.first_page
    registers = MOST_REGISTERS if gallery.registers is None else gallery.registers.shape[1]
    query_values = stored.values.contiguous()
    arguments: dict[str, Any] = {
        "q_desc": _descriptor(query_values),
        "local_desc": _descriptor(packed.local),
        "key_desc": _descriptor(_or(packed.keys, packed.local)),
        "side_desc": _descriptor(_or(packed.side, packed.local)),
        "scale_ptr": queries.scale.float(),
        "q_scale_ptr": _or(stored.scale, unused),
        "local_scale_ptr": _or(packed.local_scale, unused),
        "key_scale_ptr": _or(packed.key_scale, unused),
        "side_scale_ptr": _or(packed.side_scale, unused),
        "grounding_ptr": _or(packed.grounding, unused),
        "gram_ptr": _or(packed.gram, unused),
        "ceiling_ptr": _or(packed.ceiling, unused),
        "first_page_ptr": packed.first_page,
        "base_ptr": base,
        "trace_ptr": _or(trace, base),
        "queries": count,
        "first_video": run.start,
        "last_video": run.stop,
        "query_bucket": min(count, 4096).bit_length(),
        "weight_local": gallery.weights.paged,
        "weight_fixed": sum(weight for weight, _ in gallery.weights.fixed),
        "gamma": config.routing_strength,
        "tau": config.temperature,
        "eta": config.soft_weight,
        "D": gallery.width,
        "PAGE": gallery.page,
        "SIDE": 4 * MOST_REGISTERS,
        "REGISTERS": registers,
        "TRACE": has_trace,
        "HAS_SIDE": has_side,
        "QUANTISED": stored.scale is not None,
        "GATE": config.gate and registers > 1,
        "PLAIN": plain,
        "BITS": query_values.element_size() * 8,
    }

    def grid(meta: dict[str, Any]) -> tuple[int, int]:
        return triton.cdiv(count, meta["BQ"]), triton.cdiv(videos, meta["VIDEOS"])

    with torch.cuda.device(device):
        if like is None:
            _kernel[grid](**arguments)
        else:
            _shape_descriptors({**arguments, **like.kwargs})
            chosen = {**like.kwargs, "num_warps": like.num_warps, "num_stages": like.num_stages}
            _kernel.fn[grid](**arguments, **chosen)
    return Scores(base, trace)


def tuned() -> triton.Config:
    """The tiles that the last launch chose."""
    return _kernel.best_config


def _descriptor(table: Tensor) -> TensorDescriptor:
    return TensorDescriptor.from_tensor(table, [16, 64])  # the configuration gives it its shape


def _or(tensor: Tensor | None, instead: Tensor) -> Tensor:
    return instead if tensor is None else tensor
