"""Where OpenVINO's time goes, by its own counts."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from prvr.media import open_encoder, operation_times
from prvr.media.encoders.image_text import ImageTextEncoder

pytest.importorskip("openvino")


@pytest.mark.parametrize("pair_folder", ["siglip"], indirect=True)
def test_operations_share_the_time_of_a_picture(pair_folder: Path) -> None:
    encoder = open_encoder(str(pair_folder), device="cpu")
    assert isinstance(encoder, ImageTextEncoder)
    began = time.perf_counter()
    times = operation_times(encoder.model, 32, "fp32", pictures=2, repeats=1)
    assert 0 < 2 * times.total() < time.perf_counter() - began
    assert any(operation == "FullyConnected" and seconds > 0 for (operation, _), seconds in times.items())
