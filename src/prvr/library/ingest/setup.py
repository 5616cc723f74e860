"""Create and open a library's encoders and model, and refuse what does not go together."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prvr.library.errors import LibraryError
from prvr.library.ingest.choice import default_encoder
from prvr.library.ingest.embedding import Embedding
from prvr.library.ingest.frozen import FrozenEmbedding
from prvr.library.ingest.tracks import FRAMES, TEXT, Track
from prvr.library.store.model import describe_model, keep_model
from prvr.library.store.settings import LibraryRecord, LibrarySettings
from prvr.library.stores import Store
from prvr.media import Encoder, Recipe, TextEncoder, decoder_name, open_encoder, open_text_encoder

if TYPE_CHECKING:
    from prvr.training import Run

EncoderOverrides = Mapping[str, TextEncoder | None]  # by track: an encoder that the caller opened, or None


@dataclass(frozen=True)
class LibraryPlan:
    """A library that is about to be created."""

    record: LibraryRecord
    encoders: EncoderOverrides
    run: Run | None

    def keep_model(self, folder: Path) -> None:
        """Copy the run's weights into the library's folder."""
        if self.run is not None and self.record.model is not None:
            keep_model(self.run, self.record.model, folder)


def plan_library(settings: LibrarySettings, encoders: EncoderOverrides, given: Collection[str] = ()) -> LibraryPlan:
    """Open the encoders that the settings name, unless they are given, and check that everything fits together.

    Without a name, a model or an open encoder, the image–text encoder that is prepared is taken.

    ``given``: names of the settings that were asked for, even if their value is the usual one.
    """
    run = None
    if settings.model is not None:
        from prvr.library.ingest.trained import open_run  # imports the models of every method

        run = open_run(settings.model)
        settings = settings_for_model(
            settings, run, given_encoder=encoders.get(FRAMES) is not None, given_rate="rate" in given
        )
    elif not settings.encoder and encoders.get(FRAMES) is None:
        settings = replace(settings, encoder=default_encoder())
    frames = encoders.get(FRAMES) or open_encoder(settings.encoder)
    assert isinstance(frames, Encoder)
    recipes = {FRAMES: asdict(frames.recipe(settings.rate, decoder_name(settings.decoder), settings.repeats))}
    text = encoders.get(TEXT)
    if settings.text_encoder is not None:
        text = text or open_text_encoder(settings.text_encoder)
        recipes[TEXT] = asdict(text.text_recipe())
    if run is not None:
        _require_features(run, frames, Recipe.from_dict(recipes[FRAMES]))
    model = None if run is None else describe_model(run)
    return LibraryPlan(LibraryRecord(settings, recipes, model), {FRAMES: frames, TEXT: text}, run)


def plan_with_encoders(
    encoder: str | Encoder | None, text_encoder: str | TextEncoder | None, **settings: Any
) -> LibraryPlan:
    """Plan a library whose encoders are named, or open already. See ``plan_library``.

    ``settings``: the other fields of ``LibrarySettings``.
    """
    chosen = LibrarySettings(
        encoder="" if encoder is None else encoder if isinstance(encoder, str) else encoder.name,
        text_encoder=text_encoder if text_encoder is None or isinstance(text_encoder, str) else text_encoder.name,
        **settings,
    )
    opened = {FRAMES: encoder, TEXT: text_encoder}
    encoders = {track: None if isinstance(each, str) else each for track, each in opened.items()}
    return plan_library(chosen, encoders, given=settings)


def settings_for_model(
    settings: LibrarySettings, run: Run, *, given_encoder: bool, given_rate: bool
) -> LibrarySettings:
    """Take encoder and rate from a trained run. Refuses settings that contradict it."""
    from prvr.library.ingest.trained import recipes_of

    frames, _ = recipes_of(run)
    defaults = {each.name: each.default for each in fields(settings)}
    if settings.rate != frames.rate and (given_rate or settings.rate != defaults["rate"]):
        raise LibraryError(
            f"{run.path} was trained on {frames.rate:g} frames per second, not {settings.rate:g}: leave --rate out"
        )
    keeps_encoder = given_encoder or settings.encoder != defaults["encoder"]
    encoder = settings.encoder if keeps_encoder else frames.encoder
    return replace(settings, rate=frames.rate, encoder=encoder, model=str(run.path.resolve()))


def _require_features(run: Run, encoder: Encoder, offered: Recipe) -> None:
    """Refuse an encoder whose features are not those that the run was trained on."""
    from prvr.library.ingest.trained import recipes_of

    frames, queries = recipes_of(run)
    frames.require(offered, mine="run", theirs="encoder")
    queries.require(encoder.text_recipe(words=queries.words), mine="run", theirs="encoder")


def require_encoder(record: LibraryRecord, track: str, encoder: TextEncoder, library: str) -> None:
    """Refuse an encoder whose vectors cannot be compared with those in the library."""
    if track not in record.recipes:
        raise LibraryError(
            f"{library} was created without an encoder for {track}: leave that encoder out, or create another library"
        )
    stored = Recipe.from_dict(record.recipes[track])
    if isinstance(encoder, Encoder) and track == FRAMES:
        offered = encoder.recipe(record.settings.rate, stored.decoder, stored.repeats)
    else:
        offered = encoder.text_recipe()
    stored.require(offered, mine="library", theirs="encoder")


def open_tracks(store: Store, encoders: EncoderOverrides) -> dict[str, Track]:
    """The library's tracks, with encoders and model loaded."""
    record, settings = store.record, store.record.settings
    frames = encoders.get(FRAMES) or open_encoder(settings.encoder)
    assert isinstance(frames, Encoder)
    require_encoder(record, FRAMES, frames, store.address)
    if record.model is None:
        embedding: Embedding = FrozenEmbedding.of_frames(frames, settings)
    else:
        from prvr.library.ingest.trained import TrainedEmbedding
        from prvr.training import Run

        embedding = TrainedEmbedding(Run(store.model_folder()), frames)
    tracks = {FRAMES: Track(FRAMES, embedding, settings.storage, settings.repeats, settings.decoder)}
    if settings.text_encoder is not None:
        text = encoders.get(TEXT) or open_text_encoder(settings.text_encoder)
        require_encoder(record, TEXT, text, store.address)
        tracks[TEXT] = Track(TEXT, FrozenEmbedding.of_lines(text), settings.storage)
    return tracks
