"""Recipes travel as JSON and refuse to be mixed."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prvr.media import EncoderError, Recipe, RecipeMismatch

RECIPE = Recipe("plain-1", "none", 296, "48x48 stretch", "colours", 1.0, "pyav 18.1.0")


def test_json_and_back() -> None:
    assert Recipe.from_json(RECIPE.to_json()) == RECIPE


def test_a_mismatch_shows_both() -> None:
    with pytest.raises(RecipeMismatch) as caught:
        RECIPE.require(replace(RECIPE, rate=2.0, weights="ab" * 32), mine="library", theirs="these features")
    said = str(caught.value)
    assert "differ in weights, rate" in said
    assert "library" in said
    assert "these features" in said
    assert "2.0" in said


def test_versions_of_a_decoder_do_not_count() -> None:
    RECIPE.require(replace(RECIPE, decoder="pyav 99"))
    with pytest.raises(RecipeMismatch):
        RECIPE.require(replace(RECIPE, decoder="torchcodec 0.13"))


BROKEN = st.sampled_from(["{}", "[]", "null", '{"encoder": 1, "rate": "x"}', "[" * 9999])


@given(st.one_of(st.text(max_size=50), BROKEN))
def test_anything_else_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(EncoderError, match="recipe cannot be read"):
        Recipe.from_json(text)


def test_long_fields_are_shown_where_they_differ() -> None:
    same = "bicubic short side 224 × 0.00392157 mean 0.481455 0.457827 0.408211; "
    ours, theirs = (
        Recipe("clip", preprocessing=same + end) for end in ("sentences as typed", "sentences with a prompt")
    )
    with pytest.raises(RecipeMismatch) as caught:
        ours.require(theirs)
    assert "sentences as typed" in str(caught.value)
    assert "sentences with a prompt" in str(caught.value)
