"""The demo's text tables: fixed columns, no colour, readable in a terminal and in a log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from greenlane.demo.rates import ENDPOINTS, JobCost, light_frac, rates_per_s
from greenlane.demo.rows import Row, find


def mix_table(mix: Mapping[str, float], costs: Mapping[str, JobCost], utilisations: Sequence[float]) -> str:
    """The load: what one job of each endpoint costs, its share of the CPU, its rate at each utilisation."""
    rates = [rates_per_s(mix, costs, utilisation) for utilisation in utilisations]
    head = f"  {'endpoint':<10}{'lane':<7}{'work':>8}{'+ gthread':>11}{'of CPU':>8}"
    lines = [head + "".join(f"{f'at {utilisation:g}':>10}" for utilisation in utilisations)]
    for name, share in mix.items():
        cost = costs[name]
        before = (
            f"  {name:<10}{ENDPOINTS[name].lane:<7}{cost.work_ms:>5.1f} ms{cost.overhead_ms:>8.1f} ms{share:>7.0%} "
        )
        lines.append(before + "".join(f"{rate[name]:>8.1f}/s" for rate in rates))
    lines.append(f"  light work is {light_frac(mix):.0%} of the CPU; the same rates for every contender")
    return "\n".join(lines)


def live_head(light: str, heavy: str | None) -> str:
    """The heading over the lines that appear while it runs."""
    text = f"  {'util':<6}{'rep':<5}{'contender':<18}{light + ' ≤500 ms':>16}{'p50':>8}{'p99':>8}"
    return text + (f"{heavy + ' p50':>14}{'p99':>8}" if heavy else "") + f"{'CPU':>8}{'errors':>8}"


def live_line(rows: Sequence[Row], repetition: int, light: str, heavy: str | None) -> str:
    """One run, from the rows of that run alone."""
    row = rows[-1]
    first = find(rows, row.contender, light, row.utilisation_frac)
    text = f"  {row.utilisation_frac:<6g}{repetition + 1:<5}{row.contender:<18}"
    text += f"{_share(first):>16}{_p50(first):>8}{_p99(first):>8}"
    if heavy:
        second = find(rows, row.contender, heavy, row.utilisation_frac)
        text += f"{_p50(second):>14}{_p99(second):>8}"
    return text + f"{row.cpu_utilisation_frac:>8.2f}{row.errors + row.lost:>8}"


def result_table(rows: Sequence[Row], light: str, heavy: str | None) -> str:
    """All cells, pooled."""
    head = f"  {'util':<6}{'contender':<18}{light + ' within 500 ms':>26}{'p50':>7}{'p99':>7}"
    head += (f"{heavy + ' p50':>13}{'p99':>7}" if heavy else "") + f"{'done/s':>9}{'CPU':>7}{'ms/job':>8}{'PSS MB':>8}"
    lines = [head + f"{'errors':>8}"]
    last = None
    for total in (row for row in rows if row.endpoint == "all"):
        if last is not None and total.utilisation_frac != last:
            lines.append("")
        last = total.utilisation_frac
        lines.append(_result_line(rows, total, light, heavy))
    return "\n".join(lines)


def others_table(rows: Sequence[Row], shown: Sequence[str | None]) -> str:
    """p99 of the endpoints that `result_table` leaves out, at the highest utilisation; "" when there are none."""
    highest = max(row.utilisation_frac for row in rows)
    cells = [row for row in rows if row.utilisation_frac == highest]
    names = list(dict.fromkeys(row.endpoint for row in cells if row.endpoint not in (*shown, "all")))
    if not names:
        return ""
    lines = [f"  {'p99 ms at ' + format(highest, 'g'):<24}" + "".join(f"{name:>10}" for name in names)]
    for contender in dict.fromkeys(row.contender for row in cells):
        found = [find(cells, contender, name, highest) for name in names]
        lines.append(f"  {contender:<24}" + "".join(f"{_p99(row):>10}" for row in found))
    return "\n".join(lines)


def interval(row: Row | None) -> str:
    """A row's share within its deadline and its interval, in percent; "-" = none."""
    if row is None or row.within_deadline_frac is None:
        return "-"
    low, high = (row.within_deadline_low_frac or 0) * 100, (row.within_deadline_high_frac or 0) * 100
    return f"{row.within_deadline_frac * 100:.1f} % [{low:.1f}-{high:.1f}]"


def _result_line(rows: Sequence[Row], total: Row, light: str, heavy: str | None) -> str:
    first = find(rows, total.contender, light, total.utilisation_frac)
    text = f"  {total.utilisation_frac:<6g}{total.contender:<18}{interval(first):>26}"
    text += f"{_p50(first):>7}{_p99(first):>7}"
    if heavy:
        second = find(rows, total.contender, heavy, total.utilisation_frac)
        text += f"{_p50(second):>13}{_p99(second):>7}"
    text += f"{total.done_per_s:>9.1f}{total.cpu_utilisation_frac:>7.2f}{total.cpu_ms_per_job:>8.2f}"
    return text + f"{total.pss_mb:>8.0f}{total.errors + total.lost:>8}"


def _p50(row: Row | None) -> str:
    return "-" if row is None or row.p50_ms is None else f"{row.p50_ms:.0f}"


def _p99(row: Row | None) -> str:
    return "-" if row is None or row.p99_ms is None else f"{row.p99_ms:.0f}"


def _share(row: Row | None) -> str:
    return "-" if row is None or row.within_deadline_frac is None else f"{row.within_deadline_frac * 100:.1f} %"
