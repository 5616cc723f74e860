"""Words of sentences as InternVideo2's authors encode them: last hidden states of a LLaMA.

The sentence follows the prompt that their text encoder was trained with. States of all tokens are kept, those of the
prompt and of the marks at both ends as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

import torch

from prvr.files import NotAnObject, read_json_object
from prvr.media.encoders.base import Array, TextEncoder, require_numbers
from prvr.media.encoders.hashes import file_hash
from prvr.media.encoders.tensor_files import WEIGHT_ENDINGS, fit_tensors, read_tensors
from prvr.media.encoders.weights import (
    FROM_HERE,
    PretrainedModel,
    best_device,
    first_line,
    load_pretrained,
    model_folder,
    weight_type,
)
from prvr.media.errors import EncoderError
from prvr.media.packages import require_transformers

PROMPT = "summarize:"
_LONGEST = 80  # tokens, with the marks
_PREFIX = "transformer."  # of its tensors in the published file


class LlamaEncoder(TextEncoder):
    """A LLaMA of the ``transformers`` library: float32 on a processor, bfloat16 on a GPU that multiplies it.

    It is loaded at once, so that a wrong folder is noticed early, and moved to the GPU when the first words are
    encoded.
    """

    text_preprocessing = f"last hidden states of '{PROMPT}' and the sentence, at most {_LONGEST} tokens"

    def __init__(self, name: str, device: str | None = None):
        folder = model_folder(name)
        try:
            kind = read_json_object(folder / "config.json").get("model_type")
        except (OSError, NotAnObject) as problem:
            raise EncoderError(f"{folder} does not hold a LLaMA: its config.json cannot be read ({problem}).") from None
        if kind != "llama":
            raise EncoderError(f"{folder} holds a model of type {kind}; a LLaMA is needed (model_type llama).")
        self.name = folder.resolve().name if Path(name).is_dir() else name  # its hash says the rest
        self.device = best_device(device)
        _require_tokenizer(folder)
        self._file = _published_file(folder)
        dtype = weight_type(self.device)
        published = None if self._file is None else _load_published(folder, self._file, dtype)
        self.pretrained = published or load_pretrained(name, dtype)
        self.model, tokenizer = self.pretrained.model, self.pretrained.tokenizer
        self.width = self.word_width = int(self.model.config.hidden_size)
        self.marks = tokenizer.bos_token_id, tokenizer.eos_token_id
        if None in self.marks:
            raise EncoderError(f"The tokenizer in {folder} has no begin or end mark; it is not a LLaMA's.")

    @cached_property
    def weights(self) -> str:  # type: ignore[override]
        return self.pretrained.weights if self._file is None else file_hash(self._file)

    def encode_texts(self, texts: Sequence[str]) -> Array:
        raise EncoderError(f"{self.name} encodes words; it has no vector for a sentence. Keep words (--text words).")

    @torch.inference_mode()
    def encode_words(self, text: str) -> Array:
        self.model.to(self.device)  # where it is, after the first words
        begin, end = self.marks
        tokens = self.pretrained.tokenizer(PROMPT + text, add_special_tokens=False).input_ids[: _LONGEST - 2]
        states = self.model(torch.tensor([[begin, *tokens, end]], device=self.device)).last_hidden_state
        found: Array = states[0].float().cpu().numpy()
        return require_numbers(found, self.pretrained.folder)


def _require_tokenizer(folder: Path) -> None:
    old = (folder / "tokenizer.model").is_file() and not (folder / "tokenizer.json").is_file()
    if old and find_spec("sentencepiece") is None:
        raise EncoderError(f"{folder}/tokenizer.model is read with sentencepiece: pip install sentencepiece")


def _published_file(folder: Path) -> Path | None:
    """The file with the weights that InternVideo2's authors name, in torch's format; None: there are .safetensors."""
    files = sorted(path for path in folder.iterdir() if path.suffix in WEIGHT_ENDINGS)
    if any(path.suffix == ".safetensors" for path in files):
        return None
    if len(files) != 1:
        raise EncoderError(
            f"{folder} needs the LLaMA's weights, .safetensors files or one .pth file (internvl_c_13b_224px.pth); it "
            f"holds {len(files) or 'none'}."
        )
    return files[0]


def _load_published(folder: Path, file: Path, dtype: torch.dtype) -> PretrainedModel:
    """The LLaMA in a file with InternVL-C's weights, whose configuration and tokenizer are in the folder."""
    transformers = require_transformers()
    state = {name.removeprefix(_PREFIX): tensor for name, tensor in read_tensors(file).items()}
    try:
        config = transformers.LlamaConfig.from_pretrained(folder, **FROM_HERE)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **FROM_HERE)
        with torch.device("meta"):
            expected = transformers.LlamaModel(config).state_dict()
    except Exception as problem:  # wrong settings raise many types of errors
        raise EncoderError(
            f"{folder} does not hold a LLaMA that can be loaded: its config.json or its tokenizer is wrong "
            f"({first_line(problem)})."
        ) from problem
    state = fit_tensors(state, expected, f"{file} is not the LLaMA of {folder}/config.json")
    model = transformers.LlamaModel.from_pretrained(None, config=config, state_dict=state, dtype=dtype, **FROM_HERE)
    return PretrainedModel(folder, model.eval().requires_grad_(False), tokenizer)
