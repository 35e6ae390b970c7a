"""What must be shown, against what was measured in the same run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from greenlane_tools.lab.verdict import Verdict
from greenlane_tools.page.quantities import amount

from .options import OURS
from .rows import cpu_ms, p95_ms, path_frac, pss_mb, ratio
from .run import POOL, Result

Json = dict[str, Any]
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
