"""Features whose rows are windows of several frames: what `prvr data extract` needs for InternVideo2."""

from __future__ import annotations

from dataclasses import dataclass

from prvr.data import Collection, DataError, KnownFeature
from prvr.media import Extraction, TextEncoder, WindowEncoder, open_window_encoder, open_word_encoder

_SECONDS = {"qvhighlights": 2.0, "qvhighlight": 2.0}  # of a window, as published
_USUAL_SECONDS = 1.0  # of other datasets


@dataclass(frozen=True)
class WindowedFeature:
    """A known feature, the dataset that gets it, and the models that the user named."""

    feature: KnownFeature
    files: Collection
    encoder: str | None
    text_encoder: str | None

    def open(self, window: float | None, pool: int) -> tuple[Extraction, TextEncoder | None]:
        """How frames are made, and what encodes sentences; None where their words are there already.

        Args:
            window: seconds of a row; None: as published for the dataset.
            pool: rows whose mean is one.

        Raises:
            DataError: something is missing, or the models are others than the feature's.
        """
        seconds = _SECONDS.get(self.files.name, _USUAL_SECONDS) if window is None else window
        if not 0.01 <= seconds <= 3600:
            raise DataError(f"--window must be between 0.01 and 3600 seconds, not {seconds:g}.")
        if self.encoder is None:
            raise DataError(
                f"{self.feature.name} needs --encoder: InternVideo2's weights, as a file or a folder (docs/research.md "
                "says which)."
            )
        if self.text_encoder is None and not self._has_words():
            raise DataError(
                f"{self.feature.name} needs --text-encoder: the folder of the LLaMA that encodes the captions. Where "
                f"the published words are in {self.files.text} already, frames alone are made without it."
            )
        words = None if self.text_encoder is None else self._open_words(self.text_encoder)
        frames = self._open_frames(self.encoder)
        return Extraction(frames, frames.frames / seconds, pool=pool), words

    def _open_words(self, name: str) -> TextEncoder:
        words, width = open_word_encoder(name), self.feature.query_width
        if words.word_width != width:
            raise DataError(
                f"{self.feature.name} is {width} wide for words, but {name} makes {words.word_width}: another model."
            )
        return words

    def _open_frames(self, place: str) -> WindowEncoder:
        encoder, width = open_window_encoder(place), self.feature.visual_width
        if encoder.name.endswith(("-1b", "-6b")) and encoder.name != self.feature.encoder:
            raise DataError(f"{self.feature.name} is {self.feature.title}, but {place} is {encoder.name}.")
        if width not in (None, encoder.width):
            raise DataError(
                f"{self.feature.name} is {width} wide for frames, but {place} makes {encoder.width}: another model."
            )
        return encoder

    def _has_words(self) -> bool:
        """Whether words that belong to the feature are there; the usual ones of other features do not count."""
        try:
            found = self.files.query_features
        except DataError:
            return False
        names = {name for files in self.feature.files for name in files.words}
        return bool(names & {found.name, found.stem})
