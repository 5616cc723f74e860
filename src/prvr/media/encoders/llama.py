"""Words of sentences as InternVideo2's authors encode them: last hidden states of a LLaMA.

The sentence follows the prompt that their text encoder was trained with. States of all tokens are kept, those of the
prompt and of the marks at both ends as well.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from prvr.files import NotAnObject, read_json_object
from prvr.media.encoders.base import Array, TextEncoder
from prvr.media.encoders.weights import best_device, load_pretrained, model_folder
from prvr.media.errors import EncoderError

PROMPT = "summarize:"
_LONGEST = 80  # tokens, with the marks


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
        self.name = name
        self.device = best_device(device)
        self.pretrained = load_pretrained(name, dtype="auto")
        self.model, tokenizer = self.pretrained.model, self.pretrained.tokenizer
        self.width = self.word_width = int(self.model.config.hidden_size)
        self.marks = tokenizer.bos_token_id, tokenizer.eos_token_id
        if None in self.marks:
            raise EncoderError(f"The tokenizer in {folder} has no begin or end mark; it is not a LLaMA's.")
        self._moved = False

    @property
    def weights(self) -> str:  # type: ignore[override]
        return self.pretrained.weights

    def encode_texts(self, texts: Sequence[str]) -> Array:
        raise EncoderError(f"{self.name} encodes words; it has no vector for a sentence. Keep words (--text words).")

    @torch.inference_mode()
    def encode_words(self, text: str) -> Array:
        if not self._moved:
            half = self.device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
            self.model.to(self.device, torch.bfloat16 if half else torch.float32)
            self._moved = True
        begin, end = self.marks
        tokens = self.pretrained.tokenizer(PROMPT + text, add_special_tokens=False).input_ids[: _LONGEST - 2]
        states = self.model(torch.tensor([[begin, *tokens, end]], device=self.device)).last_hidden_state
        found: Array = states[0].float().cpu().numpy()
        return found
