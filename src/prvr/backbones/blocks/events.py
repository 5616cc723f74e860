"""Events of unequal length: a video is cut where a frame no longer resembles the running centre (UEM)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from prvr.tokens import VideoTokens


@dataclass(frozen=True)
class EventTokens(VideoTokens):
    """Frames, and the event that each one belongs to."""

    events: Tensor | None = None  # (V, M) numbered from 0; −1 on padding

    def padded(self, frames: int) -> EventTokens:
        longer = super().padded(frames)
        assert self.events is not None
        spare = longer.frames.shape[1] - self.events.shape[1]
        return replace(longer, events=F.pad(self.events, (0, spare), value=-1))


@torch.no_grad()
def event_numbers(frames: Tensor, mask: Tensor, threshold: float) -> Tensor:
    """The event of each frame, (V, M, D), (V, M) → (V, M) int64, −1 on padding.

    A frame joins the current event if its cosine with the event's centre is above the threshold. The centre is then
    the mean of the old centre and the frame, so the newest frame always weighs half of it; longer frames pull harder.

    >>> turn = torch.tensor([[[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.0, 1.0]]])
    >>> event_numbers(turn, torch.ones(1, 4, dtype=torch.bool), 0.9)
    tensor([[0, 0, 1, 1]])
    """
    centre = frames[:, 0]
    number = torch.zeros(len(frames), dtype=torch.long, device=frames.device)
    numbers = [number]
    for place in range(1, frames.shape[1]):
        frame = frames[:, place]
        alike = (F.normalize(frame, dim=-1) * F.normalize(centre, dim=-1)).sum(-1) > threshold
        number = torch.where(alike, number, number + 1)
        centre = torch.where(alike[:, None], (centre + frame) / 2, frame)
        numbers.append(number)
    return torch.stack(numbers, 1).masked_fill(~mask, -1)


def event_scores(queries: Tensor, videos: EventTokens, *, whole_video: bool) -> tuple[Tensor, Tensor]:
    """The event nearest to each query, read softly: averages of cosines and of dot products, (Q, D) → (Q, V) twice.

    Inside the chosen event, frames are weighed by a softmax of their cosines. Events are compared by the direction of
    their mean frame; no gradient passes through the choice.

    Args:
        queries: (Q, D).
        videos: with frames (V, M, D), zero on padding.
        whole_video: the mean of all slots, padding included, competes with the events of a video that has fewer events
            than slots, as in the authors' code. Where it wins, the score is the mean over all slots: short videos are
            scaled down. A video with a single event would tie with its whole; there the event wins.
    """
    assert videos.events is not None
    frames, slots = videos.frames, videos.frames.shape[1]
    dots = torch.einsum("qd,vmd->qvm", queries, frames)
    cosines = torch.einsum("qd,vmd->qvm", F.normalize(queries, dim=-1), F.normalize(frames, dim=-1))
    member = videos.events[..., None] == torch.arange(slots, device=frames.device)  # (V, M, E)
    count = member.any(1).sum(1)  # (V,)
    belongs = member.to(frames.dtype)
    with torch.no_grad():
        unit = F.normalize(queries, dim=-1)
        directions = F.normalize(belongs.transpose(1, 2) @ frames, dim=-1)  # (V, E, D)
        near = torch.einsum("qd,ved->qve", unit, directions).masked_fill(~member.any(1)[None], -torch.inf)
        best, chosen = near.max(-1)  # (Q, V); of equals the first
        whole = unit @ F.normalize(frames.sum(1), dim=-1).T
        takes_whole = (whole > best) & ((count > 1) & (count < slots))[None] & whole_video
        inside = belongs.transpose(1, 2)[torch.arange(len(frames), device=frames.device), chosen]  # (Q, V, M)
    weight = cosines.exp() * inside
    weight = weight / weight.sum(-1, keepdim=True).clamp(min=torch.finfo(weight.dtype).tiny)
    weight = torch.where(takes_whole[..., None], 1 / slots, weight)
    return (weight * cosines).sum(-1), (weight * dots).sum(-1)
