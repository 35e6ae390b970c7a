"""Text tables: fixed columns, no colour, readable in a terminal and in a log."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from greenlane_tools.lab.run.pacing import rates_per_s
from greenlane_tools.lab.run.rows import ALL, CLIENT, Row, find
from greenlane_tools.lab.scenario.scenario import Level, Scenario

# --- Who pays: our latencies over those of plain threads and of the best stock server, class by class.


#: The contender in question.
OURS: Final = "greenlane"
#: What is compared, and how many requests of a class in a cell it takes.
QUANTILES: Final = {"p50": 10, "p95": 100, "p99": 500}


@dataclass(frozen=True)
class Paid:
    """One class at one load. Ratios under 1 are gains."""

    endpoint: str
    level: Level
    #: One of `QUANTILES`.
    quantile: str
    to_threads: float
    #: To the stock server that is best just here.
    to_best: float


def paid(scenario: Scenario, rows: Sequence[Row]) -> list[Paid]:
    """By load, quantile and class; nothing where we or the contender that was calibrated on did not take part."""
    whole = [row for row in rows if row.phase == ALL and row.stage == CLIENT and row.endpoint != ALL]
    levels = dict.fromkeys(row.level for row in whole)
    return [
        one
        for level in levels
        for quantile in QUANTILES
        for each in scenario.classes
        for one in _paid(scenario, whole, level, quantile, each.name)
    ]


def _paid(scenario: Scenario, rows: Sequence[Row], level: Level, quantile: str, endpoint: str) -> Iterator[Paid]:
    stock = [one.name for one in scenario.contenders if not one.name.startswith(OURS) and not one.apart]

    def value(contender: str) -> float | None:
        row = find(rows, contender, endpoint, level)
        if row is None or row.samples < QUANTILES[quantile]:
            return None
        return {"p50": row.p50_ms, "p95": row.p95_ms, "p99": row.p99_ms}[quantile]

    ours, threads = value(OURS), value(scenario.calibrated_on)
    best = min((found for found in map(value, stock) if found), default=None)
    if ours is not None and threads and best:
        yield Paid(endpoint, level, quantile, ours / threads, ours / best)


def worst(scenario: Scenario, rows: Sequence[Row]) -> str:
    """The class that pays most, in a sentence; "" = there is nothing to compare."""
    found = max(paid(scenario, rows), key=lambda one: one.to_threads, default=None)
    if found is None:
        return ""
    at = f" at {found.level.label}" if len(scenario.levels()) > 1 else ""
    return (
        f"Who pays most: {found.endpoint}, {found.quantile}{at}: {found.to_threads:.2f} of {scenario.calibrated_on}'s, "
        f"{found.to_best:.2f} of the best stock server's."
    )


def lines(scenario: Scenario, rows: Sequence[Row]) -> list[list[str]]:
    """A heading, then a line a load and quantile, a cell a class; [] = there is nothing to compare."""
    found = paid(scenario, rows)
    if not found:
        return []
    names = list(dict.fromkeys(one.endpoint for one in found))
    cells = {(one.level, one.quantile, one.endpoint): f"{one.to_threads:.2f} / {one.to_best:.2f}" for one in found}
    heads = ["load", "", *names]
    return [heads] + [
        [level.label, quantile] + [cells.get((level, quantile, name), "-") for name in names]
        for level, quantile in dict.fromkeys((one.level, one.quantile) for one in found)
    ]


def laws(scenario: Scenario, rows: Sequence[Row]) -> list[str]:
    """By load, what any order would take from the other classes for what the light ones gain, and what ours takes.

    Kleinrock's conservation law: while the CPU never idles beside work, the sum over classes of their share of it times
    their mean wait is the same under every order that does not know how long a job will take. Strictly for orders that
    finish what they begin, or work of exponential length; plain threads share, and our switches are not free.
    """
    whole = [row for row in rows if row.phase == ALL and row.stage == CLIENT]
    levels = dict.fromkeys(row.level for row in whole)
    return [said for level in levels if (said := _law(scenario, whole, level))]


def _law(scenario: Scenario, rows: Sequence[Row], level: Level) -> str:
    light, others, ours = 0.0, 0.0, 0.0
    for each in scenario.classes:
        mine, threads = (find(rows, name, each.name, level) for name in (OURS, scenario.calibrated_on))
        if not each.cpu_share_frac or mine is None or threads is None or not mine.mean_ms or not threads.mean_ms:
            return ""
        if each.lane == "light":
            light += each.cpu_share_frac * (threads.mean_ms - mine.mean_ms)
        else:
            others += each.cpu_share_frac * threads.mean_ms
            ours += each.cpu_share_frac * mine.mean_ms
    if not others:
        return ""
    return (
        f"ideal order at {level.label}: for what the light classes gain the others' mean is {1 + light / others:.2f} "
        f"of {scenario.calibrated_on}'s (conservation law); it is {ours / others:.2f}"
    )


def payers_table(scenario: Scenario, rows: Sequence[Row]) -> str:
    """The lines as text: our latency over threads' / over the best stock server's."""
    text = [f"  who pays: greenlane over {scenario.calibrated_on} / over the best stock server"]
    for load, quantile, *cells in lines(scenario, rows):
        text.append(f"  {load:<6}{quantile:<6}" + "".join(f"{cell:>14}" for cell in cells))
    text += [f"  {law}" for law in laws(scenario, rows)]
    return "\n".join(text) if len(text) > 1 else ""


def shown(scenario: Scenario, rows: Sequence[Row], marked: Container[tuple[str, str]] = ()) -> list[str]:
    """Every table that there is something for; `marked` as in `result_table`."""
    first = subjects(scenario)
    found = (
        result_table(scenario, rows, first, marked), others_table(rows, first), phase_table(scenario, rows),
        tool_table(rows), payers_table(scenario, rows),
    )  # fmt: skip
    return [text for text in found if text]


def subjects(scenario: Scenario) -> tuple[str, ...]:
    """The classes that a table shows: of each lane that with the largest share or rate, at most two."""
    best: dict[str, tuple[float, str]] = {}
    for one in scenario.classes:
        weight = one.cpu_share_frac or one.request_share_frac or one.rate_per_s
        if one.lane not in best or weight > best[one.lane][0]:
            best[one.lane] = (weight, one.name)
    return tuple(name for _, name in best.values())[:2]


def load_table(scenario: Scenario, costs_ms: Mapping[str, float]) -> str:
    """The load: what one job of each class costs, its share, its rate at each level."""
    levels = scenario.levels()
    rates = [rates_per_s(scenario, costs_ms, level) for level in levels]
    head = f"  {'class':<12}{'lane':<8}{'CPU a job':>11}{'share':>8}"
    lines = [head + "".join(f"{'at ' + level.label:>11}" for level in levels)]
    for one in scenario.classes:
        cost = f"{costs_ms[one.name]:.1f} ms" if one.name in costs_ms else "-"
        share = one.cpu_share_frac or one.request_share_frac
        text = f"  {one.name:<12}{one.lane:<8}{cost:>11}{f'{share:.1%}' if share else '-':>8}"
        lines.append(text + "".join(f"{_rate(rate.get(one.name), one.arrivals):>11}" for rate in rates))
    return "\n".join(lines)


def live_head(scenario: Scenario, shown: Sequence[str]) -> str:
    """The heading over the lines that appear while it runs."""
    text = f"  {'load':<6}{'rep':<5}{'contender':<18}"
    for name in shown:
        text += f"{_within_head(scenario, name):>{_wide(scenario, name)}}{_head(name):>{_wider(name)}}{'p99':>8}"
    return text + f"{'CPU':>8}{'errors':>8}"


def live_line(scenario: Scenario, rows: Sequence[Row], repetition: int, shown: Sequence[str]) -> str:
    """One run, from the rows of that run alone."""
    total = next(row for row in rows if row.endpoint == ALL and row.phase == ALL)
    text = f"  {total.level.label:<6}{repetition + 1:<5}{total.contender:<18}"
    for name in shown:
        row = find(rows, total.contender, name, total.level)
        text += f"{_share(row):>{_wide(scenario, name)}}" if _wide(scenario, name) else ""
        text += f"{_p50(row):>{_wider(name)}}{_p99(row):>8}"
    return text + f"{total.cpu_utilisation_frac or 0:>8.2f}{total.errors + total.lost:>8}"


def result_table(
    scenario: Scenario, rows: Sequence[Row], shown: Sequence[str], marked: Container[tuple[str, str]] = ()
) -> str:
    """All cells, pooled; those of `marked` (contender, level's label) have a cross."""
    head = f"  {'load':<6}{'contender':<18}"
    for name in shown:
        within = _within_head(scenario, name)
        head += (f"{within:>26}" if within else "") + f"{_head(name):>{_wider(name)}}{'p99':>7}"
    lines = [head + f"{'done/s':>9}{'CPU':>7}{'ms/job':>8}{'PSS MB':>8}{'errors':>8}"]
    last: Level | None = None
    for total in (row for row in rows if (row.endpoint, row.phase, row.stage) == (ALL, ALL, CLIENT)):
        if last is not None and total.level != last:
            lines.append("")
        last = total.level
        mark = "†" if (total.contender, total.level.label) in marked else ""
        lines.append(_result_line(scenario, rows, total, shown, mark))
    return "\n".join(lines)


def others_table(rows: Sequence[Row], shown: Sequence[str]) -> str:
    """p99 of the classes that `result_table` leaves out, at the last level; "" when there are none."""
    last = next((row.level for row in reversed(rows)), None)
    cells = [row for row in rows if row.level == last and row.phase == ALL and row.stage == CLIENT]
    names = list(dict.fromkeys(row.endpoint for row in cells if row.endpoint not in (*shown, ALL)))
    if last is None or not names:
        return ""
    lines = [f"  {'p99 ms at ' + last.label:<24}" + "".join(f"{name:>10}" for name in names)]
    for contender in dict.fromkeys(row.contender for row in cells):
        found = [find(cells, contender, name, last) for name in names]
        lines.append(f"  {contender:<24}" + "".join(f"{_p99(row):>10}" for row in found))
    return "\n".join(lines)


def phase_table(scenario: Scenario, rows: Sequence[Row]) -> str:
    """Each class in each phase; "" when there is one phase."""
    if len(scenario.phases) < 2:
        return ""
    head = f"  {'load':<6}{'contender':<18}{'class':<12}"
    lines = [head + "".join(f"{one.name + ' p50':>14}{'p99':>8}{'in time':>9}" for one in scenario.phases)]
    for total in (row for row in rows if (row.endpoint, row.phase, row.stage) == (ALL, ALL, CLIENT)):
        for name in (one.name for one in scenario.classes):
            found = [find(rows, total.contender, name, total.level, one.name) for one in scenario.phases]
            cells = "".join(f"{_p50(row):>14}{_p99(row):>8}{_share(row):>9}" for row in found)
            lines.append(f"  {total.level.label:<6}{total.contender:<18}{name:<12}{cells}")
    return "\n".join(lines)


def tool_table(rows: Sequence[Row]) -> str:
    """Closed-loop tools beside the open loop, of the class that they asked; "" when there are none."""
    tools = [row for row in rows if row.stage != CLIENT]
    if not tools:
        return ""
    lines = [f"  {'load':<6}{'contender':<18}{'class':<12}{'measured by':<14}{'requests':>9}{'p50':>9}{'p99 ms':>9}"]
    shown: list[Row] = []
    for row in tools:
        mine = find(rows, row.contender, row.endpoint, row.level)
        shown += [one for one in (mine, row) if one is not None and one not in shown]
    for row in shown:
        by = "open loop" if row.stage == CLIENT else row.stage
        lines.append(f"  {row.level.label:<6}{row.contender:<18}{row.endpoint:<12}{by:<14}{row.samples:>9}"
                     f"{_fine(row.p50_ms):>9}{_fine(row.p99_ms):>9}")  # fmt: skip
    return "\n".join(lines)


def interval(row: Row | None) -> str:
    """A row's share within its deadline and its interval, in percent; "-" = none."""
    if row is None or row.within_deadline_frac is None:
        return "-"
    low, high = (row.within_deadline_low_frac or 0) * 100, (row.within_deadline_high_frac or 0) * 100
    return f"{row.within_deadline_frac * 100:.1f} % [{low:.1f}-{high:.1f}]"


def _result_line(scenario: Scenario, rows: Sequence[Row], total: Row, shown: Sequence[str], mark: str) -> str:
    text = f"  {total.level.label:<6}{total.contender + mark:<18}"
    for name in shown:
        row = find(rows, total.contender, name, total.level)
        text += f"{interval(row):>26}" if _within_head(scenario, name) else ""
        text += f"{_p50(row):>{_wider(name)}}{_p99(row):>7}"
    text += f"{total.done_per_s:>9.1f}{total.cpu_utilisation_frac or 0:>7.2f}{total.cpu_ms_per_job or 0:>8.2f}"
    return text + f"{total.pss_mb or 0:>8.0f}{total.errors + total.lost:>8}"


def _head(name: str) -> str:
    return f"{name} p50"


def _wider(name: str) -> int:
    return max(12, len(name) + 6)


def _within_head(scenario: Scenario, name: str) -> str:
    deadline_ms = scenario.request_class(name).deadline_ms
    return f"{name} ≤{deadline_ms:g} ms" if deadline_ms else ""


def _wide(scenario: Scenario, name: str) -> int:
    within = _within_head(scenario, name)
    return len(within) + 2 if within else 0


def _rate(per_s: float | None, arrivals: str) -> str:
    return arrivals if per_s is None else f"{per_s:.1f}/s"


def _p50(row: Row | None) -> str:
    return "-" if row is None else _whole(row.p50_ms)


def _p99(row: Row | None) -> str:
    return "-" if row is None else _whole(row.p99_ms)


def _whole(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def _fine(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _share(row: Row | None) -> str:
    return "-" if row is None or row.within_deadline_frac is None else f"{row.within_deadline_frac * 100:.1f} %"
