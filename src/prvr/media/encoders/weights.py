"""Models on this machine: found, loaded without a network and without pickles, and known by a hash."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from prvr.media.encoders.hashes import file_hash, require_unchanged
from prvr.media.errors import EncoderError, MissingExtra

if TYPE_CHECKING:
    import torch


def load_pretrained(name: str) -> tuple[Path, Any, Any]:
    """Folder, model (evaluation mode) and tokenizer of a model that is on this machine, its files as they were."""
    folder = model_folder(name)
    require_unchanged(folder)
    import torch

    transformers = require_transformers()
    try:
        model = transformers.AutoModel.from_pretrained(
            folder, local_files_only=True, use_safetensors=True, dtype=torch.float32
        )
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as problem:
        first = str(problem).strip().splitlines()[0] if str(problem).strip() else type(problem).__name__
        raise EncoderError(f"{folder} holds no model that can be loaded ({first})") from problem
    return folder, model.eval().requires_grad_(False), tokenizer


def model_folder(name: str) -> Path:
    """Where a model's files are: a folder, or the hub's cache. Nothing is fetched here."""
    if Path(name).is_dir():
        return Path(name)
    if name.startswith((".", "/", "~")) or name.count("/") != 1:
        raise EncoderError(f"{name!r} is neither a folder nor a hub name such as google/siglip2-base-patch16-224")
    hub = require_hub()
    try:
        return Path(hub.snapshot_download(name, local_files_only=True))
    except (OSError, ValueError) as problem:
        raise EncoderError(
            f"the weights of {name} are not on this machine. With a network: prvr prepare {name} (it says the size "
            "first). Without: run that elsewhere, copy the folder it names to this machine, and give that folder "
            "instead of the name."
        ) from problem


def weights_hash(folder: Path) -> str:
    """sha256 of the weight file, or over those of several in order of their names."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise EncoderError(f"{folder} holds no .safetensors file")
    return file_hash(*files)


def best_device(asked: str | None = None) -> torch.device:
    """The device asked for, else a GPU where there is one."""
    import torch

    return torch.device(asked or ("cuda" if torch.cuda.is_available() else "cpu"))


def require_transformers() -> Any:
    try:
        import transformers  # takes seconds: only when a model is really used
    except ImportError as problem:
        raise MissingExtra("transformers, which runs image–text and sentence models,", "encoders", problem) from problem
    return transformers


def require_hub() -> Any:
    try:
        import huggingface_hub
    except ImportError as problem:
        raise MissingExtra("huggingface_hub, which keeps models on this machine,", "encoders", problem) from problem
    return huggingface_hub
