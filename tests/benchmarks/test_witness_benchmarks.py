"""The benchmarks of witnesses: words point at frames that are counted right, and both libraries answer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from prvr.data import Moment
from prvr.library import Library

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import witness_search
import witness_words
from witness_words import BASE, PLACE, Pointer

ROOT = Path(__file__).parents[2]


def test_a_frame_is_inside_if_its_middle_is() -> None:
    several = Moment("a", 0.0, 2.0, 8.0, more=((6.0, 9.0),))
    assert witness_words.frames_inside(several, 8).tolist() == [True] * 2 + [False] * 4 + [True] * 2
    assert witness_words.frames_inside(Moment("a", 2.4, 2.6, 8.0), 8).tolist() == [False, False, True] + [False] * 5


def test_words_of_a_world_are_known_by_what_they_are_about(tmp_path: Path) -> None:
    assert [*map(witness_words.kinds_of_words(tmp_path), ("the", "crate"))] == ["other word", "content word"]
    (tmp_path / "world.json").write_text('{"config": {"frames": [40, 160], "actions": 2}}')
    kind_of = witness_words.kinds_of_words(tmp_path)
    assert [*map(kind_of, ("shuts", "crate", "galley", "the", "lifts"))] == [
        "action",
        "object",
        "place",
        "other word",
        "other word",  # this world has two actions
    ]


def test_shares_and_differences_are_those_counted_by_hand() -> None:
    """Two runs of two videos: 3 of 4 actions are right, and the base is right in one video."""
    runs = [
        [
            Pointer(BASE, "a", True, 0.25, True, True),
            Pointer("action", "a", True, 0.25, True, True),
            Pointer("action", "b", right, 0.25, False, True),
            Pointer("action, stranger", "b", False, 0.25, False, True),
        ]
        for right in (True, False)
    ]
    rows = witness_words.summarise(runs, draws=200)
    assert rows["action"].inside == (100.0, 50.0)
    assert rows["action"].chance == 25.0
    assert rows["action"].above_chance.delta == pytest.approx(50.0)
    assert rows["action"].against_base.delta == pytest.approx(25.0)
    assert rows["action"].against_place.delta == pytest.approx(-25.0)
    assert rows["all words"].count == 2
    assert rows["all words, stranger"].inside == (0.0, 0.0)
    assert PLACE not in rows


@pytest.fixture(scope="module", params=["raw", "both"])
def libraries(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Library]:
    folder, encoder = tmp_path_factory.mktemp("libraries"), witness_search.WordEncoder(16)
    return witness_search.make_libraries(folder, 6, 20, encoder, request.param)


def test_both_libraries_hold_the_same_videos_and_one_has_a_witness(libraries: dict[str, Library]) -> None:
    without, found = (libraries[name].search(witness_search.sentence(0)) for name in ("without", "with"))
    assert {hit.video.name for hit in without} == {hit.video.name for hit in found}
    assert "words" not in without[0].to_dict()["evidence"]
    assert len(found[0].to_dict()["evidence"]["words"]["words"]) == 8


def test_searches_are_timed_in_turns(libraries: dict[str, Library]) -> None:
    order: list[tuple[str, int]] = []
    names = {id(library): name for name, library in libraries.items()}
    taken = witness_search.in_turns(libraries, lambda library, number: order.append((names[id(library)], number)), 2, 1)
    assert {name: each.shape for name, each in taken.items()} == {"without": (2, 2), "with": (2, 2)}
    assert sorted(order[-4:]) == [("with", 0), ("with", 1), ("without", 0), ("without", 1)]
    table = {
        name: np.array([[seconds, 2 * seconds]] * 3, np.float32)
        for name, seconds in (("without", 0.01), ("with", 0.012))
    }
    assert witness_search.line("warm", table) == "warm: 10.0 → 12.0 ms, × 1.20; 20.0 → 24.0 ms of cores, × 1.20"


@pytest.mark.slow
def test_the_whole_benchmark_runs() -> None:
    flags = ["--videos", "4", "--minutes", "0.3", "--width", "16", "--searches", "2", "--first", "1"]
    command = [sys.executable, str(ROOT / "benchmarks" / "witness_search.py"), *flags]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert "32 in one pass" in ended.stdout
