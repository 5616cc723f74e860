"""Speed, measured: every row a piece of real work beside the limit of this machine and a baseline, in one run."""

from prvr.bench.measure import Machine, Row
from prvr.bench.plan import PARTS, Part, run

__all__ = ["PARTS", "Machine", "Part", "Row", "run"]
