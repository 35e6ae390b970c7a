"""The article's runs, what it published of them, and what that hides.

Source: Roy Williams, "gevent performance" (part 3 of 4), eng.lyft.com, 16 October 2020. The last cell of its notebook,
which has the program, is not part of the article; `Pool(N)` with a clock that starts in the handler is the form that
gives its figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from greenlane_tools.lab.part3.cells import Cell
from greenlane_tools.lab.part3.rows import Row
from greenlane_tools.lab.part3.runtimes import RUNTIMES, Runtime, Shape


class Known(NamedTuple):
    """A figure that is known beforehand."""

    shape: Shape
    green_threads: int
    # The row's field that it is held against.
    field: str
    value: float
    # "published"; "N/X": what the published throughput demands by Little's law; "model": without switching costs.
    source: str = "published"


class Beside(NamedTuple):
    """A known figure beside the measured one."""

    known: Known
    measured: float

    @property
    def off_frac(self) -> float:
        """Measured above known, as a share of it."""
        return self.measured / self.known.value - 1


class Part(NamedTuple):
    """One kind of request at several numbers of green threads."""

    shape: Shape
    green_threads: Sequence[int]
    requests: int


@dataclass(frozen=True)
class Preset:
    """A published run."""

    name: str
    # One line.
    said: str
    parts: Sequence[Part]
    # The runtimes that run it unless others are asked for.
    runtimes: Sequence[str]
    known: Sequence[Known]
    # What the published figures do not show; sentences.
    hides: Sequence[str]
    # Switches whose cost is measured; 0 = none.
    yields: int = 0

    def beside(self, rows: Sequence[Row]) -> list[Beside]:
        """Known figures with what gevent measured of them, in order; those whose cell was not run are left out."""
        found = {
            (row["set_cpu_ms"], row["set_network_ms"], row["calls"], row["together"], row["green_threads"]): row
            for row in rows
            if row["contender"] == "gevent"
        }
        beside: list[Beside] = []
        for known in self.known:
            shape = known.shape
            row = found.get((shape.cpu_ms, shape.network_ms, shape.calls, shape.together, known.green_threads))
            if row is not None and row[known.field] is not None:
                beside.append(Beside(known, row[known.field]))
        return beside


def cells_of(
    preset: Preset, runtimes: Sequence[Runtime], requests: int | None = None, green_threads: Sequence[int] | None = None
) -> list[Cell]:
    """What the preset runs; `requests` and `green_threads` in place of the published numbers, None = as published."""
    return [
        Cell(runtime, part.shape, places, requests or part.requests)
        for part in preset.parts
        for places in green_threads or part.green_threads
        for runtime in runtimes
    ]


def _published(shape: Shape, green_threads: int, **values: float) -> list[Known]:
    found = [Known(shape, green_threads, field, value) for field, value in values.items()]
    demanded_ms = 1000 * green_threads / values["done_per_s"]
    return [*found, Known(shape, green_threads, "arrival_mean_ms", round(demanded_ms, 2), "N/X")]


_5_55: Final = Shape(5, 55)
_50_150: Final = Shape(50, 150)
_5_5X11: Final = Shape(5, 55, calls=5)
_SERIAL: Final = Shape(0, 30, calls=3)
_PARALLEL: Final = Shape(0, 30, calls=3, together=True)
_CPU: Final = Shape(5, 0)

_LYFT_5_55: Final = Preset(
    "lyft-5-55",
    "5 ms CPU and 55 ms network, 500 requests by 1, 5 and 50 green threads",
    [Part(_5_55, (1, 5, 50), 500)],
    ["gevent"],
    [
        *_published(
            _5_55, 1, done_per_s=16.49, speedup=1.0, computed_utilisation_frac=0.0824,
            handler_p50_ms=60.53, handler_p95_ms=60.60, handler_p99_ms=60.62,
        ),
        *_published(
            _5_55, 5, done_per_s=81.61, speedup=4.94, computed_utilisation_frac=0.4080,
            handler_p50_ms=60.88, handler_p95_ms=61.38, handler_p99_ms=64.57,
        ),
        *_published(
            _5_55, 50, done_per_s=192.46, speedup=11.60, computed_utilisation_frac=0.9623,
            handler_p50_ms=182.12, handler_p95_ms=182.52, handler_p99_ms=182.77,
        ),
    ],
    [
        "The published clock starts at the handler's first instruction. 50 in progress at 192.46 a second are 260 ms "
        "each (Little's law), not 182: what a request waits before it first runs is in no published number.",
        "The 50 are real callers: what they feel is the arrival's row. Every timer inside an application, a middleware "
        "or a trace's span starts as late as the article's.",
        "\"CPU Utilization\" is throughput times the CPU that was asked for, not a measurement; beside it stands what "
        "the kernel counted. On a busy machine the first stays high while the second falls.",
        "11.60 times is not 192.46 / 16.49 = 11.67: each published run had a baseline of its own. The text says 188 ms "
        "where its table says 182.12.",
    ],
)  # fmt: skip

_LYFT_50_150: Final = Preset(
    "lyft-50-150",
    "50 ms CPU and 150 ms network, 500 requests by 5 green threads",
    [Part(_50_150, (5,), 500)],
    ["gevent"],
    _published(
        _50_150, 5, done_per_s=19.49, speedup=3.91, computed_utilisation_frac=0.9746,
        handler_p50_ms=230.27, handler_p95_ms=255.59, handler_p99_ms=255.89,
    ),
    [
        "5 in progress at 19.49 a second are 256.5 ms each; the handler's clock says 230.",
        "Five are over the knee already: (50 + 150) / 50 = 4 requests fill the CPU, the fifth can only wait.",
        "The published timeline of the longest request shows seven bursts of other requests, not eight, of which four "
        "began before its answer was due; and the CPU was idle for 50 ms in the middle of it.",
    ],
)  # fmt: skip

_LYFT_5X11: Final = Preset(
    "lyft-5x11",
    "5 calls of 11 ms in place of one of 55, around the knee; only graphs were published, so an exact model stands in",
    [Part(_5_55, (9, 11, 12, 13), 500), Part(_5_5X11, (9, 11, 12, 13), 500)],
    ["gevent"],
    [
        *(
            Known(_5_55, places, "handler_p50_ms", value, "model")
            for places, value in ((9, 60.0), (11, 60.0), (12, 60.0), (13, 62.5))
        ),
        *(
            Known(_5_5X11, places, "handler_p50_ms", value, "model")
            for places, value in ((9, 61.5), (11, 63.0), (12, 64.7), (13, 66.2))
        ),
        *(
            Known(_5_5X11, places, "arrival_p50_ms", value, "model")
            for places, value in ((9, 61.5), (11, 65.7), (12, 67.3), (13, 69.0))
        ),
    ],
    [
        "The advice that follows from it, to yield less often, helps the request that yields less and lengthens "
        "everybody's longest wait: one burst of 5 ms is six times one of 0.83.",
        "Five calls cost 1.5 to 5 ms before the knee, at 9 to 12 green threads; beyond it both are N times C. The "
        "handler's clock is held against the CPU in order of readiness, the arrival's against gevent's own order.",
        "Without any variance the loop settles in one of several periodic orders, which ties decide: the model gives "
        "63.0 or 64.7 ms at 12.",
    ],
)

_SERIAL_PARALLEL: Final = Preset(
    "serial-parallel",
    "three fetches of 10 ms one after the other, and at once",
    [Part(_SERIAL, (1,), 70), Part(_PARALLEL, (1,), 700)],
    list(RUNTIMES),
    [
        Known(_SERIAL, 1, "handler_mean_ms", 30.7),
        Known(_PARALLEL, 1, "handler_mean_ms", 10.3),
    ],
    [
        "Nothing is computed and nobody else is there: this is the one case in which green threads cost nothing. "
        "Threads do the same.",
    ],
)

_CPU_ONLY: Final = Preset(
    "cpu-only",
    "5 ms CPU and no network: green threads do not parallelise computing",
    [Part(_CPU, (1, 5, 50), 200)],
    list(RUNTIMES),
    [Known(_CPU, places, "speedup", 1.0, "model") for places in (5, 50)],
    [
        "The article says that it may get worse, without a number: it costs the switches. Here is the CPU time of one, "
        "and what callers pay: with N in progress each waits for all others, N times C.",
    ],
    yields=20_000,
)

#: By name.
PRESETS: Final[Mapping[str, Preset]] = {
    preset.name: preset for preset in (_LYFT_5_55, _LYFT_50_150, _LYFT_5X11, _SERIAL_PARALLEL, _CPU_ONLY)
}
