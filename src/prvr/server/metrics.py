"""Count requests and searches, and write the counts in the text format of Prometheus."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)


class Histogram:
    """A Prometheus histogram: how many values lie at or below each bound."""

    def __init__(self, bounds: tuple[float, ...]):
        self.bounds, self.counts, self.total = bounds, [0] * (len(bounds) + 1), 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def lines(self, name: str) -> list[str]:
        """The histogram in the text format of Prometheus.

        >>> histogram = Histogram((1.0, 2.0)); histogram.add(1.5)
        >>> histogram.lines("x")[1]
        'x_bucket{le="2.0"} 1'
        """
        lines, below = [], 0
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            below += count
            lines.append(f'{name}_bucket{{le="{bound}"}} {below}')
        return [*lines, f"{name}_sum {self.total:.6f}", f"{name}_count {below}"]


class Metrics:
    """Counts since the server was started. All methods are thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._seconds = Histogram(_SECONDS)
        self._batches = Histogram(_SIZES)
        self._pass_seconds = Histogram(_SECONDS)

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        with self._lock:
            self._requests[method if method.isalpha() and len(method) < 8 else "other", route, status] += 1
            self._seconds.add(seconds)

    def batch(self, size: int, seconds: float) -> None:
        with self._lock:
            self._batches.add(size)
            self._pass_seconds.add(seconds)

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """All metrics. ``gauges`` adds values of this moment: name → (help, value)."""
        with self._lock:
            lines = ["# HELP prvr_requests_total requests answered", "# TYPE prvr_requests_total counter"]
            for (method, route, status), count in sorted(self._requests.items()):
                lines.append(f'prvr_requests_total{{method="{method}",route="{route}",status="{status}"}} {count}')
            for name, description, histogram in (
                ("prvr_request_seconds", "time to answer a request", self._seconds),
                ("prvr_search_batch_size", "searches scored in one pass", self._batches),
                ("prvr_search_pass_seconds", "time of a scoring pass", self._pass_seconds),
            ):
                lines += [f"# HELP {name} {description}", f"# TYPE {name} histogram", *histogram.lines(name)]
        for name, (description, value) in gauges.items():
            lines += [f"# HELP {name} {description}", f"# TYPE {name} gauge", f"{name} {value:g}"]
        return "\n".join(lines) + "\n"
