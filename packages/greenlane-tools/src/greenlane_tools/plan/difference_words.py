"""A comparison of two profiles in words and rows: what `greenlane plan diff` prints. On-call question 15."""

from __future__ import annotations

from typing import Final

from greenlane_tools.page.quantities import amount, factor, milliseconds
from greenlane_tools.plan.differences import NOISE_FRAC, Comparison, Difference, Measure

__all__ = ["COLUMNS", "answers", "rows_of", "table_of"]

Row = dict[str, object]

COLUMNS: Final = ("route", "what", "before", "after", "change", "interval", "is")
_WHAT: Final = {
    Measure.CPU: "CPU a request",
    Measure.IO: "I/O a request",
    Measure.KNEE: "knee",
    Measure.HEADROOM: "headroom",
}
_ALL: Final = "(all)"


def answers(found: Comparison) -> list[str]:
    """What a person asks after a release, most important first."""
    said = [_headroom(found), *_routes(found)]
    if found.come:
        said.append(f"New: {', '.join(found.come)}.")
    if found.gone:
        said.append(f"No longer there: {', '.join(found.gone)}.")
    if any(each.changed is None for each in found.differences):
        said.append("Where no interval stands how requests differ is not known: whether it is noise cannot be said.")
    return [sentence for sentence in said if sentence]


def table_of(found: Comparison) -> list[Row]:
    """A row a number that changed, or a few that did not."""
    changed = [each for each in found.differences if each.changed]
    return [_told(each) for each in changed or found.differences]


def rows_of(found: Comparison) -> list[Row]:
    """For programs: everything that was compared."""
    rows: list[Row] = [
        {
            "view": "difference",
            "endpoint": each.route,
            "measure": each.measure.value,
            "old": each.old,
            "new": each.new,
            "ratio": each.ratio,
            "ratio_low": each.low,
            "ratio_high": each.high,
            "changed": each.changed,
        }
        for each in found.differences
    ]
    rows += [{"view": "gone", "endpoint": name} for name in found.gone]
    rows += [{"view": "new", "endpoint": name} for name in found.come]
    return [{"view": "answer", "said": answers(found)}, *rows]


def _headroom(found: Comparison) -> str:
    of = found.of("", Measure.HEADROOM)
    if of is None:
        return ""
    if not of.changed:
        known = "not changed beyond noise" if of.changed is False else "no interval"
        return f"At the load before, the CPU is full at {factor(of.old)} that load, now at {factor(of.new)} ({known})."
    way = "nearer" if of.new < of.old else "further away"
    cliff = f"The cliff is {way}: the CPU was full at {factor(of.old)} the load before, now at {factor(of.new)}"
    return f"{cliff} ({_interval(of)})."


def _routes(found: Comparison) -> list[str]:
    """What each changed route costs now, and what that does to a limit that was set by its knee."""
    said = []
    cpu = [each for each in found.differences if each.route and each.measure is Measure.CPU and each.changed]
    for each in sorted(cpu, key=lambda one: -abs(one.ratio - 1)):
        knee = found.of(each.route, Measure.KNEE)
        text = f"{each.route}: CPU a request {milliseconds(each.old)} before, {milliseconds(each.new)} now"
        text += f" ({_percent(each.ratio)}, {_interval(each)})"
        if knee is not None and knee.changed and round(knee.old) != round(knee.new):
            text += f"; a limit of {round(knee.old)} is now {round(knee.new)}"
        said.append(f"{text}.")
    io = [each for each in found.differences if each.route and each.measure is Measure.IO and each.changed]
    for each in sorted(io, key=lambda one: -abs(one.ratio - 1)):
        times = f"{milliseconds(each.old)} before, {milliseconds(each.new)} now"
        said.append(f"{each.route}: I/O a request {times} ({_percent(each.ratio)}, {_interval(each)}).")
    known = [each for each in found.differences if each.changed is not None]
    if known and not any(each.changed for each in known):
        said.append(f"No request costs more or less than before, beyond noise and {NOISE_FRAC:.0%}.")
    return said


def _told(each: Difference) -> Row:
    numbers = milliseconds if each.measure in (Measure.CPU, Measure.IO) else amount
    times = factor if each.measure is Measure.HEADROOM else numbers
    return {
        "route": each.route or _ALL,
        "what": _WHAT[each.measure],
        "before": times(each.old),
        "after": times(each.new),
        "change": _percent(each.ratio),
        "interval": _interval(each) if each.low is not None else None,
        "is": {True: "changed", False: "noise", None: "not known"}[each.changed],
    }


def _interval(each: Difference) -> str:
    if each.low is None or each.high is None:
        return "no interval"
    return f"{_percent(each.low)} to {_percent(each.high)}"


def _percent(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+.0f} %" if abs(ratio - 1) >= 0.0995 else f"{(ratio - 1) * 100:+.1f} %"
