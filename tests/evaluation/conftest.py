"""A split whose tokens are written by hand, so that every answer is known before anything is computed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from prvr.backbones import Backbone, BackboneConfig, TokenSet
from prvr.data import Dataset
from prvr.data.captions import Caption
from prvr.data.feature_tables import FeatureTables
from prvr.evaluation.subject import Subject
from prvr.tokens import VideoTokens
from prvr.trace import Trace, TraceConfig
from prvr.training import Run, TraceModel, TraceStage, TrainConfig


class Passing(Backbone):
    """Hands features on as tokens; what stands in the place of clips are the registers. Base score: best frame."""

    method = "passing"
    config_type = BackboneConfig

    def __init__(self, config: BackboneConfig):
        super().__init__(config)
        self.anchor = torch.nn.Parameter(torch.zeros(1))

    @property
    def width(self) -> int:
        return self.config.visual_width

    def encode_queries(self, tokens: Tensor, mask: Tensor) -> Tensor:
        return tokens[:, 0]

    def encode_videos(self, frames: Tensor, frame_mask: Tensor, clips: Tensor) -> VideoTokens:
        return VideoTokens(frames, frame_mask, frames[:, :0], clips)

    def token_sets(self, videos: VideoTokens) -> tuple[TokenSet, ...]:
        return (TokenSet(1.0, videos.frames),)

    def encode_batch(self, batch: Any) -> Any:
        raise NotImplementedError

    def objective(self, encoded: Any, *, epoch: int, generator: Any = None) -> Any:
        raise NotImplementedError

    @property
    def loss_weights(self) -> dict[str, float]:
        return {}


@pytest.fixture(scope="session")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    """A split with planted unsupported peaks: see ``planted_peaks``."""
    return planted_peaks(tmp_path_factory.mktemp("planted"))


def planted_peaks(folder: Path, pairs: int = 6, frames: int = 12) -> Subject:
    """Query n describes video 2n. Video 2n+1 holds a planted peak: one frame that merely looks like the event.

    Per query there is a topic t, an event x, and the topics u, v of what else is in the two videos; all orthogonal.
    The query is 0.5 t + 0.87 x. In the right video the event happens in its topic (frame 0.45 t + 0.57 x + …, so
    d = 0.72), and a register stands for t. The wrong video has a register for t as well, and frames of it, but its peak
    (0.85 x + 0.53 v, so d = 0.74) goes with its other topic only. So
      - max pooling prefers the wrong video, by 0.017;
      - the query-selected register supports 0.95 in the right video and 0.56 at the planted peak: TRACE must correct
        the order (Theorem 1: 0.3 · 0.39 > 0.017);
      - without the query's choice the peak is the better supported one (0.53 against 0.45): uniform q→R must not;
      - once the frames that registers point to are exchanged, neither frame is supported more: R→F must not.
    """
    width = 6 * pairs
    basis = torch.eye(width)
    video_frames, registers, queries, captions = [], [], [], []
    for n in range(pairs):
        t, x, u, v, z, w = basis[6 * n : 6 * n + 6]
        queries.append(0.5 * t + 0.75**0.5 * x)
        event = 0.45 * t + 0.57 * x + (1 - 0.45**2 - 0.57**2) ** 0.5 * z
        peak = 0.85 * x + (1 - 0.85**2) ** 0.5 * v
        right, wrong = u.repeat(frames, 1), v.repeat(frames, 1)
        right[3] = event
        wrong[5] = peak
        wrong[8:] = 0.6 * t + 0.8 * w
        video_frames += [right, wrong]
        registers += [torch.stack([t, u]), torch.stack([t, v])]
        captions.append(Caption(f"video{2 * n}#enc#0", f"video{2 * n}", f"event {n}"))
    count = 2 * pairs
    tables = FeatureTables(
        frames=torch.cat([*video_frames, torch.zeros(1, width)]),
        frame_start=torch.arange(count) * frames,
        frame_count=torch.full((count,), frames),
        clips=torch.stack(registers),
        clip_row=torch.arange(count),
        words=torch.cat([torch.stack(queries), torch.zeros(1, width)]),
        word_start=torch.arange(pairs),
        word_count=torch.ones(pairs, dtype=torch.int64),
    )
    truth = torch.arange(pairs) * 2
    dataset = Dataset(
        collection="made",
        split="test",
        video_ids=tuple(f"video{n}" for n in range(count)),
        captions=tuple(captions),
        query_video=truth,
        positives=[(row,) for row in truth.tolist()],
        moments=None,
        tables=tables,
    )
    config = TrainConfig(trace=TraceConfig(fusion_weight=1.0))
    config = replace(config, model=BackboneConfig(visual_width=width, query_width=width))
    model = TraceModel(Passing(config.model), Trace(width, config.trace), TraceStage()).eval()
    run = Run(folder / "run")
    run.create(config, folder)
    return Subject(run, config, model, dataset, "last", "written by hand", True, 1.0)
