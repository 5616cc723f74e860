"""``python benchmarks/register_study.py DATA --out STUDY``: does TRACE gain if the registers of a video differ?

    prvr data synth DATA --size demo
    python benchmarks/register_study.py DATA --out STUDY            # a small world on a CPU: about a minute a training

DreamPRVR's registers of a video collapse onto one vector. Two other kinds replace them here, in the same model:

- *repaired*: the diffusion as one would expect it. Every register starts from noise of its own (drawn once),
  the denoiser learns to predict the clean register from fresh noise, and each register is drawn to one caption of its
  video (the best one-to-one assignment).
- *slots*: registers compete for the clips of a video (slot attention), and each caption must find a slot of its own.

The loss that draws registers to captions weighs 0.001 in the paper, and 0.1 or 0.01 here; DreamPRVR's own registers are
trained with 0.1 too, to tell the weight from the kind. With 0.1, all are also trained with the fused score inside the
backbone's losses. λ is chosen on validation. The table shows how alike registers are, and what evidence adds to
the base branch of the same weights. In *uniform*, all registers count the same: if that ranks as well, the query's
choice of registers adds nothing. *Constant* also takes the query out of their affinity. A second table shows how alike
registers were at each validation.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import torch
import torch.nn.functional as F
from phase_split import small, train_run
from torch import Tensor, nn

from prvr.backbones import DreamPRVR, DreamPRVRConfig, Encoded, Imagined, register
from prvr.evaluation import RankPair, open_subject, pooled_change, recalls, run_study, signed
from prvr.files import write_whole
from prvr.losses import best_matching
from prvr.tokens import TrainBatch
from prvr.training import Run, TrainConfig, load_preset, read_metrics


class OwnRegisters(DreamPRVR):
    """What both kinds share: each caption of a video is assigned to the register that is nearest to it."""

    def encode_batch(self, batch: TrainBatch) -> Encoded:
        scored, shaped = self.encode_queries_twice(batch.queries.tokens, batch.queries.mask)
        videos, imagined = self._encode_videos(batch.videos.frames, batch.videos.frame_mask, batch.videos.clips)
        with torch.autocast(shaped.device.type, enabled=False):
            captions, registers = F.normalize(shaped.float(), dim=-1), F.normalize(imagined.registers.float(), dim=-1)
            own = registers[batch.labels.clamp(min=0)]  # (N, R, D)
            chosen = best_matching(torch.einsum("nd,nrd->nr", captions, own), batch.labels, len(videos))
            kept = chosen >= 0
            error = self.caption_error(captions[kept], batch.labels[kept], chosen[kept], imagined)  # (N',)
            per_video = error.new_zeros(len(videos)).index_add(0, batch.labels[kept], error)
            count = torch.bincount(batch.labels[kept], minlength=len(videos)).clamp(min=1)
        terms = {"kl": torch.zeros_like(per_video), "denoise": per_video / count}
        return Encoded(scored, batch.labels, videos, {"shaped": shaped}, terms)

    def caption_error(self, captions: Tensor, labels: Tensor, chosen: Tensor, imagined: Imagined) -> Tensor:
        """How far register ``chosen`` of video ``labels`` is from its caption, (N,)."""
        raise NotImplementedError


@register
class Repaired(OwnRegisters):
    """Registers by a diffusion with noise of their own, which predicts the clean register."""

    method = "dreamprvr-repaired"
    noise: Tensor

    def __init__(self, config: DreamPRVRConfig):
        super().__init__(config)
        noise = torch.randn(config.registers, config.width, generator=torch.Generator().manual_seed(0))
        self.register_buffer("noise", noise)

    def imagine(self, clip_tokens: Tensor) -> Imagined:
        context = self.context_encoder(clip_tokens)[0]
        with torch.autocast(context.device.type, enabled=False):
            context = context.to(self.register_queries.dtype)
            condition = self.register_reader(self.register_queries.expand(len(context), -1, -1), context)
            noise, state = self.noise.expand_as(condition), self.noise.expand_as(condition)
            known = self.diffusion.denoiser.context(condition)
            for step in reversed(range(self.diffusion.denoiser.steps)):
                _, _, of_clean, of_noisy, of_noise = self.diffusion.reverse[step].unbind()
                clean = self.diffusion.denoiser(state, known.at(step)).clamp(-1, 1)
                state = of_clean * clean + of_noisy * state + of_noise * noise
        empty = state.new_zeros(len(state), state.shape[-1])
        return Imagined(state, empty, empty, condition)

    def caption_error(self, captions: Tensor, labels: Tensor, chosen: Tensor, imagined: Imagined) -> Tensor:
        target = captions * captions.shape[-1] ** 0.5 / 2  # mostly within ±1, to which registers are clamped
        # fresh noise at every step: constant noise could be learned, and the video would then tell nothing
        noisy = self.diffusion.noisy(target[:, None], torch.randn_like(target)[:, None])  # (T, N, 1, D)
        condition = imagined.condition[labels, chosen][:, None]
        predicted = self.diffusion.denoiser(noisy, self.diffusion.denoiser.context(condition))
        return (predicted - target[:, None]).square().mean((0, 2, 3))


@register
class Slots(OwnRegisters):
    """Registers by slot attention over a video's clips."""

    method = "dreamprvr-slots"

    def __init__(self, config: DreamPRVRConfig):
        super().__init__(config)
        width = config.width
        self.slot_query, self.slot_key, self.slot_value = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.update = nn.GRUCell(width, width)
        self.slot_norm, self.clip_norm = nn.LayerNorm(width), nn.LayerNorm(width)

    def imagine(self, clip_tokens: Tensor) -> Imagined:
        context = self.context_encoder(clip_tokens)[0]
        with torch.autocast(context.device.type, enabled=False):
            clips = self.clip_norm(context.to(self.register_queries.dtype))
            slots = self.register_queries.expand(len(clips), -1, -1)
            keys, values = self.slot_key(clips), self.slot_value(clips)
            for _ in range(3):
                logits = self.slot_query(self.slot_norm(slots)) @ keys.transpose(1, 2) / keys.shape[-1] ** 0.5
                share = logits.softmax(1) + 1e-6  # slots compete for each clip
                read = (share / share.sum(-1, keepdim=True)) @ values
                slots = self.update(read.flatten(0, 1), slots.reshape(-1, slots.shape[-1])).view_as(read)
        empty = slots.new_zeros(len(slots), slots.shape[-1])
        return Imagined(slots.clamp(-1, 1), empty, empty, slots)

    def caption_error(self, captions: Tensor, labels: Tensor, chosen: Tensor, imagined: Imagined) -> Tensor:
        return 1 - torch.cosine_similarity(captions, imagined.condition[labels, chosen], dim=-1)


class Kind(NamedTuple):
    """Registers that are tried."""

    method: str
    weight: float = 0.1  # of the loss that draws them to captions
    fused: bool = False  # whether the backbone's losses see the fused score

    def label(self) -> str:
        names = {"dreamprvr": "DreamPRVR", Repaired.method: "repaired", Slots.method: "slots"}
        return f"{names[self.method]}, {self.weight:g}{', fused score in the losses' if self.fused else ''}"


USUAL = Kind("dreamprvr", 0.001)
KINDS = (
    USUAL,
    Kind("dreamprvr"),
    Kind(Repaired.method),
    Kind(Slots.method),
    Kind(Repaired.method, 0.01),
    Kind(Slots.method, 0.01),
    Kind("dreamprvr", fused=True),
    Kind(Repaired.method, fused=True),
    Kind(Slots.method, fused=True),
)


def configuration(arguments: argparse.Namespace, kind: Kind, seed: int) -> TrainConfig:
    """The preset with another kind of registers."""
    config = load_preset(arguments.preset)
    if arguments.quick:
        config = small(config)
    model = replace(config.model, weight_denoise=kind.weight)  # type: ignore[call-arg]
    stage = replace(config.trace_stage, fused_base=kind.fused)
    backbone = replace(config.backbone_stage, epochs=arguments.epochs or config.backbone_stage.epochs)
    config = replace(config, backbone_stage=backbone, validate_every=10)
    return replace(config, method=kind.method, model=model, trace_stage=stage, seed=seed)


@dataclass(frozen=True)
class Found:
    """What one run shows."""

    base: Tensor  # ranks (Q,)
    evidence: Tensor  # with λ chosen on validation
    uniform: Tensor  # with the same λ
    constant: Tensor  # likewise
    weight: float
    cosines: list[tuple[int, dict[str, float]]]  # between registers, after so many epochs
    owners: tuple[str, ...]


def look(run: Run, data: Path) -> Found:
    """Ranks of the test split; λ is the best of the sweep on validation."""
    val = run_study(open_subject(run, data=data, split="val"), timed=False, corpus_moments=False)
    weight = max(val.sweeps["λ"], key=lambda value: recalls(val.sweeps["λ"][value]).sum_r)
    subject = replace(open_subject(run, data=data, split="test"), fusion_weight=weight)
    test = run_study(subject, timed=False, corpus_moments=False)
    epochs = [epoch for epoch in read_metrics(run.path) if "registers" in epoch]
    return Found(
        test.ranks["base"],
        *(test.ranks[name if weight else "base"] for name in ("trace", "uniform", "uniform_constant")),
        weight,
        [(epoch["epoch"] + 1, epoch["registers"]) for epoch in epochs],
        subject.owners,
    )


def rows(found: dict[str, list[Found]]) -> Iterator[str]:
    columns = (
        "registers, weight of their loss",
        "cosine within / between videos",
        "base SumR",
        "base against DreamPRVR's",
        "λ",
    )
    yield f"| {' | '.join(columns)} | evidence | uniform | constant |"
    yield "|---|---|--:|---|---|---|---|---|"
    for name, seeds in found.items():
        usual = found[USUAL.label()]
        base = pooled_change([RankPair(u.base, f.base, f.owners) for u, f in zip(usual, seeds, strict=True)])
        gains = [
            pooled_change([RankPair(f.base, getattr(f, column), f.owners) for f in seeds])
            for column in ("evidence", "uniform", "constant")
        ]
        last = [f.cosines[-1][1] for f in seeds]
        cosines = " / ".join(f"{fmean(each[key] for each in last):.3f}" for key in ("within", "between"))
        total = fmean(recalls(f.base).sum_r for f in seeds)
        weights = ", ".join(f"{f.weight:g}" for f in seeds)
        shown = "" if seeds is usual else f"{signed(base.delta)} [{signed(base.low)}, {signed(base.high)}]"
        cells = [f"{signed(gain.delta)} [{signed(gain.low)}, {signed(gain.high)}]" for gain in gains]
        yield f"| {name} | {cosines} | {total:.1f} | {shown} | {weights} | {' | '.join(cells)} |"


def cosine_rows(found: dict[str, list[Found]]) -> Iterator[str]:
    """Cosines between registers at each validation; centred: without the mean of all registers."""
    epochs = [epoch for epoch, _ in found[USUAL.label()][0].cosines]
    yield f"| within / between videos; centred | {' | '.join(f'epoch {epoch}' for epoch in epochs)} |"
    yield f"|---|{'---|' * len(epochs)}"
    for name, seeds in found.items():
        cells = []
        for each in zip(*(f.cosines for f in seeds), strict=True):
            mean = {key: fmean(cosines[key] for _, cosines in each) for key in each[0][1]}
            raw, centred = (f"{mean['within' + end]:.2f} / {mean['between' + end]:.2f}" for end in ("", "_centred"))
            cells.append(f"{raw}; {centred}")
        yield f"| {name} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, metavar="DATA")
    parser.add_argument("--out", type=Path, required=True, metavar="STUDY")
    parser.add_argument("--preset", default="demo")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, help="of the backbone; by default the preset's")
    labels = [kind.label() for kind in KINDS]
    parser.add_argument("--kinds", nargs="*", default=labels, choices=labels, help="besides the usual one")
    parser.add_argument("--quick", action="store_true", help="a small model, for a proxy on a CPU (--preset proxy)")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    found: dict[str, list[Found]] = {}
    for kind in (kind for kind in KINDS if kind == USUAL or kind.label() in arguments.kinds):
        for seed in arguments.seeds:
            folder = arguments.out / f"{kind.method}-{kind.weight:g}{'-fused' if kind.fused else ''}-{seed}"
            run = train_run(configuration(arguments, kind, seed), arguments.data, folder)
            found.setdefault(kind.label(), []).append(look(run, arguments.data))
    table = "\n".join([*rows(found), "", *cosine_rows(found)])
    write_whole(arguments.out / "registers.md", table + "\n")
    ranks = {
        label: [
            {name: getattr(f, name).tolist() for name in ("base", "evidence", "uniform", "constant")} for f in seeds
        ]
        for label, seeds in found.items()
    }
    write_whole(arguments.out / "ranks.json", json.dumps(ranks))
    print(table)


if __name__ == "__main__":
    main()
