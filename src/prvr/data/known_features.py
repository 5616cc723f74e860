"""Published features that are known by name: their files, their widths, and which encoder makes the same.

``docs/research.md`` lists the sources of these facts, and what could not be verified.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from prvr.data.errors import DataError
from prvr.errors import did_you_mean


@dataclass(frozen=True)
class FeatureFiles:
    """The names under which somebody publishes a feature; ``{}`` stands for the collection.

    A name is a folder, or an HDF5 file without its ending. ``A+B`` is two of them side by side.
    """

    by: str
    frames: str  # under FeatureData
    words: tuple[str, ...]  # under TextData; the first that exists

    def words_of(self, collection: str) -> list[str]:
        """The names of its words in a collection; those that are published for another dataset are none of them."""
        own = [name for name in _LLAMA if collection.startswith(name.partition("_")[0])] or _LLAMA
        return [name.format(collection) for name in self.words if name in own or name not in _LLAMA]


@dataclass(frozen=True)
class KnownFeature:
    """A feature, by whomever it is published."""

    name: str
    title: str
    visual_width: int | None  # None: not verified
    query_width: int | None
    files: tuple[FeatureFiles, ...]
    encoder: str = ""  # the encoder that makes it from videos; empty: none that we can run

    @property
    def windowed(self) -> bool:
        """Whether several frames make one row, by an encoder whose weights the user names."""
        return self.encoder.startswith("internvideo2")


_LLAMA = tuple(f"{name}_internvideo2_llama_text_feature" for name in ("qvhighlight", "charade_sta"))


def _moment_detr(*pairs: tuple[str, str]) -> tuple[FeatureFiles, ...]:
    """One .npz file per video and query, as moment-retrieval methods publish them; folder names differ."""
    makers = ("Moment-DETR", "Lighthouse", "UniVTG")
    return tuple(FeatureFiles(by, frames, (words,)) for by, (frames, words) in zip(makers, pairs, strict=True))


KNOWN_FEATURES: dict[str, KnownFeature] = {
    feature.name: feature
    for feature in (
        KnownFeature(
            "clip-b32", "CLIP ViT-B/32", 512, 512,
            (
                FeatureFiles("UEM's authors", "new_clip_vit_32_{}_vid_features",
                             ("clip_ViT_B_32_{}_query_feat_ours_word",)),
                *_moment_detr(("clip_features", "clip_text_features"), ("clip", "clip_text"), ("vid_clip", "txt_clip")),
                FeatureFiles("prvr", "clip-b32", ("clip-b32",)),
            ),
            encoder="clip-base",
        ),
        KnownFeature(
            "clip-l14", "CLIP ViT-L/14", 768, 768,
            (
                FeatureFiles("MSC-PRVR's authors", "{}_clip_L14", ("{}_clip_L14",)),
                FeatureFiles("prvr", "clip-l14", ("clip-l14",)),
            ),
            encoder="clip",
        ),
        KnownFeature(
            "slowfast-clip", "SlowFast and CLIP ViT-B/32 side by side", 2816, 512,
            (
                FeatureFiles("MSC-PRVR's authors", "{}_slowfast_clip", ("{}_slowfast_clip", "{}_slowfast_clip_text")),
                *_moment_detr(
                    ("slowfast_features+clip_features", "clip_text_features"), ("slowfast+clip", "clip_text"),
                    ("vid_slowfast+vid_clip", "txt_clip"),
                ),
            ),
        ),
        KnownFeature(
            "internvideo2", "InternVideo2 6B, words of its LLaMA", 768, 4096,
            (
                FeatureFiles("InternVideo2's authors", "qvhighlight_internvideo2_videoclip_6b_w2s",
                             _LLAMA[:1]),
                FeatureFiles("InternVideo2's authors", "charade_sta_internvideo2_videoclip_6b_w1s", _LLAMA[1:]),
                FeatureFiles("you or prvr", "internvideo2", ("internvideo2", *_LLAMA)),
            ),
            encoder="internvideo2-6b",
        ),
        KnownFeature(
            "internvideo2-1b", "InternVideo2 1B, words of the 6B model's LLaMA", None, 4096,
            (
                FeatureFiles("InternVideo2's authors", "qvhighlight_internvideo2_videoclip_1b_w2s",
                             _LLAMA[:1]),
                FeatureFiles("InternVideo2's authors", "charade_sta_internvideo2_videoclip_1b_w1s", _LLAMA[1:]),
                FeatureFiles("you or prvr", "internvideo2-1b", ("internvideo2-1b", "internvideo2", *_LLAMA)),
            ),
            encoder="internvideo2-1b",
        ),
    )
}  # fmt: skip


def known_feature(name: str) -> KnownFeature:
    """The feature of this short name.

    >>> known_feature("clip-l14").visual_width
    768

    Raises:
        DataError: there is none; the message lists them.
    """
    if name not in KNOWN_FEATURES:
        hint = did_you_mean(name, KNOWN_FEATURES)
        raise DataError(f"no features are known as {name!r}.{hint} Known are {', '.join(KNOWN_FEATURES)}.")
    return KNOWN_FEATURES[name]


def recognise(collection: str, visual_feature: str) -> tuple[KnownFeature, FeatureFiles] | None:
    """Which known feature is published under a name, and by whom.

    >>> recognise("tvr", "tvr_clip_L14")[0].name
    'clip-l14'
    """
    return next(
        ((feature, files) for feature, files in _published() if files.frames.format(collection) == visual_feature), None
    )


def _published() -> Iterator[tuple[KnownFeature, FeatureFiles]]:
    for feature in KNOWN_FEATURES.values():
        for files in feature.files:
            yield feature, files
