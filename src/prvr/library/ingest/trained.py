"""The space of a trained model: its tokens, registers, TRACE and query tower.

A model was trained on videos with a fixed number of frames. A longer video is cut into windows of that length, which
overlap by a quarter. The model treats each window as one video.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from prvr.data import TableSettings, normalise_rows, prepare_video, segment_edges
from prvr.library.errors import LibraryError
from prvr.library.ingest.embedding import Embedded, Embedding
from prvr.library.ingest.witness import LibraryWitness, SentenceWords
from prvr.media import Encoder, Image, PlainEncoder, Recipe, Understanding
from prvr.scoring import require_separable
from prvr.tokens import VideoBatch
from prvr.trace import Trace
from prvr.training import Run, load_run_witness, read_calibration
from prvr.words import content_words, split_words, word_names, word_stem

OVERLAP_SHARE = 4  # a window shares one quarter of its frames with the next
STILL_SAMPLES = 4  # frames of the still video that a picture becomes


class TrainedEmbedding(Embedding):
    """The final weights of a run, on the CPU."""

    encoder: Encoder

    def __init__(self, run: Run, encoder: Encoder):
        config = run.config
        model, about = run.load_model()
        self.encoder, self.backbone = encoder, model.backbone.requires_grad_(False)
        self.width = model.backbone.width
        trace = replace(config.trace, fusion_weight=float(about.get("fusion_weight", config.trace.fusion_weight)))
        if config.trace_stage.epochs > 0:
            self.trace = model.trace.requires_grad_(False)
            self.trace.config = trace
        else:  # trained without TRACE: add it untrained, on pooled anchors
            self.trace = Trace(model.backbone.width, replace(trace, anchors="hybrid")).requires_grad_(False)
        self.words = recipes_of(run)[1].words
        self.calibration = read_calibration(run)
        fitted = load_run_witness(run)
        self.witness = None if fitted is None else LibraryWitness(fitted, self.backbone)
        self._last_read: tuple[list[str], list[Tensor]] = [], []  # texts and their words: a search asks twice
        known = self.calibration.words if self.calibration is not None else frozenset[str]()
        self.known_stems = frozenset(map(word_stem, known))
        self.overlap = config.model.frames // OVERLAP_SHARE
        self.step = config.model.frames - self.overlap

    def embed(self, samples: Tensor) -> Embedded:
        config, raw = self.backbone.config, samples.numpy()
        prepared = prepare_video(raw, TableSettings(config.clips, config.frames, config.words, config.feature_rule))
        frames, clips = torch.from_numpy(prepared.frames)[None], torch.from_numpy(prepared.clips)[None]
        sizes = None if prepared.sizes is None else torch.from_numpy(prepared.sizes).float()[None]
        mask = torch.ones(frames.shape[:2], dtype=torch.bool)
        batch = VideoBatch(frames, mask, clips, clip_sizes=sizes)
        tokens = self.backbone.encode_video_batch(batch).to(torch.float32)
        if tokens.evidence_from == "clips":
            edges = segment_edges(len(raw), config.clips)
        elif config.feature_rule == "merged":
            edges = segment_edges(len(raw), config.frames)
        else:
            edges = np.arange(len(raw) + 1)
        first = torch.from_numpy(edges[:-1])
        return Embedded(tokens, torch.stack([first, torch.from_numpy(edges[1:]).maximum(first + 1)], 1), frames[0])

    @torch.no_grad()
    def sentences(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if not texts:
            return np.zeros((0, self.width), np.float32)
        read = self._read(texts)
        mask = pad_sequence([torch.ones(len(words), dtype=torch.bool) for words in read], batch_first=True)
        found = self.backbone.encode_queries(pad_sequence(read, batch_first=True), mask).float()
        understood = torch.tensor([bool(words.any()) for words in read])
        return (found * understood[:, None]).numpy()

    def _read(self, texts: Sequence[str]) -> list[Tensor]:
        """What the model reads of each text, (L, Dq)."""
        known, read = self._last_read
        if known == [*texts]:
            return read
        if self.words:
            rows = self.encoder.encode_word_lists(texts)
        else:
            rows = list(self.encoder.encode_texts(texts)[:, None])
        longest = self.backbone.config.words
        read = [torch.from_numpy(normalise_rows(words[:longest])) for words in rows]
        self._last_read = [*texts], read
        return read

    def words_of(self, texts: Sequence[str]) -> dict[str, SentenceWords]:
        if self.witness is None or not texts:
            return {}
        known = {text: words for text, words in zip(texts, self._read(texts), strict=True) if bool(words.any())}
        if not known:
            return {}
        names = [word_names(text, len(words)) for text, words in known.items()]
        return dict(zip(known, self.witness.read(names, list(known.values())), strict=True))

    @torch.no_grad()
    def picture(self, image: Image) -> NDArray[np.float32]:
        """The mean token of a short still video of the picture."""
        samples = torch.from_numpy(self.encoder.encode_images([image])).expand(STILL_SAMPLES, -1)
        return F.normalize(F.normalize(self.embed(samples).tokens.evidence[0], dim=1).mean(0), dim=0).numpy()

    def understanding(self, text: str) -> Understanding | None:
        """A model that was trained on words without meaning of their own knows those of its training sentences."""
        if not self.words:
            return self.encoder.understanding(text)
        if not self.known_stems or not isinstance(self.encoder, PlainEncoder):
            return None
        words = list(dict.fromkeys(split_words(text)))
        known = {word for word in words if word_stem(word) in self.known_stems}
        ignored = tuple(word for word in content_words(text) if word not in known)
        return Understanding(tuple(word for word in content_words(text) if word in known), ignored)


def recipes_of(run: Run) -> tuple[Recipe, Recipe]:
    """The recipes of the frames and sentences that a run was trained on.

    Raises:
        LibraryError: if the run cannot be used with a library.
    """
    config = run.config
    if config.model.auxiliary_captions:
        raise LibraryError(
            f"{run.path} needs captions of each video, which a library does not have: use a run of another method"
        )
    made = run.features
    if not made.keys() >= {"frames", "queries"}:
        raise LibraryError(
            f"{run.path} does not know how its features were made (its data in {run.data} has no recipe.json), so it "
            "cannot encode other videos: train on a dataset that `prvr data make` wrote (in Python: "
            "prvr.media.write_dataset)"
        )
    return Recipe.from_dict(made["frames"]), Recipe.from_dict(made["queries"])


def open_run(path: str | Path) -> Run:
    """Open a run for use with a library. Raises an error before anything is written if it cannot be used."""
    run = Run(path)
    recipes_of(run)
    require_separable(run.load_model()[0].backbone)
    return run
