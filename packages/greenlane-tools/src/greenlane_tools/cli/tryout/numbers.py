"""What the load has met, as lines that fit the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from greenlane_tools.cli.tryout.service import Route
from greenlane_tools.lab.samples import Samples

__all__ = ["lines"]

#: (label, quantile)
_QUANTILES: Final = (("p50", 0.5), ("p99", 0.99))
_CELL: Final = 11


def lines(found: Mapping[str, Samples], routes: Sequence[Route], deadline_ms: float, columns: int) -> Iterator[str]:
    """A heading, then by route: in time (the first one), p50, p99, from when each request was due."""
    label = max(12, min(28, columns - _CELL * len(found)))
    yield " " * label + "".join(f"{name:>{_CELL}}" for name in found)
    for number, route in enumerate(routes):
        of = {name: _latencies_ms(samples, number) for name, samples in found.items()}
        name = route.path if len(route.path) <= label - 4 else f"{route.path[: label - 5]}…"
        if number == 0:
            cells = [f"{100 * float(np.mean(each <= deadline_ms)):.0f} %" for each in of.values()]
            yield _line(f"{name} ≤{deadline_ms:.0f} ms"[:label], label, cells)
        for what, frac in _QUANTILES:
            cells = [_ms(float(np.quantile(each, frac, method="inverted_cdf"))) for each in of.values()]
            yield _line(f"{name} {what}", label, cells)


def _line(label: str, width: int, cells: Sequence[str]) -> str:
    return f"{label:<{width}}" + "".join(f"{cell:>{_CELL}}" for cell in cells)


def _ms(value: float) -> str:
    return f"{value:.0f} ms" if np.isfinite(value) else "never"


def _latencies_ms(samples: Samples, stream: int) -> np.typing.NDArray[np.float64]:
    """Infinite where no good answer came; one such of no request."""
    mine = samples.stream == stream
    took_ms = (samples.done_ns[mine] - samples.scheduled_ns[mine]) / 1e6
    took_ms[(samples.status[mine] < 200) | (samples.status[mine] >= 400)] = np.inf
    return took_ms if len(took_ms) else np.array([np.inf])
