"""One row a cell, and one for each of its stages: repetitions are pooled."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from feed.ladder.loaded import DEADLINE_MS
from feed.ladder.options import OURS
from feed.ladder.run import POOL, Result
from greenlane_tools.lab import verdict
from greenlane_tools.lab.demo import Json, percentiles, shares
from greenlane_tools.lab.statistics import quantile
from greenlane_tools.lab.verdict import Verdict
from greenlane_tools.page.quantities import amount

Runs = Sequence[Json]
_ENDPOINT: Final = "/feed"


def rows_of(result: Result) -> list[Json]:
    """Cells at half of each variant's capacity, with greenlane at the same rate; then those of the ladder."""
    rows = []
    for name, pair in result.pairs.items():
        for contender, runs in pair["cells"].items():
            costs = pair["costs"][contender]
            rows += _cell(result, contender, runs, costs, beside=name if contender == OURS else "", cell="half")
    for contender, runs in result.ladder.items():
        costs = result.pairs[contender]["costs"][contender]
        rows += _cell(result, contender, runs, costs, beside="", cell="at the pool's rate")
    return rows


def _cell(result: Result, contender: str, runs: Runs, costs: Json, beside: str, cell: str) -> list[Json]:
    return [_row(result, contender, runs, costs, beside, cell), *_stage_rows(contender, runs, beside, cell)]


def _row(result: Result, contender: str, runs: Runs, costs: Json, beside: str, cell: str) -> Json:
    itself = result.alone[contender]
    latencies = sorted(one for run in runs for one in run["latency_ms"])
    errors = sum(run["errors"] for run in runs)
    sent = len(latencies) + errors
    seconds = sum(run["usage"]["seconds"] for run in runs)
    row: Json = {
        "contender": contender, "endpoint": _ENDPOINT, "stage": None, "cell": cell, "beside": beside,
        "utilisation_frac": runs[0]["per_s"] / (itself["rush"]["per_s"] or math.inf),
        "offered_per_s": runs[0]["per_s"],
        "done_per_s": len(latencies) / seconds,
        **shares("within_deadline", sum(one <= DEADLINE_MS for one in latencies), sent), **percentiles(latencies),
        "samples": sent, "errors": errors, "degraded": sum(run["usage"]["problems"] for run in runs),
        "cpu_ms_per_job": cpu_ms(runs), "parts_cpu_ms": parts_cpu_ms(runs),
        "path_cpu_ms_per_job": path_ms(runs, costs),
        "alone_cpu_ms_per_job": costs["cpu_ms"], "alone_path_cpu_ms_per_job": costs["path_cpu_ms"],
        "alone_wall_ms": costs["wall_ms"],
        "cpu_utilisation_frac": sum(_spent_ms(run) for run in runs) / (seconds * 1e3),
        "pss_mb": pss_mb(runs), "processes": runs[-1]["processes"],
        "loop_lag_p99_ms": lag_of(runs),
        "bytes_moved_per_job": sum(run["usage"]["bytes_moved"] for run in runs) / max(1, _requests(runs)),
        "capacity_per_s": itself["rush"]["per_s"],
        "max_per_s": itself["most"]["max_per_s"], "bounded_by": itself["most"]["bounded_by"],
        "ndcg": itself["orders"]["ndcg"],
        "orders_right": itself["orders"]["right"], "orders": itself["orders"]["of"],
        "cpu_shares_frac": itself["shares"],
        "placements": itself["placements"],
        "others_cores": statistics.fmean(run["usage"]["others_ms"] / run["usage"]["seconds"] / 1e3 for run in runs),
        "repetitions": len(runs),
    }  # fmt: skip
    return row


def _stage_rows(contender: str, runs: Runs, beside: str, cell: str) -> list[Json]:
    """Of a request: CPU in all processes, I/O, wait for the loop (at least; at most)."""
    names = dict.fromkeys(name for run in runs for name in run["usage"]["stages"])
    requests = max(1, _requests(runs))
    key = {"contender": contender, "endpoint": _ENDPOINT, "cell": cell, "beside": beside}

    def sum_ms(name: str, part: str) -> float | None:
        rows = [run["usage"]["stages"].get(name, {}) for run in runs]
        found = [row[part] for row in rows if part in row]
        return sum(found) / requests if found else None

    return [
        {**key, "stage": name, **{part: sum_ms(name, part) for part in ("cpu_ms", "io_ms", "wait_ms", "wait_most_ms")}}
        for name in names
    ]


def cpu_ms(runs: Runs) -> float:
    """CPU of the service and its processes for one request; not the stores' and the models'."""
    return sum(_spent_ms(run) for run in runs) / max(1, _requests(runs))


def parts_cpu_ms(runs: Runs) -> dict[str, float]:
    """CPU for one request by part: the service, its workers, history store, models, shards."""
    sums: dict[str, float] = {}
    for run in runs:
        usage = run["usage"]
        of_run = {"service": usage["main_ms"], "workers": usage["workers_ms"], **usage["site_ms"]}
        for part, spent_ms in of_run.items():
            sums[part] = sums.get(part, 0.0) + spent_ms
    return {part: sum_ms / max(1, _requests(runs)) for part, sum_ms in sums.items()}


def path_frac(costs: Json) -> float:
    """The ranking path's share of the CPU where requests came one at a time, which is where it can be told exactly."""
    return min(1.0, costs["path_cpu_ms"] / costs["cpu_ms"]) if costs["cpu_ms"] else 0.0


def path_ms(runs: Runs, costs: Json) -> float:
    """Of `cpu_ms` the ranking path's."""
    return cpu_ms(runs) * path_frac(costs)


def p95_ms(runs: Runs) -> float:
    """From the due instant; an error is later than anything."""
    latencies = sorted(one for run in runs for one in run["latency_ms"])
    latencies += [math.inf] * sum(run["errors"] for run in runs)
    return quantile(latencies, 0.95) if latencies else math.inf


def pss_mb(runs: Runs) -> float:
    """Memory after load: the most of the repetitions."""
    return max(float(run["pss_mb"]) for run in runs)


def lag_of(runs: Runs) -> float | None:
    """99th percentile of how late the loop looks, ms; None where nobody counts rounds."""
    together: dict[str, tuple[int, int]] = {}
    for run in runs:
        for place, (count, ns) in run["usage"]["rounds"].items():
            was = together.get(place, (0, 0))
            together[place] = was[0] + count, was[1] + ns
    return loop_lag_ms(together, sum(run["usage"]["seconds"] for run in runs))


def ratio(
    one: Runs, other: Runs, statistic: Callable[[Runs], float], factor: float = 1.0
) -> tuple[float, float, float]:
    """`statistic` of one ÷ that of the other, times `factor`, with its interval over repetitions (NaN of one)."""
    at, low, high = verdict.ratio(one, other, statistic)
    return factor * at, factor * low, factor * high


def _spent_ms(run: Json) -> float:
    spent: float = run["usage"]["main_ms"] + run["usage"]["workers_ms"]
    return spent


def _requests(runs: Runs) -> int:
    return sum(run["usage"]["requests"] for run in runs)


# --- How late a loop looks at what arrives at a random moment, from the lengths of its rounds.
# Of what arrives while the loop waits nothing is late; of what arrives in a round of length d the lateness is even
# between 0 and d. So P(late by more than x) = sum over rounds with d > x of (d - x), divided by all the time. No
# probe is needed for it that would cost the service CPU.


def loop_lag_ms(rounds: Mapping[str, tuple[int, int]], seconds: float, share: float = 0.99) -> float | None:
    """The percentile of that lateness; None when nobody counted rounds.

    Args:
        rounds: class -> (rounds, ns of them all), as `service.clock.Rounds`; a class's rounds count as equally long.
        seconds: of observation.
        share: 0.99 = later only for one in a hundred.
    """
    if not rounds:
        return None
    allowed_ns = (1 - share) * seconds * 1e9
    # From the longest: with n rounds of S ns in all beyond x, the late time is S - n x.
    count, sum_ns = 0, 0
    lengths = sorted(((ns / many, many, ns) for many, ns in rounds.values()), reverse=True)
    for place, (_, many, ns) in enumerate(lengths):
        count, sum_ns = count + many, sum_ns + ns
        lag_ns = (sum_ns - allowed_ns) / count
        shorter_ns = lengths[place + 1][0] if place + 1 < len(lengths) else 0.0
        if lag_ns >= shorter_ns:
            return lag_ns / 1e6
    return 0.0


# --- What must be shown, against what was measured in the same run.


_STOCK: Final = "inline"
_PATH, _WHOLE = 12.0, 6.0
_POOL_P95, _POOL_MEMORY, _POOL_MOST = 3.0, 2.5, 5.0
_COMPILED: Final = "compiled"
_COMPILED_PATH: Final = 1.5


def verdicts_of(result: Result) -> list[Verdict]:
    """Of every variant that was measured; what was not is left out."""
    return [*_orders(result), *_against_stock(result), *_against_pool(result), *_against_compiled(result),
            *_outage(result)]  # fmt: skip


def _orders(result: Result) -> Iterator[Verdict]:
    wrong = {name: found["orders"]["of"] - found["orders"]["right"] for name, found in result.alone.items()}
    digests = {name: found["orders"]["orders"] for name, found in result.alone.items()}
    same = sum(len({of[user] for of in digests.values()}) == 1 for user in next(iter(digests.values())))
    remark = f"{len(digests)} variants give {same} of {result.users} users the same list, id by id"
    if names := [name for name, many in wrong.items() if many]:
        remark += f"; wrong in {', '.join(names)}"
    text = "orders that differ from the right one by more than items whose scores differ by < 1e-5"
    yield Verdict(text, sum(wrong.values()), math.nan, math.nan, "<=", 0, remark)
    lacking = _lacking(result)
    text = "requests under load with an error or a degraded answer"
    where = ", ".join(f"{many} of {cell}" for cell, (many, _) in lacking.items())
    reasons = sum((said for _, said in lacking.values()), Counter[str]())
    if reasons:
        where += f"; most often {'; '.join(reason for reason, _ in reasons.most_common(3))}"
    yield Verdict(text, sum(many for many, _ in lacking.values()), math.nan, math.nan, "<=", 0, where)


def _lacking(result: Result) -> dict[str, tuple[int, Counter[str]]]:
    """Errors and problems by cell, and what the service said of them, where there are some."""
    found: dict[str, tuple[int, Counter[str]]] = {}
    for pair in result.pairs.values():
        for contender, runs in pair["cells"].items():
            many = sum(run["errors"] + run["usage"]["problems"] for run in runs)
            reasons = sum((Counter(run["usage"]["reasons"]) for run in runs), Counter[str]())
            if many:
                found[f"{contender} at {amount(pair['per_s'])}/s"] = many, reasons
    return found


def _against_stock(result: Result) -> Iterator[Verdict]:
    for name in {_STOCK} & result.pairs.keys():
        pair = result.pairs[name]
        theirs, ours = pair["cells"][name], pair["cells"][OURS]
        factor = path_frac(pair["costs"][name]) / path_frac(pair["costs"][OURS])
        rate = f"at {amount(pair['per_s'])}/s"
        itself = pair["costs"][name]["path_cpu_ms"] / pair["costs"][OURS]["path_cpu_ms"]
        yield Verdict(
            f"ranking path's CPU, {name} ÷ {OURS}, {rate}", *ratio(theirs, ours, cpu_ms, factor), ">=", _PATH,
            f"one request at a time {amount(itself)}",
        )  # fmt: skip
        whole = pair["costs"][name]["cpu_ms"] / pair["costs"][OURS]["cpu_ms"]
        yield Verdict(
            f"whole request's CPU, {name} ÷ {OURS}, {rate}", *ratio(theirs, ours, cpu_ms), ">=", _WHOLE,
            f"one request at a time {amount(whole)}",
        )  # fmt: skip


def _against_pool(result: Result) -> Iterator[Verdict]:
    if POOL not in result.pairs:
        return
    pair = result.pairs[POOL]
    theirs, ours = pair["cells"][POOL], pair["cells"][OURS]
    rate = f"at {amount(pair['per_s'])}/s"
    yield Verdict(f"p95, {POOL} ÷ {OURS}, {rate}", *ratio(theirs, ours, p95_ms), ">=", _POOL_P95,
                  f"{amount(p95_ms(theirs))} and {amount(p95_ms(ours))} ms; "
                  f"the models' own time is {amount(_io_ms(ours))} ms of {OURS}'s")  # fmt: skip
    memory = pss_mb(theirs), pss_mb(ours)
    remark = (
        f"{amount(memory[0])} MB in {theirs[-1]['processes']} processes and {amount(memory[1])} MB in "
        f"{ours[-1]['processes']}; one interpreter with its packages is the lower bound"
    )
    yield Verdict(f"memory, {POOL} ÷ {OURS}", memory[0] / memory[1], math.nan, math.nan, ">=", _POOL_MEMORY, remark)
    bests = result.alone[POOL]["most"], result.alone[OURS]["most"]
    most = [best["max_per_s"] for best in bests]
    said = " and ".join(f"{amount(best['max_per_s'])}/s, bounded by {best['bounded_by']}" for best in bests)
    factor = most[1] / most[0] if most[0] else math.inf
    text = f"most requests a second with p95 in 500 ms, {OURS} ÷ {POOL}"
    yield Verdict(text, factor, math.nan, math.nan, ">=", _POOL_MOST, said)


def _against_compiled(result: Result) -> Iterator[Verdict]:
    if _COMPILED not in result.pairs:
        return
    pair = result.pairs[_COMPILED]
    costs, cells = pair["costs"], pair["cells"]
    itself = costs[OURS]["path_cpu_ms"] / costs[_COMPILED]["path_cpu_ms"]
    factor = path_frac(costs[OURS]) / path_frac(costs[_COMPILED])
    interval = ratio(cells[OURS], cells[_COMPILED], cpu_ms, factor)
    yield Verdict(
        f"ranking path's CPU, {OURS} ÷ {_COMPILED}, at {amount(pair['per_s'])}/s", *interval, "<=", _COMPILED_PATH,
        f"one request at a time {amount(itself)}; {_made_of(result)}",
    )  # fmt: skip


def _made_of(result: Result) -> str:
    """What the whole request's difference from `compiled` is made of, stage by stage."""
    cells = result.pairs[_COMPILED]["cells"]
    ours, theirs = (_stages_ms(cells[name]) for name in (OURS, _COMPILED))
    more = {name: ours.get(name, 0.0) - theirs.get(name, 0.0) for name in {*ours, *theirs}}
    more["outside of stages (loop, sockets, HTTP)"] = (cpu_ms(cells[OURS]) - sum(ours.values())) - (
        cpu_ms(cells[_COMPILED]) - sum(theirs.values())
    )
    parts = ", ".join(f"{name} {ms:+.2f}" for name, ms in sorted(more.items(), key=lambda part: -abs(part[1]))[:6])
    return (
        f"whole request {amount(cpu_ms(cells[OURS]))} and {amount(cpu_ms(cells[_COMPILED]))} ms, "
        f"the difference is made of {parts} ms"
    )


def _outage(result: Result) -> Iterator[Verdict]:
    found = result.outage
    degraded, back = found["degraded"], found["recovered_ms"]
    recovery = "no recovery seen" if back is None else f"whole again {amount(back)} ms after its start"
    yield Verdict(
        f"a shard killed under load: answers of {found['asked']} that failed or came after 500 ms",
        found["late"] + found["errors"], math.nan, math.nan, "<=", 0,
        f"latest {amount(found['latest_ms'])} ms; lacking something: {degraded['before']} before, "
        f"{degraded['without']} without it, {degraded['after']} after; {recovery}",
    )  # fmt: skip
    yield Verdict("a shard that is back: whole answers are seen again (1 = yes)", float(back is not None),
                  math.nan, math.nan, ">=", 1)  # fmt: skip


def _stages_ms(runs: list[Json]) -> dict[str, float]:
    requests = max(1, sum(run["usage"]["requests"] for run in runs))
    found: dict[str, float] = {}
    for run in runs:
        for name, row in run["usage"]["stages"].items():
            found[name] = found.get(name, 0.0) + row["cpu_ms"] / requests
    return found


def _io_ms(runs: list[Json]) -> float:
    requests = max(1, sum(run["usage"]["requests"] for run in runs))
    return float(sum(run["usage"]["stages"].get("models", {}).get("wall_ms", 0.0) for run in runs) / requests)
