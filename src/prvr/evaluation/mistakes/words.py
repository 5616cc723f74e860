"""What happened in a mistake, in plain words."""

from __future__ import annotations

import re

from prvr.data import Dataset
from prvr.evaluation.curve_moments import known_times
from prvr.evaluation.mistakes.choose import Mistake, RankedQueries
from prvr.evaluation.pair_account import PairAccount


def mistake_words(
    mistake: Mistake, found: RankedQueries, dataset: Dataset, truth: PairAccount | None, other: PairAccount | None
) -> str:
    """One or two sentences about a mistake; accounts are None for a method without curves."""
    query, name = mistake.query, dataset.video_ids[mistake.other]
    before, after, lead = int(found.base_ranks[query]), int(found.final_ranks[query]), float(found.lead[query])
    correct, best = len(found.positives[query]), int(found.best_correct[query])
    if mistake.kind.key == "lifted":
        text = f"By the base score {name} is first and the right video at rank {before}; TRACE moves it to {after}."
        text += _supports(truth, other)
    elif mistake.kind.key == "dropped":
        text = f"The base score gives the right video rank {before}; TRACE moves it to rank {after}, behind {name}."
        text += _supports(truth, other)
    elif mistake.kind.key == "unsupported":
        text = f"{name} is first because of one peak that its registers do not support{_peak(other)}."
        text += f" In the right video, at rank {after}, the gap is {_gap(truth)}." if truth is not None else ""
    elif mistake.kind.key == "positives" and mistake.other in found.positives[query]:
        text = f"No mistake in truth: {name} is correct too. {correct} videos are, and the label names one of them."
    elif mistake.kind.key == "positives":
        text = f"{correct} videos are correct, and the best of them has rank {best}; {name} leads by {lead:.4f}."
    elif mistake.kind.key == "near":
        text = f"The right video has rank {after} and is only {lead:.4f} behind {name}."
    else:
        text = f"{name} leads by {lead:.4f}, and the right video has rank {after}: the model sees something else in it."
    return re.sub(r"(?<=[ (])-(?=\d)", "−", f"{text}{_moment(dataset, mistake, truth)}")


def _supports(truth: PairAccount | None, other: PairAccount | None) -> str:
    """How well registers support the best frame of both videos."""
    if truth is None or other is None or truth.curves is None or other.curves is None:
        return ""
    mine, its = (
        float(account.curves.expected_support[account.curves.direct_peak])
        for account in (truth, other)
        if account.curves is not None
    )
    how = "more" if mine > its else "less"
    return f" Registers support the right video's best frame {how} than the other's ({mine:.2f} against {its:.2f})."


def _peak(account: PairAccount | None) -> str:
    if account is None or account.curves is None:
        return ""
    c = account.curves
    return f" (direct {c.direct[c.direct_peak]:.2f}, support {c.expected_support[c.direct_peak]:.2f})"


def _gap(account: PairAccount) -> str:
    return "not known" if account.curves is None else f"{account.curves.unsupported_gap:.2f}"


def _moment(dataset: Dataset, mistake: Mistake, truth: PairAccount | None) -> str:
    """Whether the best frame of the right video lies in the annotated moment; empty where that is not known."""
    length, windows = known_times(dataset, mistake.query, mistake.truth)
    if truth is None or length is None or not windows:
        return ""
    curve = truth.curve if truth.curves is None else truth.curves.routed.tolist()
    time = (max(range(len(curve)), key=curve.__getitem__) + 0.5) * length / len(curve)
    where = "lies in" if any(start <= time <= end for start, end in windows) else "does not lie in"
    named = ", ".join(f"{start:.1f} to {end:.1f} s" for start, end in windows[:3])
    return f" The right video's best frame, at {time:.1f} s, {where} the annotated moment ({named})."
