"""The training batches of a run. They follow from seed, epoch and step alone, so there is no state to save."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from torch import Tensor

from prvr.data import Dataset, epoch_batches, prefetch
from prvr.tokens import TrainBatch
from prvr.training.config import TrainConfig
from prvr.training.distributed import Processes
from prvr.training.first_stage import ListedNegatives
from prvr.training.seeds import mix_seed


class TrainingBatches:
    """Yields this process's share of every batch.

    Args:
        dataset: the training split.
        config: batch size and seed.
        group: this process among those that train together.
        listed: where each query's negatives come from, for a method that re-ranks a first stage; None: from the batch.
    """

    def __init__(self, dataset: Dataset, config: TrainConfig, group: Processes, listed: ListedNegatives | None):
        self.dataset, self.config, self.group, self.listed = dataset, config, group, listed
        self.steps = len(self._rows(0))  # per epoch

    def epoch(self, epoch: int, from_step: int = 0) -> Iterator[TrainBatch]:
        """The batches of an epoch, on the training device; a resumed epoch begins at ``from_step``."""
        device = self.group.device
        rows = list(enumerate(self._rows(epoch)))[from_step:]
        batches = (self.dataset.train_batch(r, self._negatives(epoch, step)).to(device) for step, r in rows)
        on_device = self.dataset.tables.frames.device.type == "cuda"  # then a batch is a few gathers
        return batches if on_device else prefetch(batches)

    def _rows(self, epoch: int) -> list[Tensor]:
        c, g = self.config, self.group
        return epoch_batches(len(self.dataset), c.batch_size, seed=c.seed, epoch=epoch, rank=g.rank, world=g.world)

    def _negatives(self, epoch: int, step: int) -> Callable[[Tensor], Tensor] | None:
        """How a batch draws negatives from the first stage's lists."""
        if self.listed is None:
            return None
        return self.listed.drawing(mix_seed(mix_seed(self.config.seed, epoch), step))
