"""What `prvr data make` and `prvr data extract` share: choosing an encoder, and reporting what could not be read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from prvr.cli.console import shown_name
from prvr.data import KNOWN_FEATURES, DataError, known_feature
from prvr.library import default_encoder
from prvr.media import Encoder, ExtractionResult, TextFeatures, open_encoder
from prvr.terminal import Console

_SHOWN = 20  # files that are listed one by one


def open_feature_encoder(
    features: str | None, name: str | None, text: TextFeatures, workers: int, console: Console
) -> Encoder:
    """The encoder that was named, or the one that makes published features, or the one that is prepared here.

    Raises:
        DataError: nothing here makes these features, or the encoder's are of other widths.
    """
    known = None if features is None else known_feature(features)
    if known is not None and not known.encoder:
        able = ", ".join(each.name for each in KNOWN_FEATURES.values() if each.encoder and not each.windowed)
        raise DataError(
            f"{known.name} features are read, but cannot be made here (docs/research.md says why); choose {able}."
        )
    if known is not None and known.windowed:
        raise DataError(f"{known.name} features are made by prvr data extract, for a dataset that has captions.")
    name = name or (known.encoder if known is not None else None)
    if name is None:
        name = default_encoder()
        console.print(f"encoder: {name}, which is prepared on this machine (--encoder names another)")
    encoder = open_encoder(name)
    if workers > 1 and encoder.weights != "none":
        raise DataError(f"--workers is for the encoder plain: {encoder.name} uses all cores or the GPU by itself.")
    if known is not None:
        words = encoder.word_width if text == "words" else encoder.width
        if (encoder.width, words) != (known.visual_width, known.query_width):
            raise DataError(
                f"{known.name} ({known.title}) is {known.visual_width} wide for frames and {known.query_width} for "
                f"words, but {encoder.name} makes {encoder.width} and {words}: it is another model."
            )
    return encoder


def require_sampling(rate: float, pool: int, repeats: float) -> None:
    """Refuse a rate, a pooling or a threshold without meaning, which would only be found out after hours."""
    if not 0 < rate <= 1000:
        raise DataError(f"--rate must be above 0 frames per second, not {rate:g}.")
    if not 1 <= pool <= 10_000:
        raise DataError(f"--pool must be 1 (every frame) or more, not {pool}.")
    if not 0 <= repeats <= 255:
        raise DataError(f"--repeats must lie between 0 (encode every frame) and 255 levels, not {repeats:g}.")


def print_failures(
    videos: Mapping[str, Path], made: ExtractionResult, console: Console, unreadable: Mapping[str, str] | None = None
) -> bool:
    """List the files that are damaged or could not be read; returns whether some could not."""
    failed = {**(unreadable or {}), **{str(videos[name]): reason for name, reason in made.failed.items()}}
    damaged = {str(videos[name]): reason for name, reason in made.damaged.items()}
    for mark, files in (("damaged", damaged), ("failed", failed)):
        for path, reason in list(files.items())[:_SHOWN]:
            console.print(f"{mark} {shown_name(path)}: {reason}")
        if len(files) > _SHOWN:
            console.print(f"… and {len(files) - _SHOWN} more")
    return bool(failed)
