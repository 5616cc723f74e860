"""Optional packages, imported on first use. A missing one is reported with the command that installs it."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

from prvr.errors import MissingExtra


def require_av(purpose: str = "decodes videos") -> Any:
    """PyAV, which carries its own FFmpeg. ``purpose`` completes the message: "PyAV, which decodes videos, …"."""
    return _require("av", f"PyAV, which {purpose},", "media")


def require_transformers() -> Any:
    """The ``transformers`` library. Importing it takes seconds."""
    return _require("transformers", "transformers, which runs image–text and sentence models,", "encoders")


def require_hub() -> Any:
    """The client of the Hugging Face hub."""
    return _require("huggingface_hub", "huggingface_hub, which fetches and pushes models,", "hub")


def require_faster_whisper() -> Any:
    """The ``faster-whisper`` library, which runs speech models."""
    _keep_onnxruntime_quiet()
    return _require("faster_whisper", "faster-whisper, which writes down what is said,", "speech")


def require_onnxruntime() -> Any:
    """ONNX Runtime, which runs converted models."""
    _keep_onnxruntime_quiet()
    return _require("onnxruntime", "onnxruntime, which runs converted models,", "onnx")


def require_onnx() -> Any:
    """The package ``onnx``, which writes the files that ONNX Runtime reads."""
    return _require("onnx", "onnx, which converts models,", "onnx")


def require_openvino() -> Any:
    """OpenVINO, which runs models fast on a processor.

    It would report every conversion to its makers through the package ``openvino_telemetry``, but does without it where
    it cannot be imported.
    """
    if "openvino" not in sys.modules:
        sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]
    return _require("openvino", "OpenVINO, which runs image–text models fast on a processor,", "openvino")


def _keep_onnxruntime_quiet() -> None:
    """From 1.29 on, ONNX Runtime reports sessions and models to its makers unless told otherwise before its import."""
    for name in ("ORT_DISABLE_TELEMETRY", "ORT_TELEMETRY_DISABLED"):  # today's name, and that of the first versions
        os.environ[name] = "1"


def require_timelines() -> Any:
    """OpenTimelineIO, which writes timelines for editing programs."""
    return _require("opentimelineio", "opentimelineio, which writes timelines,", "export")


def _require(module: str, which: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError as problem:
        raise MissingExtra(which, extra, problem) from problem
