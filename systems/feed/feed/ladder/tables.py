"""The result as people read it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from feed.ladder.options import OURS
from feed.ladder.rows import cpu_ms, lag_of, p95_ms, pss_mb
from feed.ladder.run import POOL, Result
from greenlane_tools.lab.demo import cell, columns, must_show
from greenlane_tools.lab.verdict import Verdict
from greenlane_tools.page.quantities import share

# --- The article's figures beside ours: what each step brought there and here, and why the two differ.


Json = dict[str, Any]
#: Shares of CPU in the article's profile of the service with the pool.
PROFILE: Final[Mapping[str, float]] = {"pickle": 0.07, "executor": 0.03, "JSON": 0.067}


#: History, models, records.
_GROUPS: Final = ("history", "models", "records")


@dataclass(frozen=True)
class Step:
    """One step of the article.

    Args:
        text: what was changed, and what is compared.
        theirs: what the article says.
        ours: what was measured here.
        why: where the difference comes from.
    """

    text: str
    theirs: str
    ours: str
    why: str

    def row(self) -> Json:
        """For `--json`."""
        return vars(self)


def steps_of(result: Result) -> list[Step]:
    """Of all steps whose variants were measured, at the pool's rate, on the same requests."""
    return [
        step
        for make in (_without_pool, _overhead, _late, _split, _shared, _native, _rewrite, _profile)
        for step in make(result)
    ]


def _p95(result: Result, name: str) -> float:
    return p95_ms(result.ladder[name])


def _without_pool(result: Result) -> Iterator[Step]:
    if {"inline", POOL} <= result.ladder.keys():
        more = _p95(result, "inline") / _p95(result, POOL) - 1
        yield Step(
            "without the pool: p95", "+35 %", f"{more:+.0%}",
            "here the machine's few cores also carry stores, models and the load, so what workers take off the loop is "
            "partly taken from it again; and the loop of `pool` still parses and pickles every item",
        )  # fmt: skip


def _overhead(result: Result) -> Iterator[Step]:
    if POOL in result.ladder:
        wall_ms = _parts_ms(result, ("executor",), "wall_ms")
        yield Step(
            "the pool: what the executor adds to a request", "about 100 ms", f"{wall_ms:.0f} ms",
            "pickling both ways and waiting for a worker and for the loop; features and predict are not in it",
        )  # fmt: skip


def _late(result: Result) -> Iterator[Step]:
    if POOL in result.ladder:
        runs = result.ladder[POOL]
        lag_ms = lag_of(runs) or 0.0
        least_ms, most_ms = (_parts_ms(result, _GROUPS, part) for part in ("wait_ms", "wait_most_ms"))
        yield Step(
            "the pool: a coroutine that is ready is resumed late; over the three groups of I/O", "80 ms; 240 ms",
            f"99 of 100 arrivals are seen within {lag_ms:.0f} ms; {least_ms:.0f} to {most_ms:.0f} ms",
            "our loop is at half of its capacity, not at its peak; what is certain and what is possible are told apart",
        )  # fmt: skip


def _split(result: Result) -> Iterator[Step]:
    if {"split", POOL} <= result.ladder.keys():
        more_ms = _p95(result, "split") - _p95(result, POOL)
        moved = _moved_mb(result, "split")
        yield Step(
            "a service of its own for the model: p95", "+270 ms, 4 MB a request, 12 MB for very active users",
            f"{more_ms:+.0f} ms, {moved:.1f} MB a request on average",
            "loopback instead of a network; and pickling items for `pool` costs about as much as JSON does here, so of "
            "what the step cost them only the size of its bodies is left",
        )  # fmt: skip


def _shared(result: Result) -> Iterator[Step]:
    if {"shared-memory", POOL} <= result.ladder.keys():
        less_ms = _p95(result, POOL) - _p95(result, "shared-memory")
        yield Step(
            "shared memory instead of pickle: p95", "estimated −140 ms (70 serialisation, 70 of the blocked loop)",
            f"{-less_ms:+.0f} ms",
            "items go to workers as stored bytes here, so the loop does not parse them either: more than pickle goes",
        )  # fmt: skip


def _native(result: Result) -> Iterator[Step]:
    if {"native-go", POOL} <= result.ladder.keys():
        features = _stage_ms(result, POOL, "features", "decode") / _stage_ms(result, "native-go", "features")
        path = _path_ms(result, POOL) / _path_ms(result, "native-go")
        yield Step(
            "features in Go from Python: features; ranking step; p95", "20–30× faster; 3×; 1060 → 680 ms",
            f"{features:.1f}× less CPU (reading items included); {path:.1f}× less CPU; "
            f"{_p95(result, POOL):.0f} → {_p95(result, 'native-go'):.0f} ms",
            "native code reads JSON itself here, which bounds it; their 20–30× is the features alone, head-on. Most of "
            "what is left of the step is the stock client of Redis: three thousand keys in nearly as many slots",
        )  # fmt: skip


def _rewrite(result: Result) -> Iterator[Step]:
    if {"compiled", POOL} <= result.ladder.keys():
        cpu = cpu_ms(result.ladder[POOL]) / cpu_ms(result.ladder["compiled"])
        memory = pss_mb(result.ladder[POOL]) / pss_mb(result.ladder["compiled"])
        yield Step(
            "the whole service compiled: p95; CPU; memory", "1280 → 450 ms; 5× less; 21× less",
            f"{_p95(result, POOL):.0f} → {_p95(result, 'compiled'):.0f} ms; {cpu:.1f}× less; {memory:.0f}× less",
            "more than theirs: packed records and an evaluator of its own came along, which Python can have, too. Of "
            "p95 the first-level models' own time is left",
        )  # fmt: skip


def _profile(result: Result) -> Iterator[Step]:
    if POOL in result.alone and (found := result.alone[POOL]["shares"]):
        yield Step(
            "the pool's CPU: " + ", ".join(PROFILE), ", ".join(f"{frac:.1%}" for frac in PROFILE.values()),
            ", ".join(f"{found.get(name, 0.0):.1%}" for name in PROFILE),
            "pickle: all that it stands beside is lighter here (features, the model, no neural first level), and items "
            "have all their 50 fields when they are sent; JSON: here items are stored as JSON, there it was the "
            "network's; executor: few cores, so its threads take turns with the loop",
        )  # fmt: skip


def _moved_mb(result: Result, name: str) -> float:
    return _mean(result, name, lambda usage: usage["bytes_moved"]) / 1e6


def _stage_ms(result: Result, name: str, *stages: str) -> float:
    return _mean(result, name, lambda usage: sum(usage["stages"].get(one, {}).get("cpu_ms", 0.0) for one in stages))


def _parts_ms(result: Result, stages: Sequence[str], part: str) -> float:
    return _mean(result, POOL, lambda usage: sum(usage["stages"].get(one, {}).get(part, 0.0) for one in stages))


def _path_ms(result: Result, name: str) -> float:
    found: float = result.pairs[name]["costs"][name]["path_cpu_ms"]
    return found


def _mean(result: Result, name: str, value: Callable[[Json], float]) -> float:
    runs = result.ladder[name]
    return sum(value(run["usage"]) for run in runs) / max(1, sum(int(run["usage"]["requests"]) for run in runs))


def said(step: Step) -> str:
    """A few lines."""
    return f"{step.text}\n    article  {step.theirs}\n    here     {step.ours}\n    why      {step.why}"


Row = Mapping[str, Any]
_CELL: Final = (
    ("variant", "contender"), ("beside", "beside"), ("per s", "offered_per_s"), ("p50", "p50_ms"),
    ("p95", "p95_ms"), ("p99", "p99_ms"), ("in 500 ms", "within_deadline_frac"), ("CPU ms", "cpu_ms_per_job"),
    ("path CPU ms", "path_cpu_ms_per_job"), ("loop lag p99", "loop_lag_p99_ms"), ("moved MB", "bytes_moved_per_job"),
    ("n", "samples"),
)  # fmt: skip
_ITSELF: Final = (
    ("variant", "contender"), ("capacity/s", "capacity_per_s"), ("max/s p95≤500", "max_per_s"), ("memory MB", "pss_mb"),
    ("processes", "processes"), ("NDCG@100", "ndcg"), ("bounded by", "bounded_by"),
)  # fmt: skip
_STAGE: Final = (("stage", "stage"), ("CPU ms", "cpu_ms"), ("I/O ms", "io_ms"), ("wait ms", "wait_ms"))


def shown(result: Result, rows: Sequence[Row], verdicts: Sequence[Verdict], steps: Sequence[Step]) -> str:
    """All tables, verdicts and steps."""
    cells = [row for row in rows if row["stage"] is None]
    half = [row for row in cells if row["cell"] == "half"]
    ladder = [row for row in cells if row["cell"] != "half"]
    own = [row for row in half if row["contender"] == row["beside"] or row["contender"] != OURS]
    parts = [
        f"{result.users} users ask, {result.active} of them very active. CPU and memory are those of the service and "
        "its processes, not of stores and models.",
        "Each variant by itself\n" + columns(own, _ITSELF, _cell),
        f"Each variant at half of its capacity, and {OURS} on the same requests\n" + columns(half, _CELL, _cell),
    ]
    if ladder:
        parts.append("All on the same requests, at half of the pool's capacity\n" + columns(ladder, _CELL, _cell))
    parts.append("Where a request's time goes, at half of each variant's capacity\n" + _stages(rows))
    parts += [f"{OURS} places {one['function']}: {one['placement']} ({one['reason']})"
              for one in result.alone[OURS]["placements"]]  # fmt: skip
    parts.append("Shares of CPU\n" + _shares(result))
    if steps:
        parts.append("The article's steps\n" + "\n".join(map(said, steps)))
    parts.append(must_show(verdicts))
    return "\n\n".join(parts)


def _stages(rows: Sequence[Row]) -> str:
    parts = []
    for name in dict.fromkeys(row["contender"] for row in rows):
        mine = [
            row for row in rows
            if row["stage"] and row["contender"] == name and row["cell"] == "half" and row["beside"] in ("", name)
        ]  # fmt: skip
        mine.sort(key=lambda row: -(row["cpu_ms"] or 0.0))
        parts.append(f"{name}\n{columns(mine, _STAGE, _cell)}")
    return "\n".join(parts)


def _shares(result: Result) -> str:
    lines = []
    for name, found in result.alone.items():
        words = ", ".join(f"{part} {share(frac)}" for part, frac in found["shares"].items() if frac >= 0.001)
        lines.append(f"{name}: {words or 'not sampled'}")
    lines.append("the article's pool: " + ", ".join(f"{part} {share(frac)}" for part, frac in PROFILE.items()))
    return "\n".join(lines)


def _cell(name: str, value: object) -> str:
    if isinstance(value, float) and name == "bytes_moved_per_job":
        return cell(name, value / 1e6)
    return f"{value:.4f}" if isinstance(value, float) and name == "ndcg" else cell(name, value)
