"""Optional packages, imported on first use. A missing one is reported with the command that installs it."""

from __future__ import annotations

from typing import Any

from prvr.media.errors import MissingExtra


def require_av(purpose: str = "decodes videos") -> Any:
    """PyAV, which carries its own FFmpeg. ``purpose`` completes the message: "PyAV, which decodes videos, …"."""
    try:
        import av
    except ImportError as problem:
        raise MissingExtra(f"PyAV, which {purpose},", "media", problem) from problem
    return av


def require_transformers() -> Any:
    """The ``transformers`` library. Importing it takes seconds."""
    try:
        import transformers
    except ImportError as problem:
        raise MissingExtra("transformers, which runs image–text and sentence models,", "encoders", problem) from problem
    return transformers


def require_hub() -> Any:
    """The client of the Hugging Face hub."""
    try:
        import huggingface_hub
    except ImportError as problem:
        raise MissingExtra("huggingface_hub, which finds models on this machine,", "encoders", problem) from problem
    return huggingface_hub


def require_faster_whisper() -> Any:
    """The ``faster-whisper`` library, which runs speech models."""
    try:
        import faster_whisper
    except ImportError as problem:
        raise MissingExtra("faster-whisper, which writes down what is said,", "speech", problem) from problem
    return faster_whisper
