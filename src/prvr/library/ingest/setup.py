"""What a new library is made with, and an old one opened with: settings, encoders, recipes, model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from prvr.library.errors import LibraryError
from prvr.library.ingest.frozen import FrozenEmbedding
from prvr.library.ingest.tracks import FRAMES, TEXT, Track
from prvr.library.store.model import describe_model, keep_model
from prvr.library.store.settings import About, LibrarySettings
from prvr.media import Encoder, Recipe, TextEncoder, decoder_name, open_encoder, open_text_encoder

if TYPE_CHECKING:
    from prvr.training import Run

Given = Mapping[str, TextEncoder | None]  # encoders that a caller brought, by track


@dataclass(frozen=True)
class Plan:
    """A library that is about to be made."""

    about: About
    encoders: Given
    run: Run | None

    def keep_model(self, folder: Path) -> None:
        if self.run is not None and self.about.model is not None:
            keep_model(self.run, self.about.model, folder)


def plan_library(settings: LibrarySettings, given: Given) -> Plan:
    """Open the encoders that settings name, or take those that are given; refuse what does not go together."""
    run = None
    if settings.model is not None:
        from prvr.library.ingest.trained import open_run  # torch models of every method: only where one is used

        run = open_run(settings.model)
        settings = settled(settings, run, given_encoder=given[FRAMES] is not None)
    frames = given[FRAMES] or open_encoder(settings.encoder)
    assert isinstance(frames, Encoder)
    recipes = {FRAMES: asdict(_frame_recipe(frames, settings.rate))}
    said = given[TEXT]
    if settings.text_encoder is not None:
        said = said or open_text_encoder(settings.text_encoder)
        recipes[TEXT] = asdict(said.text_recipe())
    if run is not None:
        require_features(run, frames, Recipe.from_dict(recipes[FRAMES]))
    record = None if run is None else describe_model(run)
    return Plan(About(settings, recipes, record), {FRAMES: frames, TEXT: said}, run)


def settled(settings: LibrarySettings, run: Run, *, given_encoder: bool) -> LibrarySettings:
    """Settings with what a model decides; something else that was asked for is refused."""
    from prvr.library.ingest.trained import recipes_of

    frames, _ = recipes_of(run)
    usual = {each.name: each.default for each in fields(settings)}
    if settings.rate not in (usual["rate"], frames.rate):
        raise LibraryError(
            f"{run.path} was trained on {frames.rate:g} frames per second, not {settings.rate:g}: leave --rate out"
        )
    own = settings.encoder if given_encoder or settings.encoder != usual["encoder"] else frames.encoder
    return replace(settings, rate=frames.rate, encoder=own, model=str(run.path.resolve()))


def require_features(run: Run, encoder: Encoder, offered: Recipe) -> None:
    """Refuse an encoder whose features are not those a run was trained on."""
    from prvr.library.ingest.trained import recipes_of

    frames, queries = recipes_of(run)
    frames.require(offered, mine="run", theirs="encoder")
    queries.require(encoder.text_recipe(words=queries.words), mine="run", theirs="encoder")


def require_encoder(about: About, track: str, encoder: TextEncoder, folder: Path) -> None:
    """Refuse an encoder whose vectors cannot be compared with those in the library."""
    if track not in about.recipes:
        raise LibraryError(f"{folder} was made without an encoder of {track}: leave it out, or make it anew")
    stored = Recipe.from_dict(about.recipes[track])
    if isinstance(encoder, Encoder) and track == FRAMES:
        offered = encoder.recipe(about.settings.rate, stored.decoder)
    else:
        offered = encoder.text_recipe()
    stored.require(offered, mine="library", theirs="encoder")


def open_tracks(folder: Path, about: About, given: Given) -> dict[str, Track]:
    """What is searched, with its encoders and its model loaded."""
    settings = about.settings
    frames = given[FRAMES] or open_encoder(settings.encoder)
    assert isinstance(frames, Encoder)
    require_encoder(about, FRAMES, frames, folder)
    if about.model is None:
        made = {FRAMES: Track(FRAMES, FrozenEmbedding.of_frames(frames, settings), settings.storage)}
    else:
        from prvr.library.ingest.trained import TrainedEmbedding
        from prvr.training import Run

        model = TrainedEmbedding(Run(folder / about.model.folder), frames)
        made = {FRAMES: Track(FRAMES, model, settings.storage)}
    if settings.text_encoder is not None:
        said = given[TEXT] or open_text_encoder(settings.text_encoder)
        require_encoder(about, TEXT, said, folder)
        made[TEXT] = Track(TEXT, FrozenEmbedding.of_lines(said), settings.storage)
    return made


def _frame_recipe(encoder: Encoder, rate: float) -> Recipe:
    return encoder.recipe(rate, decoder_name())  # a library can be searched without a decoder, but not made
