"""From the facts of a feature world to frame features and word features.

Vision and language each have their own concept vectors and their own fixed random map (latent → tanh → features), so
one space says nothing about the other. Their relation has to be learned from pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prvr.worlds.features.config import FeatureWorldConfig
from prvr.worlds.features.events import Activity, FeatureScript
from prvr.worlds.features.vocabulary import Vocabulary

Array = NDArray[np.float32]


def _normal(rng: np.random.Generator, *shape: int) -> Array:
    """Random vectors of length about 1 along the last axis."""
    return rng.standard_normal(shape, dtype=np.float32) / np.float32(np.sqrt(shape[-1]))


@dataclass(frozen=True)
class RandomMap:
    """A fixed nonlinear map, (n, latent) -> (n, width)."""

    inward: Array  # (latent, hidden)
    outward: Array  # (hidden, width)

    @staticmethod
    def draw(rng: np.random.Generator, latent: int, width: int, bend: float) -> RandomMap:
        """``bend`` sets how far into its curved part the tanh is driven."""
        hidden = 4 * latent
        inward = rng.standard_normal((latent, hidden), dtype=np.float32) * np.float32(bend)
        return RandomMap(inward, rng.standard_normal((hidden, width), dtype=np.float32) / np.float32(np.sqrt(hidden)))

    def __call__(self, latents: Array) -> Array:
        features: Array = np.tanh(latents @ self.inward) @ self.outward
        return features


@dataclass(frozen=True)
class FrameMaker:
    """Makes the frame features of a script."""

    config: FeatureWorldConfig
    topics: Array  # (topics, latent)
    looks: Array  # (topics, latent) how a topic colours what happens in it
    actions: Array  # (actions, latent)
    objects: Array  # (objects, latent)
    drift: Array  # (longest, longest) turns independent noise into autocorrelated noise of the same size
    map: RandomMap

    @staticmethod
    def draw(config: FeatureWorldConfig) -> FrameMaker:
        rng = np.random.default_rng((config.seed, 1))
        gap = np.subtract.outer(np.arange(config.frames[1]), np.arange(config.frames[1]))
        memory = np.float64(config.frame_noise_memory)
        decay = np.where(gap >= 0, memory ** np.maximum(gap, 0), 0.0)
        return FrameMaker(
            config=config,
            topics=_normal(rng, config.topics, config.latent),
            looks=1 + config.look * rng.standard_normal((config.topics, config.latent), dtype=np.float32),
            actions=_normal(rng, config.actions, config.latent),
            objects=_normal(rng, config.objects, config.latent),
            drift=(decay / np.sqrt((decay**2).sum(axis=1, keepdims=True))).astype(np.float32),
            map=RandomMap.draw(rng, config.latent, config.visual_width, config.bend),
        )

    def features(self, script: FeatureScript, rng: np.random.Generator) -> Array:
        """Features of all frames, (frames, visual_width)."""
        config, frames = self.config, int(script.length)
        surroundings = np.tile(config.topic_strength * self.topics[script.setting], (frames, 1))
        surroundings += config.video_style * _normal(rng, config.latent)
        happening = np.zeros_like(surroundings)
        for event in script.events:
            swell = np.sin(np.linspace(0.25, 0.75, event.end - event.start, dtype=np.float32) * np.pi)
            happening[event.start : event.end] = swell[:, None] * self._look(event, rng)
        for peak in script.peaks:
            event = peak.event
            # The whole frame is of the other topic: what happens in it, and what it happens in.
            surroundings[event.start : event.end] += config.topic_strength * (
                self.topics[event.topic] - self.topics[script.setting]
            )
            happening[event.start : event.end] = self._look(event, rng)
        noise = self.drift[:frames, :frames] @ _normal(rng, frames, config.latent)
        return self.map((surroundings + happening + config.frame_noise * noise).astype(np.float32))

    def _look(self, event: Activity, rng: np.random.Generator) -> Array:
        """How one event looks this time, (latent,)."""
        concept = self.looks[event.topic] * (self.actions[event.action] + self.objects[event.object])
        look: Array = concept + self.config.event_style * _normal(rng, self.config.latent)
        return np.float32(self.config.event_strength) * look


@dataclass(frozen=True)
class WordMaker:
    """Makes the word features of a sentence."""

    config: FeatureWorldConfig
    row_of: dict[str, int]
    words: Array  # (vocabulary, latent)
    map: RandomMap

    @staticmethod
    def draw(config: FeatureWorldConfig, vocabulary: Vocabulary) -> WordMaker:
        rng = np.random.default_rng((config.seed, 2))
        row_of: dict[str, int] = {}
        vectors: list[Array] = []
        for pair in vocabulary.synonyms:
            meaning = _normal(rng, config.latent)
            for word in pair:
                row_of[word] = len(vectors)
                vectors.append(meaning + config.synonym_distance * _normal(rng, config.latent))
        for word in vocabulary.fillers:
            row_of.setdefault(word, len(vectors))
            vectors.append(_normal(rng, config.latent))
        return WordMaker(
            config, row_of, np.stack(vectors), RandomMap.draw(rng, config.latent, config.query_width, config.bend)
        )

    def features(self, sentence: str, rng: np.random.Generator) -> Array:
        """Each word's state is the word, some of its neighbours, some of the whole sentence: (words, query_width)."""
        words = self.words[[self.row_of[word] for word in sentence.split()]]  # (L, latent)
        around = np.zeros_like(words)
        around[1:] += words[:-1] / 2
        around[:-1] += words[1:] / 2
        states = words + self.config.context * (around + words.mean(axis=0))
        noise = self.config.word_noise * _normal(rng, *words.shape)
        return self.map((states + noise).astype(np.float32))
