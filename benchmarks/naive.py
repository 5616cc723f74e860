"""The baseline of ``prvr bench``: the same work, written as research code of this field usually is.

It is not run by itself and the package does not use it. It gives speed something to be compared with on each machine: a
module per attention block, losses that loop over queries and videos, an optimiser that visits parameters one by one,
scores in chunks of 50 queries with TRACE's equations as einsums, and one sort per query for its rank; float32
throughout, on a CPU or a GPU. ``tests/benchmarks/test_naive.py`` shows that its losses, gradients, updates, scores and
ranks are those of ``prvr``, so that a ratio of times compares two forms of one computation.

    step = NaiveStep(config, device="cuda")       # config: a DreamPRVRConfig
    step.load(backbone)                           # optional: the weights of a prvr DreamPRVR
    step.step(batch)                              # forward, losses, backward, update
    videos = encode_gallery(step.model, video_batches)
    queries = encode_queries(step.model, query_batches)
    base = base_scores(queries, videos, config.clip_weight, config.frame_weight)
    final = base + 0.03 * trace_scores(queries, videos, trace.projections)
    ranks, recalls = ranks_and_recalls(final, positives)
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from prvr.backbones import DreamPRVR, DreamPRVRConfig, to_official
from prvr.tokens import QueryBatch, TrainBatch, VideoBatch, VideoTokens
from prvr.trace import TraceConfig

sys.path.append(str(Path(__file__).parent))  # the other parts are found however this file is loaded

import naive_losses as losses
from naive_model import NaiveDreamPRVR

CHUNK = 50  # queries scored at once
LARGEST = 64_000_000  # numbers in the (Q, V, R, M) tensor of a chunk: 256 MB, and a few such temporaries


class NaiveStep:
    """A whole training step: encode, losses in loops, backward, update."""

    def __init__(
        self,
        config: DreamPRVRConfig,
        device: torch.device | str = "cpu",
        learning_rate: float = 2e-4,
        weight_decay: float = 0.01,
    ):
        self.config = config
        self.model = NaiveDreamPRVR(config).to(device)
        self.optimiser = LoopedBertAdam(self.model, learning_rate, weight_decay)

    def load(self, backbone: DreamPRVR) -> None:
        """Load the weights of a ``prvr`` backbone."""
        self.model.load_state_dict(to_official(backbone))

    def step(self, batch: TrainBatch, epoch: int = 0) -> dict[str, float]:
        """Update on a batch that is on the model's device. Returns the weighted loss terms."""
        self.model.train()
        self.optimiser.zero_grad()
        terms = self.terms(batch, epoch)
        sum(terms.values()).backward()
        self.optimiser.step()
        return {name: value.item() for name, value in terms.items()}

    def terms(self, batch: TrainBatch, epoch: int = 0) -> dict[str, Tensor]:
        """Weighted loss terms by the names of ``DreamPRVR.objective``."""
        c, model, labels = self.config, self.model, batch.labels.tolist()
        queries_of = losses.queries_of_videos(labels, len(batch.videos))
        scored = model.encode_queries(batch.queries.tokens, batch.queries.mask)
        shaped = model.encode_queries(batch.queries.tokens, batch.queries.mask)
        videos, mean, log_variance, condition = model.encode(batch.videos)
        terms = {}
        branches = (("clip", videos.clips, c.weight_nce_clip), ("frame", videos.frames, c.weight_nce_frame))
        for name, tokens, weight in branches:
            cosines = best(F.normalize(scored, dim=-1), F.normalize(tokens, dim=-1))
            terms[f"nce_{name}"] = weight * losses.nce(best(scored, tokens), labels, queries_of)
            terms[f"triplet_{name}"] = losses.triplet(cosines, labels, queries_of, c.margin, c.pool_at(epoch))
        terms["diversity"] = c.weight_diversity * losses.diversity(
            shaped, queries_of, offset=c.diversity_offset, scale=c.diversity_scale, power=c.diversity_power
        )
        terms["similarity"] = c.weight_similarity * losses.similarity(shaped, queries_of, c.similarity_temperature)
        terms["kl"] = c.weight_kl * losses.kl(mean, log_variance)
        target = self.perturb(losses.mean_queries(shaped, queries_of))
        terms["denoise"] = c.weight_denoise * self.denoising_error(target, mean, condition)
        return terms

    def perturb(self, mean_query: Tensor) -> Tensor:
        """Jittered copies of the normalised mean query, (V, D) → (V, R, D)."""
        jittered = []
        spread = self.config.perturbation * mean_query.detach().std(dim=-1, keepdim=True)
        for _ in range(self.config.registers):
            gain = 1 + spread * torch.randn_like(mean_query)
            shift = mean_query.detach().mean(dim=-1, keepdim=True) + spread * torch.randn_like(mean_query)
            jittered.append(gain * F.layer_norm(mean_query, mean_query.shape[-1:]) + shift)
        return torch.stack(jittered, dim=1)

    def denoising_error(self, target: Tensor, mean: Tensor, condition: Tensor) -> Tensor:
        """Run the denoiser for one step after another."""
        noise, predicted = mean.unsqueeze(1).repeat(1, target.shape[1], 1), []
        for t in range(self.config.diffusion_steps):
            kept = self.model.schedule["kept"][t]
            noisy = kept**0.5 * target + (1 - kept) ** 0.5 * noise
            steps = torch.full((len(noisy),), t, device=noisy.device)
            predicted.append(self.model.diffusion_mlp(noisy, steps, condition))
        return F.mse_loss(torch.stack(predicted), noise.unsqueeze(0).repeat(len(predicted), 1, 1, 1))


class LoopedBertAdam:
    """BertAdam, one parameter after another: clip the gradient, update the averages, decay, step."""

    def __init__(self, model: nn.Module, learning_rate: float, weight_decay: float):
        self.named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        self.learning_rate, self.weight_decay = learning_rate, weight_decay
        self.state: dict[str, tuple[Tensor, Tensor]] = {}

    def zero_grad(self) -> None:
        for _, p in self.named:
            p.grad = None

    @torch.no_grad()
    def step(self) -> None:
        for name, p in self.named:
            if p.grad is None:
                continue
            if name not in self.state:
                self.state[name] = torch.zeros_like(p), torch.zeros_like(p)
            mean, square = self.state[name]
            nn.utils.clip_grad_norm_(p, 1.0, foreach=False)
            mean.mul_(0.9).add_(p.grad, alpha=0.1)
            square.mul_(0.999).addcmul_(p.grad, p.grad, value=0.001)
            update = mean / (square.sqrt() + 1e-6)
            if "bias" not in name and "LayerNorm" not in name:
                update += self.weight_decay * p
            p.add_(-self.learning_rate * update)


def best(queries: Tensor, tokens: Tensor) -> Tensor:
    """Largest dot product with each video's tokens, (Q, D), (V, N, D) → (Q, V)."""
    return torch.matmul(tokens, queries.t()).permute(2, 0, 1).max(dim=-1)[0]


@torch.no_grad()
def encode_gallery(model: NaiveDreamPRVR, batches: Iterable[VideoBatch]) -> VideoTokens:
    """Every video's tokens, batch by batch, on the model's device."""
    model.eval()
    device = next(model.parameters()).device
    return VideoTokens.cat([model.encode(batch.to(device))[0] for batch in batches])


@torch.no_grad()
def encode_queries(model: NaiveDreamPRVR, batches: Iterable[QueryBatch]) -> Tensor:
    """Every query's vector, (Q, D)."""
    model.eval()
    device = next(model.parameters()).device
    moved = [batch.to(device) for batch in batches]
    return torch.cat([model.encode_queries(batch.tokens, batch.mask) for batch in moved])


@torch.no_grad()
def base_scores(queries: Tensor, videos: VideoTokens, clip_weight: float = 0.6, frame_weight: float = 0.4) -> Tensor:
    """The weighted best cosines, (Q, D) → (Q, V). As usual, each chunk normalises all tokens again."""
    rows = []
    for chunk in queries.split(CHUNK):
        unit = F.normalize(chunk, dim=-1)
        clips = best(unit, F.normalize(videos.clips, dim=-1))
        frames = best(unit, F.normalize(videos.frames, dim=-1))
        rows.append(clip_weight * clips + frame_weight * frames)
    return torch.cat(rows)


@torch.no_grad()
def trace_scores(
    queries: Tensor, videos: VideoTokens, projections: Mapping[str, Tensor], config: TraceConfig | None = None
) -> Tensor:
    """The evidence score S_route + η·S_soft as its equations are printed, (Q, D) → (Q, V)."""
    c = config or TraceConfig()
    tau, hidden = c.temperature, ~videos.frame_mask
    assert videos.registers is not None
    registers = F.normalize(videos.registers @ projections["register_key"].t(), dim=-1)
    keys = F.normalize(videos.frames @ projections["frame_key"].t(), dim=-1)
    values = F.normalize(videos.frames @ projections["frame_value"].t(), dim=-1)
    grounding = torch.einsum("vrd,vmd->vrm", registers, keys)
    attention = torch.softmax((grounding / tau).masked_fill(hidden.unsqueeze(1), -torch.inf), dim=-1)
    rows = []
    for chunk in queries.split(max(1, min(CHUNK, LARGEST // max(1, grounding.numel())))):
        q = F.normalize(chunk @ projections["query"].t(), dim=-1)
        direct = torch.einsum("qd,vmd->qvm", q, keys)
        affinity = torch.einsum("qd,vrd->qvr", q, registers)
        paths = (affinity.unsqueeze(-1) + grounding.unsqueeze(0)) / tau  # (Q, V, R, M)
        routed = direct + c.routing_strength * tau * torch.logsumexp(paths, dim=2)
        route = routed.masked_fill(hidden.unsqueeze(0), -torch.inf).max(dim=-1)[0]
        weights = torch.einsum("qvr,vrm->qvm", torch.softmax(affinity / tau, dim=-1), attention)
        attended = torch.einsum("qvm,vmd->qvd", weights, values)
        rows.append(route + c.soft_weight * F.cosine_similarity(q.unsqueeze(1), attended, dim=-1))
    return torch.cat(rows)


def ranks_and_recalls(scores: Tensor, positives: Tensor) -> tuple[list[int], dict[str, float]]:
    """1-based rank of each query's video by sorting its row, (Q, V), (Q,); and R@1, 5, 10, 100 with their sum."""
    ranks = []
    for query in range(len(scores)):
        order = torch.sort(scores[query], descending=True, stable=True)[1]
        ranks.append(int(torch.where(order == positives[query])[0][0]) + 1)
    recalls = {f"r{k}": 100.0 * sum(rank <= k for rank in ranks) / len(ranks) for k in (1, 5, 10, 100)}
    return ranks, recalls | {"sum_r": sum(recalls.values())}
