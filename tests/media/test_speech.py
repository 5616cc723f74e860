"""Speech: sound is decoded in parts, and a transcriber turns it into lines."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from prvr.media import EncoderError, MediaError, MissingExtra, Sound, Transcriber, open_transcriber, write_video
from prvr.media.speech import SOUND_RATE, sound_parts
from prvr.media.subtitles import TimedLine

PICTURES = [np.full((48, 64, 3), 10 * number, np.uint8) for number in range(20)]


class Parrot(Transcriber):
    """Hears one line in every second of sound."""

    name = "parrot"

    def __init__(self) -> None:
        self.languages: list[str | None] = []

    def hear(self, sound: Sound, language: str | None) -> tuple[str, Iterable[TimedLine]]:
        self.languages.append(language)
        seconds = range(int(np.ceil(len(sound) / SOUND_RATE)))
        return "de", (TimedLine(second, second + 0.5, f" word <i>{second}</i>\n") for second in seconds)


@pytest.fixture
def film(tmp_path: Path) -> Path:
    return write_video(tmp_path / "film.mp4", PICTURES, fps=4, audio_seconds=5.0)


def test_sound_comes_in_parts_at_one_rate(film: Path) -> None:
    parts = list(sound_parts(film, 2.0))
    assert [start for start, _ in parts] == pytest.approx([0.0, 2.0, 4.0], abs=0.1)
    assert all(sound.dtype == np.float32 and sound.ndim == 1 for _, sound in parts)
    assert sum(len(sound) for _, sound in parts) == pytest.approx(5.0 * SOUND_RATE, rel=0.05)


def test_lines_have_times_of_the_video_and_one_language(film: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[float] = []
    whole = Parrot().transcribe(film, heard.append)
    assert whole.language == "de"
    assert [line.text for line in whole.lines[:2]] == ["word 0", "word 1"]
    assert heard == sorted(heard)
    monkeypatch.setattr("prvr.media.speech.sound_parts.__defaults__", (2.0,))
    parrot = Parrot()
    parts = parrot.transcribe(film)
    starts = [line.start for line in parts.lines]
    assert starts[:5] == pytest.approx([0.0, 1.0, 2.0, 3.0, 4.0], abs=0.1)
    assert max(line.end for line in parts.lines) <= 5.2  # never behind the end
    assert parrot.languages == [None, "de", "de"]  # detected once


def test_a_video_without_sound_has_no_lines_and_a_text_is_no_video(tmp_path: Path) -> None:
    silent = Parrot().transcribe(write_video(tmp_path / "silent.mp4", PICTURES, fps=4))
    assert (silent.language, silent.lines) == (None, ())
    (tmp_path / "text.mp4").write_text("not a video")
    with pytest.raises(MediaError):
        Parrot().transcribe(tmp_path / "text.mp4")


def test_damaged_sound_is_heard_as_far_as_it_goes(tmp_path: Path) -> None:
    film = write_video(tmp_path / "film.mkv", PICTURES, fps=4, audio_seconds=5.0)
    whole = len(Parrot().transcribe(film).lines)
    content = film.read_bytes()
    film.write_bytes(content[: 3 * len(content) // 4])
    assert 1 <= len(Parrot().transcribe(film).lines) < whole


def test_without_the_package_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faster_whisper", None)
    with pytest.raises(MissingExtra, match=r'pip install "prvr\[speech\]"'):
        open_transcriber("whisper-base")


# -- the adapter of faster-whisper, with a model of random weights ----------------------------------------------------


@pytest.fixture(scope="module")
def whisper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The smallest Whisper, converted as those on the hub are."""
    pytest.importorskip("faster_whisper", reason='speech needs faster-whisper: pip install "prvr[speech]"')
    transformers = pytest.importorskip("transformers")
    from ctranslate2.converters import TransformersConverter
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    folder = tmp_path_factory.mktemp("whisper")
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: number for number, letter in enumerate(letters)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    languages = [f"<|{each}|>" for each in list(transformers.models.whisper.tokenization_whisper.LANGUAGES)[:99]]
    tasks = ["<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"]
    special = ["<|endoftext|>", "<|startoftranscript|>", *languages, *tasks]
    tokenizer.add_special_tokens([AddedToken(each, special=True) for each in special])
    tokenizer.add_tokens([AddedToken(f"<|{0.02 * number:.2f}|>") for number in range(1501)])
    numbers = tokenizer.get_vocab()
    end = numbers["<|endoftext|>"]
    marks = {"bos_token_id": end, "eos_token_id": end, "pad_token_id": end}
    marks["decoder_start_token_id"] = numbers["<|startoftranscript|>"]
    sizes = dict.fromkeys(("d_model", "encoder_ffn_dim", "decoder_ffn_dim"), 64)
    sizes |= dict.fromkeys(
        ("encoder_layers", "decoder_layers", "encoder_attention_heads", "decoder_attention_heads"), 1
    )
    config = transformers.WhisperConfig(vocab_size=len(numbers), num_mel_bins=80, **sizes, **marks)
    model = transformers.WhisperForConditionalGeneration(config)
    model.generation_config = transformers.GenerationConfig(
        lang_to_id={each: numbers[each] for each in languages},
        task_to_id={each: numbers[f"<|{each}|>"] for each in ("transcribe", "translate")},
        no_timestamps_token_id=numbers["<|notimestamps|>"],
        is_multilingual=True,
        alignment_heads=[[0, 0]],
        suppress_tokens=[],
        begin_suppress_tokens=[],
        **marks,
    )
    model.save_pretrained(folder / "model")
    transformers.WhisperTokenizerFast(
        tokenizer_object=tokenizer, **dict.fromkeys(("bos_token", "eos_token", "unk_token"), "<|endoftext|>")
    ).save_pretrained(folder / "model")
    tokenizer.save(str(folder / "model" / "tokenizer.json"))
    transformers.WhisperFeatureExtractor().save_pretrained(folder / "model")
    converter = TransformersConverter(str(folder / "model"), copy_files=["tokenizer.json"])
    converter.convert(str(folder / "converted"))
    return folder / "converted"


def test_whisper_listens(whisper: Path, film: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    transcriber = open_transcriber(str(whisper))
    assert transcriber.transcribe(film).lines == ()  # silence is left out before the model hears it
    usual = transcriber.model.transcribe  # type: ignore[attr-defined]
    eager = {"vad_filter": False, "no_speech_threshold": None, "log_prob_threshold": None, "max_new_tokens": 20}
    eager["compression_ratio_threshold"] = None
    monkeypatch.setattr(transcriber.model, "transcribe", lambda *a, **k: usual(*a, **{**k, **eager}))  # type: ignore[attr-defined]
    language, lines = transcriber.hear(np.zeros(5 * SOUND_RATE, np.float32), None)
    assert len(language) in (2, 3)
    assert all(isinstance(line, TimedLine) for line in lines)


def test_a_folder_that_is_no_such_model_is_refused(whisper: Path, tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match=r"it has no model\.bin and no config\.json"):
        open_transcriber(str(tmp_path))
    for file in whisper.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes()[:100])
    with pytest.raises(EncoderError, match="does not hold a model that can be loaded"):
        open_transcriber(str(tmp_path))
