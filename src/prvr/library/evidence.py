"""Why a video was found: curves over time, in numbers a person or a page can draw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from prvr.library.moments import Curve
from prvr.library.snapshot import TrackView
from prvr.scoring import Gallery
from prvr.trace import operator as op
from prvr.trace.peaks import Peaked


@dataclass(frozen=True)
class MomentEvidence(Peaked):
    """One query and one video. Curves have a value for each stretch of the video; ``spans`` are their seconds."""

    spans: NDArray[np.float32]  # (m, 2)
    direct: Curve  # (m,) what the query saw
    support: Curve  # (m,) what the anchors lend, on the cosine scale
    routed: Curve  # (m,) direct evidence with the support that was routed to it
    value: Curve  # (m,) each stretch's share in the score: what moments are ranked by
    activation: Curve  # (R,) how much each anchor of the best section was activated

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        curves = {name: getattr(self, name).round(4).tolist() for name in ("direct", "support", "routed", "activation")}
        peaks = {"direct_peak": self.direct_peak, "routed_peak": self.routed_peak}
        return {
            "spans": [[round(float(a), 3), round(float(b), 3)] for a, b in self.spans],
            **curves,
            **peaks,
            "unsupported_gap": round(self.unsupported_gap, 4),
        }


@torch.no_grad()
def video_evidence(query: Tensor, view: TrackView, sections: NDArray[np.int64], weight: float) -> MomentEvidence:
    """Evidence of a query (D,) in all sections of a video, in order of time; ``weight``: TRACE's share λ.

    Where two sections overlap, what both saw is told as the one saw it that makes more of it.
    """
    parts = [_of_section(query, *view.section(int(number)), weight) for number in sections]
    best = max(parts, key=lambda part: float(part.value.max()))
    joined = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("spans", "direct", "support", "routed", "value")
    }
    order = np.lexsort((-joined["value"], joined["spans"][:, 1], joined["spans"][:, 0]))
    spans = joined["spans"][order]
    order = order[np.concatenate([[True], (spans[1:] != spans[:-1]).any(1)])]
    return MomentEvidence(**{name: array[order] for name, array in joined.items()}, activation=best.activation)


def _fixed(unit: Tensor, gallery: Gallery) -> Tensor:
    """What the token sets without a place in time add to the score of a gallery of one: (1, D) → (1, 1, 1)."""
    found = unit.new_zeros(1, 1, 1)
    if gallery.fixed is not None:
        responses = torch.split(
            op.direct_evidence(unit, gallery.fixed.restore()), [n for _, n in gallery.weights.fixed], 2
        )
        for (weight, _), response in zip(gallery.weights.fixed, responses, strict=True):
            found = found + weight * response.amax(2, keepdim=True)
    return found


def _of_section(
    query: Tensor, gallery: Gallery, spans: NDArray[np.float32], tokens: int, weight: float
) -> MomentEvidence:
    assert gallery.keys is not None
    assert gallery.registers is not None
    assert gallery.values is not None
    assert gallery.routes is not None
    config = gallery.config
    unit = op.unit(query.float()[None])
    projected = unit
    if gallery.query_projection is not None:  # it is folded into the stored vectors, and only its length is left
        projected = unit / (unit @ gallery.query_projection.T.float()).norm()
    local = gallery.local.restore().flatten(0, 1)[None, :tokens]
    keys = local if gallery.keys is gallery.local else gallery.keys.restore().flatten(0, 1)[None, :tokens]
    direct = op.direct_evidence(projected, keys)
    grounding = gallery.routes.grounding.transpose(1, 2).flatten(0, 1)[None, :tokens].transpose(1, 2)  # (1, R, m)
    compatibility = gallery.routes.ceiling.float()[:, None, None] + config.temperature * grounding.log().float()
    affinity = op.register_affinity(projected, gallery.registers.restore())
    activation = op.register_activation(affinity, config.temperature)
    support = op.routed_support(affinity, compatibility.float(), config.temperature)
    routed = op.routed_evidence(direct, support, config.routing_strength)
    soft = op.soft_score(projected, activation, gallery.values.restore())
    base = gallery.weights.paged * op.direct_evidence(unit, local) + _fixed(unit, gallery)
    score = op.evidence_score(routed, soft[..., None], activation[:, :, None], config.soft_weight, config.gate)
    value = op.fuse(base, score, weight)
    expected = torch.einsum("qvr,vrm->qvm", activation, compatibility)
    curves = {"direct": direct, "support": expected, "routed": routed, "value": value}
    return MomentEvidence(
        spans=spans[:tokens],
        **{name: curve[0, 0].numpy() for name, curve in curves.items()},
        activation=activation[0, 0].numpy(),
    )
