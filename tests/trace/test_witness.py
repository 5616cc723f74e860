"""A witness reads words one by one, near the place where they fit together, and never sees padding."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from prvr.trace import Witness, WitnessConfig, hub_offset, uniform_score
from prvr.trace.witness import (
    explained_anywhere,
    explained_words,
    meeting_place,
    neighbourhood,
    word_evidence,
    word_weights,
    words_score,
)


def made_up(time: str = "near") -> tuple[Witness, dict[str, torch.Tensor]]:
    torch.manual_seed(0)
    witness = Witness(5, 7, WitnessConfig(width=4, hidden=6, time=time)).double().eval()  # type: ignore[arg-type]
    torch.nn.init.normal_(witness.importance.weight)
    pairs = {
        "words": torch.randn(2, 3, 5).double(),
        "mask": torch.tensor([[True, True, True], [True, True, False]]),
        "frames": torch.randn(2, 4, 6, 7).double(),
        "frame_mask": torch.rand(2, 4, 6) > 0.3,
    }
    pairs["frame_mask"][..., 0] = True
    return witness, pairs


def test_a_pair_by_hand() -> None:
    words = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    frames = torch.tensor([[[[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]]])
    seen = torch.tensor([[[True, True, False]]])
    e = word_evidence(words, frames, seen)
    assert torch.allclose(e[0, 0, :, :2], torch.tensor([[1.0, 0.6], [0.0, 0.8]]))
    weights = word_weights(torch.zeros(1, 2), torch.ones(1, 2, dtype=torch.bool))
    p = meeting_place(e, weights, seen, 0.1)  # together: 0.5 and 0.7, so the second frame wins by exp(2)
    assert torch.allclose(p, torch.tensor([[[1.0, 7.389, 0.0]]]) / 8.389, atol=1e-4)
    m = explained_words(e, p, 100.0)  # a high temperature: the mean over p
    assert torch.allclose(m, (e * p[:, :, None]).sum(-1), atol=1e-2)
    assert torch.allclose(explained_anywhere(e), torch.tensor([[[1.0, 0.8]]]))
    assert torch.allclose(words_score(explained_anywhere(e), weights), torch.tensor([[0.9]]))
    assert torch.allclose(uniform_score(e, torch.ones(1, 2, dtype=torch.bool), seen), torch.tensor([[0.6]]))


def test_padding_changes_nothing() -> None:
    for time in ("near", "any"):
        witness, pairs = made_up(time)
        score = witness(**pairs).score
        hidden = dict(pairs)
        hidden["words"] = pairs["words"].masked_fill(~pairs["mask"][..., None], 9.0)
        hidden["frames"] = pairs["frames"].masked_fill(~pairs["frame_mask"][..., None], 9.0)
        assert torch.allclose(witness(**hidden).score, score)
        longer = dict(pairs, frames=F.pad(pairs["frames"], (0, 0, 0, 3)), frame_mask=F.pad(pairs["frame_mask"], (0, 3)))
        assert torch.allclose(witness(**longer).score, score)


def test_words_are_weighed_and_explained_one_by_one() -> None:
    witness, pairs = made_up()
    found = witness(**pairs)
    assert torch.allclose(found.weights.sum(-1), torch.ones(2).double())
    assert torch.allclose(found.score, (found.explained * found.weights[:, None]).sum(-1))
    assert torch.allclose(found.place.sum(-1), torch.ones(2, 4).double())
    assert (found.place[~pairs["frame_mask"]] == 0).all()
    # What a word's evidence becomes lies between its mean over the meeting place and its best frame.
    mean = (found.evidence.masked_fill(~pairs["frame_mask"][:, :, None], 0.0) * found.place[:, :, None]).sum(-1)
    assert (found.explained >= mean - 1e-9).all()
    assert (found.explained <= found.evidence.amax(-1) + 1e-9).all()


def test_a_witness_starts_in_the_space_that_words_and_frames_share() -> None:
    config = WitnessConfig(width=5, hidden=3, neighbours=0, time="any")
    witness = Witness(7, 8, config, shared=5).eval()
    words, frames = torch.randn(1, 2, 7), torch.randn(1, 3, 4, 8)
    found = witness(words, torch.ones(1, 2, dtype=torch.bool), frames, torch.ones(1, 3, 4, dtype=torch.bool))
    cosines = F.normalize(words[..., :5], dim=-1) @ F.normalize(frames[..., :5], dim=-1).flatten(1, 2).transpose(1, 2)
    assert torch.allclose(found.evidence.transpose(1, 2).flatten(2), cosines, atol=1e-6)
    assert torch.allclose(found.score, found.evidence.amax(-1).mean(-1), atol=1e-6)


def test_a_neighbourhood_is_the_mean_of_valid_frames_around() -> None:
    frames = torch.tensor([[1.0], [2.0], [100.0], [4.0]])
    around = neighbourhood(frames, torch.tensor([True, True, False, True]), 1)
    assert torch.allclose(around.flatten(), torch.tensor([2.5, 3.5, 0.0, 8.0]))
    assert torch.equal(neighbourhood(frames, torch.ones(4, dtype=torch.bool), 0), frames)


def test_a_hub_is_a_video_that_fits_everybody() -> None:
    scores = torch.rand(50, 3)
    scores[:, 1] += 0.5
    assert int(hub_offset(scores, 10).argmax()) == 1
    assert torch.allclose(hub_offset(scores, 500), scores.mean(0))
