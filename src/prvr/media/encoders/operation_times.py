"""Where OpenVINO's time goes when it encodes pictures, by its own counts."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import torch

from prvr.media.encoders.choice import EngineName
from prvr.media.encoders.openvino_tower import OpenVinoTower, convert, converted_form
from prvr.media.encoders.preparation import PicturePreparation


def operation_times(
    model: Any, size: int, engine: EngineName, pictures: int = 8, repeats: int = 25
) -> Counter[tuple[str, str]]:
    """Seconds that a picture takes, by type of operation and kernel, on the cores that torch may use.

    Each operation counts with its least time of several tries, because other work on the machine only adds to it.

    Args:
        model: of the ``transformers`` library, in float32.
        size: of its pictures, which are square.
        engine: the type that OpenVINO computes in.
        pictures: in a batch.
        repeats: tries; the model is compiled for each, as OpenVINO gives the mean of all batches since then.
    """
    graph = convert(model, PicturePreparation.plain(size), converted_form(engine))
    pixels = torch.randn(pictures, 3, size, size, generator=torch.Generator().manual_seed(0))
    tries = []
    for _ in range(repeats):
        tower = OpenVinoTower(graph, engine, profile=True)
        tower(pixels)
        operations = tower.requests[0].get_profiling_info()
        tries.append([each.real_time.total_seconds() for each in operations])
    times = Counter[tuple[str, str]]()
    for each, seconds in zip(operations, np.min(tries, axis=0).tolist(), strict=True):
        times[each.node_type, each.exec_type] += seconds / pictures
    return times
