"""Features whose rows are windows of several frames: what `prvr data extract` needs for InternVideo2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from prvr.data import Collection, DataError, KnownFeature, open_feature_store, stored_name
from prvr.media import Extraction, TextEncoder, WindowEncoder, model_folder, open_window_encoder, open_word_encoder

NOT_FOR_WINDOWS = {  # options of other features, and why
    "rate": "eight frames are a row, and --window says how long it lasts",
    "repeats": "a row is made of all frames of its window",
    "text": "its captions are always kept word by word",
    "workers": "it uses all cores or the GPU by itself",
}

_SECONDS = {"qvhighlights": 2.0, "qvhighlight": 2.0}  # of a window, as published
_USUAL_SECONDS = 1.0  # of other datasets
_WIDTH = 768  # of the vectors, in both sizes


@dataclass(frozen=True)
class WindowedFeature:
    """A known feature, the dataset that gets it, and the models that the user named."""

    feature: KnownFeature
    files: Collection
    captions: Sequence[str]  # their ids
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
        if self.text_encoder is None:
            self._require_words()
        else:
            model_folder(self.text_encoder)  # refuses one that is not there, before the tower is read
        frames = self._open_frames(self.encoder)  # the smaller one first
        words = None if self.text_encoder is None else self._open_words(self.text_encoder)
        return Extraction(frames, frames.frames / seconds, pool=pool), words

    def _open_words(self, name: str) -> TextEncoder:
        words, width = open_word_encoder(name), self.feature.query_width
        if words.word_width != width:
            raise DataError(
                f"{self.feature.name} is {width} wide for words, but {name} makes {words.word_width}: another model."
            )
        return words

    def _open_frames(self, place: str) -> WindowEncoder:
        encoder = open_window_encoder(place)
        if encoder.name != self.feature.encoder:
            raise DataError(f"{self.feature.name} is {self.feature.title}, but {place} is {encoder.name}.")
        if encoder.width != _WIDTH:
            raise DataError(
                f"{self.feature.name} is {_WIDTH} wide for frames, but {place} makes {encoder.width}: another model."
            )
        return encoder

    def _require_words(self) -> None:
        """Refuse to make frames alone unless all captions have words; the usual ones of other features do not count."""
        try:
            found = self.files.query_features
        except DataError:
            found = None
        names = {name for files in self.feature.files for name in files.words_of(self.files.name)}
        if found is None or not names & {found.name, found.stem} or (found.is_dir() and not any(found.iterdir())):
            raise DataError(
                f"{self.feature.name} needs --text-encoder: the folder of the LLaMA that encodes the captions. Where "
                f"the published words are in {self.files.text} already, frames alone are made without it."
            )
        with open_feature_store(found) as words:
            missing = [name for name in self.captions if stored_name(words, name) is None]
            width = words.width
        if missing:
            raise DataError(
                f"{found} has no words of {len(missing)} of {len(self.captions)} captions, such as {missing[0]}. Add "
                "them, or give --text-encoder, which encodes all."
            )
        if width != self.feature.query_width:
            raise DataError(
                f"{self.feature.name} is {self.feature.query_width} wide for words, but {found} is {width}: another "
                "model's. Remove it, or give --text-encoder."
            )
