"""Section: register activation."""

from __future__ import annotations

import textwrap

from prvr.evaluation.findings import Study
from prvr.evaluation.registers import activation_entropy, chosen_pairs, dominant_shares, word_groups
from prvr.evaluation.report.content import Cell, Column, Drawing, Section, Table, Verdict, without_trace
from prvr.evaluation.report.drawing import register_figure

TITLE = "Register activation"
COLLAPSED = 0.95  # cosine above which two registers are the same for any practical purpose


def registers(study: Study) -> Section:
    if study.views is None or study.views.truth is None or study.spread is None:
        return without_trace("registers", TITLE)
    activation = study.views.truth.activation
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
    return Section(
        "registers",
        TITLE,
        lead,
        [
            Table("register_state", "Do registers differ?", [*columns, Column("largest share", 3)], state),
            Table("register_pairs", "Activation π of chosen pairs", [Column("query"), *numbers], weights),
            Table(
                "register_groups", "Share of pairs in which a register dominates", [Column("word"), *numbers], shares
            ),
        ],
        [Drawing("registers", "Register activation: chosen pairs, query groups, all pairs.", drawn)],
        [verdict],
    )
