"""The correction's picture is drawn from evidence, without a display, and says what it must."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from prvr.evaluation import Correction, EvidenceCurves, correction_figure, save_figure
from prvr.trace import PairEvidence

CASE = Correction(0, 0, 1, 2, 1, -0.0009, 0.0021)


def curves(name: str, frames: int, peak: int, registers: int = 6, **more: object) -> EvidenceCurves:
    bump = np.exp(-(((np.arange(frames) - peak) / 4.0) ** 2))
    direct, support = 0.4 + 0.5 * bump, np.full(frames, 0.5)
    return EvidenceCurves(name, direct, support, direct + 0.3 * support, np.full(registers, 1 / registers), **more)  # type: ignore[arg-type]


def evidence() -> PairEvidence:
    """Two pairs: videos of four frames, the second with one padded frame."""
    direct = torch.tensor([[0.1, 0.9, 0.2, 0.3], [0.5, 0.4, 0.88, -torch.inf]])
    expected = torch.zeros(2, 4)
    expected[1, 2] = 0.74
    return PairEvidence(
        direct, expected, expected, direct + 0.3, direct, torch.full((2, 2), 0.5), torch.zeros(2)
    )  # fmt: skip


def test_curves_leave_out_padded_frames_and_know_the_gap() -> None:
    video = EvidenceCurves.of(evidence(), 1, "VID02", duration=30.0)
    assert len(video.direct) == len(video.expected_support) == len(video.routed) == 3
    assert (video.direct_peak, video.routed_peak) == (2, 2)
    assert video.unsupported_gap == pytest.approx(0.88 - 0.74)  # the paper's example
    assert video.unsupported_gap == pytest.approx(float(evidence().unsupported_gap[1]))
    assert video.times(in_seconds=True).tolist() == [5.0, 15.0, 25.0]


def test_both_files_are_written_and_repeat_byte_for_byte(tmp_path: Path) -> None:
    truth = curves("VID01", 40, 12, duration=30.0, windows=((8.0, 11.0), (20.0, 22.0)))
    negative = curves("VID02", 60, 45, duration=41.0)
    written = [
        save_figure(correction_figure("a person opens a door", CASE, truth, negative), tmp_path / folder / "v1.2")
        for folder in ("one", "two")
    ]
    (png, svg), (_, again) = written
    assert (png.name, svg.name) == ("v1.2.png", "v1.2.svg")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert png.stat().st_size > 20_000
    assert svg.read_bytes() == again.read_bytes()


def test_the_heading_holds_sentence_ranks_and_margins() -> None:
    figure = correction_figure("costs $5 or $6", CASE, curves("a", 20, 3), curves("b", 30, 29, registers=32))
    said = " ".join(text.get_text() for text in figure.texts)
    assert "costs $5 or $6" in said
    assert "rank 2 → 1" in said
    assert "−0.0009 → +0.0021" in said
    assert figure.axes[2].get_xlabel() == "frame"  # no durations given


def test_a_known_moment_is_shaded_and_seconds_need_both_durations() -> None:
    truth = curves("a", 20, 3, duration=10.0, windows=((1.0, 2.0), (4.0, 5.0)))
    with_seconds = correction_figure("s", CASE, truth, curves("b", 20, 3, duration=10.0))
    without = correction_figure("s", CASE, truth, curves("b", 20, 3))
    labels = [figure.axes[0].get_legend_handles_labels()[1] for figure in (with_seconds, without)]
    assert labels[0].count("annotated moment") == 1  # one entry for both windows
    assert "annotated moment" not in labels[1]
    assert with_seconds.axes[2].get_xlabel() == "time (s)"


def test_a_single_frame_is_drawn(tmp_path: Path) -> None:
    png, _ = save_figure(correction_figure("s", CASE, curves("a", 1, 0, 1), curves("b", 1, 0, 1)), tmp_path / "one")
    assert png.stat().st_size > 0


def test_curves_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="2 direct, 1 support and 2 routed"):
        EvidenceCurves("a", np.zeros(2), np.zeros(1), np.zeros(2), np.ones(1))


def test_importing_evaluation_does_not_load_matplotlib() -> None:
    check = "import sys, prvr.evaluation; print('matplotlib' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "False"
