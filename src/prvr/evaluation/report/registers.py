"""Section: register activation. Which register a query activates most, and whether they differ at all."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from prvr.evaluation.findings import Study
from prvr.evaluation.report.charts import register_figure
from prvr.evaluation.report.content import Cell, Column, Drawing, ReportSection, ReportTable, Verdict, without_trace
from prvr.trace import certainty

TITLE = "Register activation"
_SMALL_WORDS = """
a an and another are as at be by for from he her him his in into is it its of off on one onto or out over she some
someone something that the their them then there they this to two up very was while who with
"""
COMMON = 0.25  # a word in more than this share of the queries says nothing about a group
COLLAPSED = 0.95  # cosine above which two registers are the same for any practical purpose


def registers(study: Study) -> ReportSection:
    if study.activation is None or study.spread is None:
        return without_trace("registers", TITLE)
    activation = study.activation
    captions = study.subject.dataset.captions
    pairs = [(captions[row].sentence, activation[row].double().numpy()) for row in chosen_pairs(activation)]
    groups = {
        f"{word} ({len(rows)})": dominant_shares(activation[rows]).numpy()
        for word, rows in word_groups([caption.sentence for caption in captions]).items()
    }
    usage = dominant_shares(activation).numpy()
    groups = groups or {"all queries": usage}
    numbers = [Column(f"register {k}", 3) for k in range(1, len(usage) + 1)]
    weights: list[list[Cell]] = [[sentence, *values.tolist()] for sentence, values in pairs]
    shares: list[list[Cell]] = [[name, *values.tolist()] for name, values in groups.items()]
    shares.append(["all pairs", *usage.tolist()])
    entropy, spread = activation_entropy(activation), study.spread
    state: list[list[Cell]] = [[spread.within, spread.between, entropy, float(usage.max())]]
    columns = [Column("cosine within a video", 3), Column("between videos", 3), Column("entropy / log R", 3)]
    lead = (
        f"{len(activation):,} queries, each with its own video. Pairs are chosen by rule: for each register in turn, "
        "the query that activates it most. Groups are the queries that share a frequent word."
    )
    if not study.subject.with_trace:
        lead += " TRACE was not trained here: these are the backbone's own registers, compared by plain cosines."
    drawn = register_figure(
        [(textwrap.shorten(s, 44, placeholder=" …"), v) for s, v in pairs], list(groups.items()), usage
    )
    alive = spread.within < COLLAPSED and entropy < COLLAPSED
    verdict = Verdict(
        alive,
        f"Registers of one video have a mean cosine of {spread.within:.3f} and their activation {100 * entropy:.0f} % "
        f"of the entropy of a uniform one: "
        + (
            "they differ, and queries choose among them."
            if alive
            else "there is little to choose between, so q→R routing cannot do much here."
        ),
    )
    return ReportSection(
        "registers",
        TITLE,
        lead,
        [
            ReportTable("register_state", "Do registers differ?", [*columns, Column("largest share", 3)], state),
            ReportTable("register_pairs", "Activation π of chosen pairs", [Column("query"), *numbers], weights),
            ReportTable(
                "register_groups", "Share of pairs in which a register dominates", [Column("word"), *numbers], shares
            ),
        ],
        [Drawing("registers", "Register activation: chosen pairs, query groups, all pairs.", drawn)],
        [verdict],
    )


def activation_entropy(activation: Tensor) -> float:
    """Mean entropy of π, (N, R), as a share of log R: 1 is uniform, 0 is one register alone."""
    return 1.0 - float(certainty(activation).mean())


def word_groups(sentences: Sequence[str], count: int = 8) -> dict[str, list[int]]:
    """Queries by the words they share: the most frequent words that are neither small nor in most queries.

    >>> word_groups(["he opens the door", "she opens a box", "a dog runs", "a dog eats", "we wait"], 2)
    {'dog': [2, 3], 'opens': [0, 1]}
    """
    words = [
        set(re.findall(r"[^\W\d_]{3,}", sentence.lower())).difference(_SMALL_WORDS.split()) for sentence in sentences
    ]
    most = max(2, COMMON * len(sentences)) if len(sentences) >= 8 else len(sentences)
    tally = Counter(word for found in words for word in found)
    kept = sorted((w for w, n in tally.items() if 2 <= n <= most), key=lambda w: (-tally[w], w))[:count]
    return {word: [row for row, found in enumerate(words) if word in found] for word in kept}


def dominant_shares(activation: Tensor) -> Tensor:
    """How often each register is the strongest, (N, R) → (R,), summing to 1."""
    return torch.bincount(activation.argmax(-1), minlength=activation.shape[-1]).double() / len(activation)


def chosen_pairs(activation: Tensor, count: int = 8) -> list[int]:
    """Query rows to show, by rule: for each register in turn the query that it answers most clearly, no query twice."""
    order = activation.sort(dim=0, descending=True, stable=True).indices  # (N, R)
    chosen: list[int] = []
    for row in order.flatten().tolist():
        if row not in chosen:
            chosen.append(row)
        if len(chosen) == min(count, len(activation)):
            break
    return chosen
