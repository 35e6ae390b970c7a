"""The text of a run: what people read in the terminal, as tables and lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from greenlane_tools.lab.experiment.result import Table, disturbed
from greenlane_tools.lab.part3.cells import Cell, Measured
from greenlane_tools.lab.part3.charts import hidden, lines
from greenlane_tools.lab.part3.presets import Beside
from greenlane_tools.lab.part3.rows import CLOCKS, Row, latencies_ms
from greenlane_tools.lab.statistics import BEYOND, enough

__all__ = [
    "beside",
    "histograms",
    "laws",
    "longest_of",
    "measured_rows",
    "noise",
    "places",
    "switches",
    "told",
    "warnings",
]

#: Lines of a timeline that are shown; more are left out in the middle.
_MOST_LINES: Final = 40
_BINS: Final = 60
_BLOCKS: Final = " ▁▂▃▄▅▆▇█"
#: Measured CPU of a request below this share of what was set.
_SHORT_FRAC: Final = 0.95


def measured_rows(rows: Sequence[Row]) -> Table:
    """Throughput, speed-up, CPU and latencies."""
    mixed = len({_shape(row) for row in rows}) > 1
    found = []
    for row in rows:
        cells: dict[str, object] = {"contender": row["contender"]}
        if mixed:
            cells["CPU/network"] = _shape(row)
        cells |= {
            "N": row["green_threads"],
            "per_s": _round(row["done_per_s"]),
            "speedup": None if row["speedup"] is None else _round(row["speedup"], 2),
        }
        cells |= {
            "cpu_%": _percent(row["cpu_utilisation_frac"]),
            "computed_%": _percent(row["computed_utilisation_frac"]),
        }
        for clock in CLOCKS:
            cells |= {f"{clock}_{p}": _round(row[f"{clock}_{p}_ms"]) for p in ("p50", "p95", "p99")}
        found.append(cells)
    return Table("Latencies in ms by the clock that starts in the handler, at the spawn, at the arrival", found)


def laws(rows: Sequence[Row]) -> Table:
    """Little's law by each clock."""
    mixed = len({_shape(row) for row in rows}) > 1
    found = [
        {
            "contender": row["contender"],
            **({"CPU/network": _shape(row)} if mixed else {}),
            "N": row["green_threads"],
            **{f"{clock}_N": _round(row[f"little_{clock}_jobs"], 2) for clock in CLOCKS},
            "empty": _round(row["little_empty_jobs"], 2),
        }
        for row in rows
    ]
    return Table("Little's law: N = throughput x latency. Only arrival + places empty at the end gives N", found)


def beside(found: Sequence[Beside]) -> Table:
    """Known figures beside the measured ones."""
    rows = [
        {
            "N": one.known.green_threads,
            "calls": f"{one.known.shape.calls}{' at once' * one.known.shape.together}",
            "figure": one.known.field,
            "source": one.known.source,
            "known": one.known.value,
            "gevent": _round(one.measured, 4 if one.known.field.endswith("_frac") else 2),
            "off_%": _round(one.off_frac * 100),
        }
        for one in found
    ]
    return Table("Published, demanded by Little's law (N/X) or modelled, beside measured", rows)


def switches(rows: Sequence[Row]) -> Table:
    """CPU time of one switch by contender."""
    costs: dict[object, list[float]] = {}
    for row in rows:
        if row["yield_us"] is not None:
            costs.setdefault(row["contender"], []).append(row["yield_us"])
    found = [{"contender": name, "us": _round(min(values), 2)} for name, values in costs.items()]
    return Table("CPU time of one switch to another green thread or thread, us", found)


def histograms(cell: Cell, measured: Measured) -> Iterator[str]:
    """A line a clock: how often each latency came, on one axis from the shortest to the longest."""
    requests = [request for run in measured[cell] for request in run.requests]
    series = {clock: latencies_ms(requests, clock) for clock in CLOCKS}
    low, high = min(values[0] for values in series.values()), max(values[-1] for values in series.values())
    mixed = len({one.shape for one in measured if not one.baseline}) > 1
    what = f"{cell.runtime.name}, {places(cell.green_threads)}" + f", {cell.shape.said()}" * mixed
    yield f"{what}, from {low:.1f} to {high:.1f} ms:"
    for clock, values in series.items():
        counts = [0] * _BINS
        for value in values:
            counts[min(_BINS - 1, int(_BINS * (value - low) / (high - low or 1)))] += 1
        bars = "".join(_BLOCKS[-(-count * (len(_BLOCKS) - 1) // max(counts))] for count in counts)
        yield f"  {clock:8}|{bars}|"


def longest_of(cell: Cell, measured: Measured) -> Iterator[str]:
    """The longest request of a cell's last run, as published; then what that form leaves out."""
    run = measured[cell][-1]
    shape = cell.shape
    yield f"{shape.said()} per request ({cell.requests} requests with {places(cell.green_threads)})"
    yield "Longest Request:"
    found = lines(run)
    half = _MOST_LINES // 2
    if len(found) > _MOST_LINES:
        found = [*found[:half], f"        … {len(found) - 2 * half} lines left out", *found[-half:]]
    yield from found
    yield hidden(run)


def told(cells: Sequence[Cell]) -> Cell | None:
    """The cell whose longest request is worth telling: the fewest green threads, above one, with a network."""
    found = [cell for cell in cells if cell.green_threads > 1 and cell.shape.network_ms and not cell.shape.together]
    over = [cell for cell in found if cell.green_threads > cell.shape.knee()]
    return min(over or found, key=lambda cell: cell.green_threads, default=None)


def places(number: int) -> str:
    """This many green threads."""
    return f"{number} green thread{'s' * (number > 1)}"


def warnings(rows: Sequence[Row]) -> Iterator[str]:
    """What makes the figures less than they look, with a remedy."""
    yield from noise(rows)
    few = [row for row in rows if row["requests"] < row["green_threads"]]
    if few:
        most = max(few, key=lambda row: row["green_threads"])
        yield (
            f"{places(most['green_threads'])} had {most['requests']} requests in all, so never as many in progress: "
            f"--requests {10 * most['green_threads']} would do"
        )
    if (fewest := min(row["samples"] for row in rows)) < enough(0.99):
        repetitions = max(row["repetitions"] for row in rows)
        yield (
            f"p99 is rough where fewer than {BEYOND} requests lie beyond it (the smallest cell has {fewest}): "
            f"--requests {-(-enough(0.99) // repetitions)} would do"
        )


def noise(rows: Sequence[Row]) -> list[str]:
    """What to do about a machine that was busy with something else; nothing = it was quiet."""
    if found := disturbed(max(row["others_cores"] for row in rows)):
        return found
    slow = [row for row in rows if row["set_cpu_ms"] and row["cpu_ms_per_job"] < _SHORT_FRAC * row["set_cpu_ms"]]
    names = ", ".join(dict.fromkeys(row["contender"] for row in slow))
    return [f"requests of {names} got less CPU than was set, the machine's pace changes: run again"] if slow else []


def _shape(row: Row) -> str:
    return f"{row['set_cpu_ms']:g}/{row['set_network_ms']:g} in {row['calls']}" + " at once" * bool(row["together"])


def _round(value: float, digits: int = 1) -> float:
    return round(value, digits)


def _percent(value: float) -> float:
    return round(100 * value, 1)
