"""Models on this machine: find them, load them without a network and without pickles, and identify them by a hash."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prvr.media.encoders.hashes import HASHES_FILE, file_hash, require_unchanged
from prvr.media.errors import EncoderError
from prvr.media.packages import require_transformers

if TYPE_CHECKING:
    import torch

FROM_HERE: Mapping[str, Any] = {"local_files_only": True, "trust_remote_code": False}  # no network, no code of a model


@dataclass(frozen=True)
class PretrainedModel:
    """A model of the ``transformers`` library, loaded from a folder."""

    folder: Path
    model: Any  # in evaluation mode
    tokenizer: Any
    hashes: Mapping[str, str] = field(default_factory=dict)  # sha256 of the files that were checked while loading
    _tokenizing: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    @cached_property
    def weights(self) -> str:
        """The sha256 of its weights."""
        return weights_hash(self.folder, self.hashes)

    def tokens(self, texts: Sequence[str], longest: int, padding: bool | str = True) -> Any:
        """The words of texts as tensors, padded to one length and cut at the longest. Any thread may call this."""
        with self._tokenizing:  # a tokenizer cannot be used by two threads at the same time
            return self.tokenizer(
                list(texts),
                padding=padding,
                truncation=True,
                max_length=longest,
                return_attention_mask=True,
                return_tensors="pt",
            )


def load_pretrained(name: str, dtype: torch.dtype | str = "float32") -> PretrainedModel:
    """Load a model that is on this machine, after checking that its files have not changed.

    ``dtype`` is the type of its weights. A loaded model is moved, never cast: its tables of angles stay float32.

    Raises:
        EncoderError: the model is not on this machine, its files have changed, or it cannot be loaded.
        MissingExtra: ``transformers`` or the hub's client is not installed.
    """
    folder = model_folder(name)
    hashes = require_unchanged(folder)
    transformers = require_transformers()
    try:
        model = transformers.AutoModel.from_pretrained(folder, use_safetensors=True, dtype=dtype, **FROM_HERE)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **FROM_HERE)
    except Exception as problem:  # wrong settings raise many types of errors
        raise EncoderError(f"{folder} does not hold a model that can be loaded ({first_line(problem)}).") from problem
    return PretrainedModel(folder, model.eval().requires_grad_(False), tokenizer, hashes)


def model_folder(name: str) -> Path:
    """Where a model's files are: ``name`` itself if it is a folder, else in the hub's cache. Nothing is downloaded.

    Raises:
        EncoderError: the model is not on this machine; the message says how to get it.
    """
    if Path(name).is_dir():
        return Path(name)
    if name.startswith((".", "/", "~")) or name.count("/") != 1:
        raise EncoderError(f"{name!r} is neither a folder nor a hub name such as google/siglip2-base-patch16-224.")
    folder = find_model(name)
    if folder is None:
        raise EncoderError(
            f"The weights of {name} are not on this machine. With a network, run: prvr prepare {name} (it shows the "
            "size first). Without one, run that on another machine, copy the folder it names to this one, and give "
            "that folder instead of the name."
        )
    return folder


def find_model(name: str) -> Path | None:
    """The folder in the hub's cache that holds a model with this hub name; None where there is none.

    What ``prvr prepare`` downloaded comes first, the latest of several; then the hub's main branch, then any other. The
    hub's client is not asked: it takes a snapshot without the files that are not needed here (a README, copies for
    other runtimes) for an incomplete one.
    """
    storage = hub_cache() / f"models--{name.replace('/', '--')}"
    main = storage / "refs" / "main"
    current = main.read_text("utf-8").strip() if main.is_file() else ""
    found = [folder for folder in storage.glob("snapshots/*") if _is_model(folder)]

    def preference(folder: Path) -> tuple[bool, bool, float]:
        return (folder / HASHES_FILE).is_file(), folder.name == current, folder.stat().st_mtime

    return max(found, key=preference, default=None)


def cached_models() -> list[str]:
    """Hub names of the models with .safetensors files in the hub's cache."""
    folders = {path.parents[2].name for path in hub_cache().glob("models--*--*/snapshots/*/*.safetensors")}
    return sorted(name.removeprefix("models--").replace("--", "/", 1) for name in folders)


def hub_cache() -> Path:
    """Where the hub's client keeps models."""
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "huggingface"
    return Path(os.environ.get("HF_HUB_CACHE") or Path(home) / "hub")


def _is_model(folder: Path) -> bool:
    weights = [path for path in folder.glob("*.safetensors") if path.is_file()]  # not a link to a missing file
    return bool(weights) and (folder / "config.json").is_file()


def weights_hash(folder: Path, known: Mapping[str, str] | None = None) -> str:
    """The sha256 of a model's weight file; of several files one after the other, in order of their names.

    ``known`` holds hashes that ``require_unchanged`` has just computed, so that a large file is not read twice.
    """
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise EncoderError(f"{folder} does not hold a .safetensors file.")
    if len(files) == 1 and known and files[0].name in known:
        return known[files[0].name]
    return file_hash(*files)


def best_device(name: str | None = None) -> torch.device:
    """The named device; by default a GPU where there is one."""
    import torch

    return torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))


def weight_type(device: torch.device) -> torch.dtype:
    """Of a large model's weights: bfloat16 on a GPU that multiplies it, else float32."""
    import torch

    half = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.bfloat16 if half else torch.float32


def first_line(problem: Exception) -> str:
    """Of what a library says about a problem; its kind where it says nothing."""
    return next(iter(str(problem).strip().splitlines()), type(problem).__name__).rstrip(":")
