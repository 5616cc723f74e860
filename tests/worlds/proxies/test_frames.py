"""Damage, composition, map and noise do what the recipe says, in the amounts it says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from prvr.data import DataError
from prvr.worlds import (
    NOISE_LEVELS,
    Label,
    NoiseLevel,
    ProxyConfig,
    Script,
    add_noise,
    compose_frames,
    damage_labels,
    nearest_texts,
)
from prvr.worlds.proxies.frames import FixedMap

CALM = ProxyConfig(dropped=0, replaced=0, jitter=0, least_jitter=0)
AXES = dict(zip("abcd", np.eye(4, dtype=np.float32), strict=True))


def test_a_frame_is_the_mean_of_what_is_active_plus_its_surroundings() -> None:
    script = Script("v", ("c", "d"), 3.0, (Label(0, 2, "a"), Label(1, 2, "b")))
    states, shown = compose_frames(script, AXES, CALM, 4)
    frames = states[shown]
    assert frames.shape == (6, 4)
    np.testing.assert_allclose(frames[0], np.array([1, 0, 0.25, 0.25]) / np.sqrt(1.125), rtol=1e-6)
    np.testing.assert_allclose(frames[2], np.array([0.5, 0.5, 0.25, 0.25]) / np.sqrt(0.625), rtol=1e-6)
    np.testing.assert_allclose(frames[5], np.array([0, 0, 1, 1]) / np.sqrt(2), rtol=1e-6)
    assert len(states) == 3  # equal frames share one state


def test_where_nothing_is_known_a_frame_is_zero() -> None:
    states, shown = compose_frames(Script("v", (), 1.0, ()), AXES, CALM, 4)
    assert states[shown].tolist() == [[0.0] * 4] * 2


def test_a_tenth_of_the_labels_goes_and_a_tenth_is_mistaken_for_a_near_one() -> None:
    script = Script("v", (), 1000.0, (Label(100, 200, "a"),) * 5000)
    config = ProxyConfig(dropped=0.1, replaced=0.1)
    labels = damage_labels(script, lambda _: ["b", "c"], config, np.random.default_rng(0)).events
    assert len(labels) / 5000 == pytest.approx(0.9, abs=0.015)
    assert sum(label.text != "a" for label in labels) / 5000 == pytest.approx(0.1, abs=0.015)
    assert {label.text for label in labels} == {"a", "b", "c"}
    shifts = np.array([label.start - 100 for label in labels])
    assert shifts.std() == pytest.approx(10.0, rel=0.05)  # a tenth of the label's length
    assert damage_labels(script, lambda _: ["b"], CALM, np.random.default_rng(0)) == script


def test_nearest_never_names_the_text_itself() -> None:
    vectors = {"a": np.array([1, 0]), "b": np.array([0.9, 0.1]), "c": np.array([0, 1]), "d": np.array([-1, 0])}
    as_floats = {name: vector.astype(np.float32) for name, vector in vectors.items()}
    assert nearest_texts(as_floats, 2, block=3) == {"a": ["b", "c"], "b": ["a", "c"], "c": ["b", "a"], "d": ["c", "b"]}
    assert nearest_texts({"a": as_floats["a"]}, 5) == {"a": []}


def test_the_map_is_nonlinear_and_clean_frames_have_unit_deviation() -> None:
    rng = np.random.default_rng(0)
    states = rng.standard_normal((500, 24)).astype(np.float32) / 5
    counts = rng.integers(1, 9, 500)
    fixed = FixedMap.draw(24, ProxyConfig()).standardised(states, counts)
    clean = np.repeat(fixed(states), counts, axis=0)
    np.testing.assert_allclose(clean.mean(0), 0, atol=1e-3)
    np.testing.assert_allclose(clean.std(0), 1, atol=1e-3)
    assert np.abs(fixed(2 * states) + fixed(0 * states) - 2 * fixed(states)).mean() > 0.05


@pytest.mark.parametrize("level", ["lo", "mid", "hi"])
def test_noise_has_its_level_in_either_shape(level: NoiseLevel) -> None:
    of_frame, of_video = NOISE_LEVELS[level]
    silent, memory = np.zeros((4000, 16), np.float32), 0.9
    found = {}
    for shape in ("correlated", "independent"):
        config = replace(CALM, noise=level, shape=shape, memory=memory)
        noise = add_noise(silent, config, np.random.default_rng(1))
        own = noise - noise.mean(0)
        assert own.std() == pytest.approx(of_frame, rel=0.1)
        found[shape] = float((own[1:] * own[:-1]).mean() / (own**2).mean())
    styles = [add_noise(silent[:400], replace(CALM, noise=level), np.random.default_rng(n)).mean(0) for n in range(60)]
    drift = of_frame**2 * (1 + memory) / (1 - memory) / 400  # what correlated noise leaves in a mean of 400 frames
    assert np.std(styles) == pytest.approx(np.sqrt(of_video**2 + drift), rel=0.15)
    assert found["correlated"] == pytest.approx(memory, abs=0.03)
    assert found["independent"] == pytest.approx(0, abs=0.03)


def test_numbers_that_make_no_sense_are_refused() -> None:
    for wrong in ({"width": 0}, {"rate": 0.0}, {"dropped": 0.6, "replaced": 0.5}, {"memory": 1.0}, {"gain": -1.0}):
        with pytest.raises(DataError, match="proxy"):
            ProxyConfig(**wrong)
