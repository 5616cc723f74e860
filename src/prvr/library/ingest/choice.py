"""Which encoder a library gets if nobody names one, and what ``plain`` cannot do, in one sentence for every place."""

from __future__ import annotations

from prvr.library.errors import LibraryError
from prvr.library.ingest.tracks import FRAMES
from prvr.library.store.settings import LibraryRecord
from prvr.media import EncoderPreset, PlainEncoder, prepared_encoders, presets

PLAIN_LIMITS = "knows colours, simple shapes and motion only"


def usual_encoder() -> EncoderPreset:
    """The image–text encoder that is recommended: the first of ``prvr prepare --list``."""
    return presets()[0]


def default_encoder() -> str:
    """The image–text encoder that was prepared on this machine; of several the first in ``prvr prepare --list``.

    Raises:
        LibraryError: none was prepared. The weight-free ``plain`` is never taken without being named.
    """
    prepared = prepared_encoders()
    if prepared:
        return prepared[0]
    usual = usual_encoder()
    raise LibraryError(
        "no image–text encoder is prepared on this machine, so the encoder must be chosen: `prvr prepare "
        f"{usual.name}` fetches one (about {usual.megabytes:,} MB; then run this again), or name plain (`--encoder "
        f'plain`, in Python encoder="plain"), which needs no download but {PLAIN_LIMITS}'
    )


def library_limits(record: LibraryRecord) -> str | None:
    """What a reader must know about the answers of a library with ``plain``; None for other encoders and models."""
    if record.model is not None or record.recipes[FRAMES]["encoder"] != PlainEncoder.name:
        return None
    return (
        f"This library {PLAIN_LIMITS}, because its encoder is plain; "
        f"`prvr library reindex --encoder {usual_encoder().name}` changes that."
    )
