"""The demos run end to end (shortened here; ``make demo`` runs all of it)."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

from prvr.cli import demo, demo_features, demo_rendered
from prvr.cli import main as prvr
from prvr.cli.demo_picture import film_strip
from prvr.library import Library
from prvr.training import TrainConfig, load_preset
from prvr.worlds import FEATURE_SIZES, RENDERED_SIZES, plan_world, render_world


def short(name: str) -> TrainConfig:
    config = load_preset(name)
    stage = dataclasses.replace(config.trace_stage, epochs=2, fusion_start=0, fusion_ramp=0, warmup_epochs=0)
    return dataclasses.replace(
        config, backbone_stage=dataclasses.replace(config.backbone_stage, epochs=2), trace_stage=stage
    )


@pytest.mark.slow
def test_the_demo_draws_learns_indexes_and_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo_rendered, "load_preset", short)
    monkeypatch.setitem(RENDERED_SIZES, "demo", RENDERED_SIZES["tiny"])
    out = tmp_path / "demo"
    assert prvr(["demo", "--out", str(out), "--workers", "1"]) == 0
    text = capsys.readouterr().out
    assert all(step in text for step in ("1/5", "2/5", "3/5", "4/5", "5/5", "SumR", "moment IoU"))
    world = plan_world(out / "films", RENDERED_SIZES["tiny"])
    shown = text[text.index("4/5") : text.index("5/5")]
    assert all(query.sentence in shown for query in world.queries["test"][:5])  # the first ones, not chosen ones
    assert shown.count("✓") + shown.count("✗") == 5
    assert "refused: " in shown
    what, how_long = (line for line in text.splitlines() if line.startswith(("Shown: ", "Done in ")))
    assert f"of {len(world.queries['test'])} sentences about {len(world.scripts['test'])} unseen films" in what
    assert "without training). Of sentences that are true of none," in what
    assert how_long.startswith("Done in ")
    assert f"prvr serve {out / 'library'}" in text  # nobody is there to look at the page
    assert (out / "evidence.png").stat().st_size > 10_000
    lib = Library.open(out / "library")
    assert lib.record.model is not None
    assert {video.path.stem[:4] for video in lib.videos()} == {"test"}  # unseen films alone
    assert lib.verify().ok


def test_the_film_strip_shows_the_found_moment(tmp_path: Path) -> None:
    """Even a moment that is shorter than a stretch is in it, and no picture outside it is marked."""
    world = render_world(tmp_path / "films", dataclasses.replace(RENDERED_SIZES["tiny"], train=1, val=1, test=1))
    (script,) = world.scripts["test"]
    strip = film_strip(world.videos[script.video], script.length, 3.05, 3.3)
    assert len(strip) == 8
    assert [still.time for still in strip] == sorted(still.time for still in strip)
    assert any(still.found for still in strip)
    assert all(still.found == (3.05 < still.time < 3.3) for still in strip)


def test_the_page_opens_where_somebody_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[Path] = []
    monkeypatch.setattr("prvr.cli.serve.open_page", lambda library, options: opened.append(library.folder))
    empty = lambda out, *_: (Library.create(out / "library", encoder="plain"), "Shown: nothing.")  # noqa: E731
    monkeypatch.setattr(demo, "rendered_demo", empty)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert prvr(["demo", "--out", str(tmp_path / "demo")]) == 0
    assert opened == [tmp_path / "demo" / "library"]
    monkeypatch.setenv("DEMO_SERVE", "0")
    assert prvr(["demo", "--out", str(tmp_path / "demo")]) == 0
    assert len(opened) == 1
    assert "search it in a browser: prvr serve" in capsys.readouterr().out


def test_an_interrupted_demo_ends_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "rendered_demo", stop)
    assert prvr(["demo", "--out", str(tmp_path / "demo")]) == 130
    assert "starts from the beginning" in capsys.readouterr().out


@pytest.mark.slow
def test_the_demo_of_features_ends_with_a_table_and_a_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo_features, "load_preset", short)
    monkeypatch.setitem(FEATURE_SIZES, "demo", dataclasses.replace(FEATURE_SIZES["demo"], train=64, val=20, test=30))
    out = tmp_path / "demo"
    for _ in range(2):  # a second demo replaces the first
        assert prvr(["demo", "--out", str(out), "--world", "features"]) == 0
        text = capsys.readouterr().out
        assert all(step in text for step in ("1/4", "2/4", "3/4", "4/4", "SumR", "Shown: ", "Done in"))
    picture = out / "correction.png"
    assert picture.stat().st_size > 10_000 if picture.exists() else "improved no rank" in text


def test_the_demo_never_empties_a_folder_it_did_not_make(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.txt").write_text("keep", encoding="utf-8")
    assert prvr(["demo", "--out", str(tmp_path)]) == 1
    assert "was not made by a demo" in capsys.readouterr().err
    assert (tmp_path / "mine.txt").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
