"""The scoring pool that all libraries of a process share. Its users are to hold a ``ScoringPool`` of their own."""

from __future__ import annotations

from prvr.scoring import ScoringPool

_POOL = ScoringPool()

score_galleries = _POOL.score
score_rows = _POOL.score_rows
gallery_evidence = _POOL.evidence
