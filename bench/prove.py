"""Runs every measured claim of the README and prints measured, target, verdict.

    python -m bench.prove [--quick] [--only NAME[,NAME]] [--fresh] [--seed N]

It says first how long it takes. Each block's claims are printed as soon as the block is done; raw samples are kept
in bench/results/raw/, and a proof that was interrupted goes on where it stopped. `--quick` runs everything for a few
seconds: a smoke test of the proof, not a proof. Exit code 0: every claim holds; 1: one does not; 2: wrong options.
"""

from __future__ import annotations

import heapq
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from bench import claims, offers, overhead, payers, placement, plan, pos
from bench.claims import BLOCKS, Block, Claim
from greenlane_tools.lab import demo
from greenlane_tools.lab.arguments import Values, each_of, options, switch, whole
from greenlane_tools.lab.environment import about
from greenlane_tools.lab.load.plan import Plan
from greenlane_tools.lab.load.schedule import job_ms, schedule
from greenlane_tools.lab.pricing import pricing
from greenlane_tools.lab.run import tables, work_unit
from greenlane_tools.lab.run.pacing import plan_of
from greenlane_tools.lab.run.rows import Row, Run, turns
from greenlane_tools.lab.run.runner import run_scenario, stored
from greenlane_tools.lab.run.store import Store, digest
from greenlane_tools.lab.run.talk import LiveTalk
from greenlane_tools.lab.scenario.scenario import Scenario

_OURS = "greenlane"
_GTHREADS = ("gthread-64", "gthread-64-0.5ms")
#: What judges itself: scenarios of the lab, systems of the checkout by their demos, and the plan. Title and module.
_SYSTEMS = {
    "who-pays": ("loads that an order of turns may get wrong, every class against plain threads", payers),
    "offers": ("bike and scooter offers of phones that poll, against the stock server and a twin in Go", offers),
    "pos": ("orders to ten merchants, one of them slow, against stock Celery", pos),
    "plan": ("how fast it simulates, whether its bands are right, what its advice is worth", plan),
}
_NAMES = ("overhead", *(block.name for block in BLOCKS), "placement", *_SYSTEMS)
_PACKAGES = ("greenlane", "gunicorn", "gevent", "flask", "django", "numpy")
# A simulation this long (s) gives the ideal bound beyond the arrivals that were drawn.
_LONG_S = 3_000.0
# Of the ideal bound: the upstream's time, endpoints that go first.
_UPSTREAM_MS, _LIGHT = 100.0, ("bikes", "scooters")


@dataclass(frozen=True)
class _Options:
    quick: bool = switch("a smoke test of a few minutes")
    only: tuple[str, ...] | None = each_of(_NAMES, "what is proved")
    fresh: bool = switch("forget what was measured before")
    seed: int = whole(1, 0, 2**31, "of all load")


def main(argv: Sequence[str]) -> int:
    """Run the proof; gives the exit code."""
    attempted = "run the proof"
    values = Values(attempted, "python -m bench.prove --help")

    def parse(given: Sequence[str]) -> _Options | str:
        found = options(_Options, values, "python -m bench.prove", (__doc__ or "").splitlines()[0], given)
        return found if isinstance(found, str) else _Options(**found[0])

    def proved(given: _Options, *_: object) -> int:
        return _Proof(given.quick, given.only or _NAMES, given.seed).run(given.fresh)

    stopped = "stopped; run it again to go on where it was"
    return demo.run(argv, sys.stdout, sys.stderr, attempted, parse, proved, stopped)


class _Proof:
    def __init__(self, quick: bool, only: Sequence[str], seed: int) -> None:
        self._quick = quick
        self._only = only
        self._seed = seed
        self._results = claims.checkout() / "bench" / "results"
        self._raw = claims.raw(quick)
        identity = {"seed": seed, "quick": quick, "sources": digest(), "python": sys.version}
        self._store = Store(self._raw / "notes", identity, {})
        self._claims: list[Claim] = []
        self._rows: list[tuple[Block, list[Row]]] = []
        self._iterations = 0

    def run(self, fresh: bool) -> int:
        if fresh:
            shutil.rmtree(self._raw, ignore_errors=True)
        self._store.open(fresh)
        resumed = self._store.note("iterations") is not None
        _say("resuming: what is stored is not run again" if resumed else "a new proof")
        self._iterations = self._iterations_per_ms()
        chosen = [block for block in BLOCKS if block.name in self._only]
        first = {block.django: block for block in reversed(chosen)}  # of each kind: it says how long all of it take
        costs = {django: self._costs(block) for django, block in first.items()}
        seconds = sum(block.expected_s(costs[block.django], self._quick) for block in chosen)
        if "overhead" in self._only:
            seconds += self._rounds() * 1.5 * 4 + 30
        if "placement" in self._only:
            seconds += placement.expected_s(self._quick)
        systems = [name for name in _SYSTEMS if name in self._only]
        for _, system in (_SYSTEMS[name] for name in systems):
            system.installed()
            seconds += system.expected_s(self._quick)
        besides = "".join(f", {name}" for name in ("overhead", "placement", *systems) if name in self._only)
        _say(f"{len(chosen)} comparisons{besides}: "
             f"about {round(seconds / 60)} minutes when nothing is stored yet")  # fmt: skip
        if "overhead" in self._only:
            self._overhead()
        for block in chosen:
            self._block(block, self._costs(block))
        if "placement" in self._only:
            self._placement()
        for name in systems:
            self._system(name)
        return self._end()

    def _iterations_per_ms(self) -> int:
        known = self._store.note("iterations")
        if not isinstance(known, int):
            scenario = pricing()
            known = work_unit.iterations_per_ms(scenario.work, scenario.folder, rounds=200)
            self._store.keep_note("iterations", known)
        return known

    def _costs(self, block: Block) -> dict[str, float]:
        """CPU of its jobs, measured when it begins: cores change speed within the hours of a proof."""
        name = f"costs-{block.name}"
        known = self._store.note(name)
        if not isinstance(known, dict):
            _say(f"{block.name}: calibrating on stock gthread ({'Django' if block.django else 'Flask'})")
            known = claims.calibrated(block.django, self._iterations, 1.0 if self._quick else 4.0)
            self._store.keep_note(name, known)
        return known

    def _rounds(self) -> int:
        return 3 if self._quick else overhead.ROUNDS

    def _overhead(self) -> None:
        print("\noverhead: CPU per request on hello-world, paired with stock gthread", flush=True)
        known = self._store.note("overhead")
        if not isinstance(known, dict):
            rounds = overhead.measure(self._rounds(), "keep-alive") + overhead.measure(self._rounds() // 2 + 1, "new")
            known = {"rounds": [asdict(one) for one in rounds], "changes": overhead.interval_changes()}
            known["calls_us"] = overhead.calls_us()
            self._store.keep_note("overhead", known)
        rounds = [overhead.Round(**one) for one in known["rounds"]]
        self._judge(overhead.claims(rounds, known["changes"], known["calls_us"]))

    def _placement(self) -> None:
        print("\nplacement: functions beside a heartbeat, 4 callers, against fixed placements", flush=True)
        known = self._store.note("placement")
        if not isinstance(known, list):
            known = placement.measure(self._quick)
            self._store.keep_note("placement", known)
        self._judge(placement.claims(known))

    def _system(self, name: str) -> None:
        title, system = _SYSTEMS[name]
        print(f"\n{name}: {title}", flush=True)
        note = f"{name}-{system.sources()}"
        known = self._store.note(note)
        if not isinstance(known, list):
            known = system.measure(self._quick, LiveTalk(sys.stdout, sys.stderr))
            self._store.keep_note(note, known)
        self._judge(system.claims(known))

    def _block(self, block: Block, costs: dict[str, float]) -> None:
        scenario = block.scenario(costs, self._seed, self._quick)
        shape = f"{scenario.repetitions} repetitions of {scenario.run_seconds():g} s"
        print(f"\n{block.name}: {block.title}; {shape}", flush=True)
        kept = stored(scenario, self._raw / block.name)
        kept.open(fresh=False)
        for name, value in (("costs_ms", costs), ("iterations_per_ms", self._iterations)):
            kept.keep_note(name, value)
        result = run_scenario(scenario, block.contenders, kept, LiveTalk(sys.stdout, sys.stderr))
        shown = ("bikes", block.heavy())
        print("\n" + tables.result_table(scenario, result.rows, shown), flush=True)
        for remark in result.remarks:
            _say(f"note: {remark}")
        self._rows.append((block, list(result.rows)))
        print("\n" + tables.payers_table(scenario, result.rows), flush=True)
        self._judge(_claims(block, scenario, result.runs, _plans(scenario, costs)))
        self._judge(payers.claims(payers.worst_of(block.name, scenario, result.rows, result.runs)))

    def _judge(self, found: Sequence[Claim]) -> None:
        self._claims += found
        print("\n" + "\n".join(claim.line() for claim in found), flush=True)

    def _end(self) -> int:
        failed = [claim for claim in self._claims if not claim.holds]
        print(f"\n{len(self._claims) - len(failed)} of {len(self._claims)} claims hold", flush=True)
        if self._quick:
            print("--quick: a smoke test; nothing of it proves a claim")
            return 0
        if set(self._only) == set(_NAMES):
            claims.write(self._results, about(_PACKAGES), self._rows, self._claims)
            _say(f"written: {self._results / 'summary.md'}, {self._results / 'raw' / 'summary.json'}")
        return 1 if failed else 0


def _plans(scenario: Scenario, costs: dict[str, float]) -> list[Plan]:
    """What was sent in each repetition."""
    mine = [turn for turn in turns(scenario, [_OURS]) if turn.contender == _OURS]
    return [plan_of(scenario, turn, lambda name: "127.0.0.1:0", costs) for turn in mine]


def _claims(block: Block, scenario: Scenario, runs: Sequence[Run], plans: Sequence[Plan]) -> list[Claim]:
    cells: dict[str, list[Run]] = {}
    for run in runs:
        cells.setdefault(run.turn.contender, []).append(run)
    ours = [name for name in cells if name.startswith(_OURS)]
    deadline_ms = scenario.request_class("bikes").deadline_ms
    return [claim for name in ours for claim in _claims_of(block, cells, name, deadline_ms, plans)]


def _claims_of(
    block: Block, cells: dict[str, list[Run]], name: str, deadline_ms: float, plans: Sequence[Plan]
) -> list[Claim]:
    mine, rivals, heavy = cells[name], [other for other in cells if not other.startswith(_OURS)], block.heavy()
    at = f"{block.utilisation_frac:g}, {name}"
    share, low, high = claims.share_within(mine, "bikes", deadline_ms)
    found = [Claim(f"bikes within 500 ms ({at})", share, low, high, ">=", 0.999, block=block.name, digits=4)]

    def against(endpoint: str, names: Sequence[str], target: float, at_share: float = 0.99, note: str = "") -> None:
        present = [other for other in names if other in cells]
        if present:
            statistic = claims.of_p(at_share, endpoint)
            rival = claims.best(cells, present, statistic)
            point = claims.ratio(mine, cells[rival], statistic)
            text = f"{endpoint} p{at_share * 100:g} ÷ {rival}'s ({at})"
            found.append(Claim(text, *point, "<=", target, note, block=block.name))

    if block.mix == "surge":
        for endpoint in ("bikes", heavy):
            for at_share in (0.5, 0.99):
                against(endpoint, rivals, 1.0, at_share)
    else:
        if all(other in cells for other in _GTHREADS):
            against("bikes", _GTHREADS, 0.85)
        against("bikes", ("dedicated",), 1.05)
        against(heavy, _GTHREADS, 1.0)
        against(heavy, ("gevent",), 1.25, note=_bound(plans, heavy))
    rival = claims.best(cells, rivals, claims.done_per_s, lowest=False)
    point = claims.ratio(mine, cells[rival], claims.done_per_s)
    found.append(Claim(f"done per s ÷ {rival}'s ({at})", *point, ">=", 0.98, block=block.name))
    return found


def _bound(plans: Sequence[Plan], heavy: str) -> str:
    long = Plan("ideal", _LONG_S, plans[0].streams)
    return f"ideal bound against first come, first served: {ideal_ratio(long, heavy):.2f}"


def ideal_ratio(plan: Plan, heavy: str) -> float:
    """p99 of a heavy endpoint on one ideal processor, light endpoints first ÷ in order of arrival.

    No order gives light endpoints less wait than the first of the two, so this is the price that priority has at least:
    R. W. Conway, W. L. Maxwell, L. W. Miller, Theory of Scheduling (1967), chapter 8. Simulated, since offers come back
    after each upstream call.
    """
    arrivals = schedule(plan)
    names = np.array([stream.name for stream in plan.streams])[arrivals.stream]
    cpu_ms = np.maximum(0.01, job_ms(plan, arrivals))
    jobs = list(zip((arrivals.at_ns / 1e6).tolist(), names.tolist(), cpu_ms.tolist(), strict=True))
    of_heavy = names == heavy
    first, fifo = (np.array(_latencies_ms(jobs, before))[of_heavy] for before in (_LIGHT, ()))
    return float(np.quantile(first, 0.99) / np.quantile(fifo, 0.99))


def _latencies_ms(jobs: Sequence[tuple[float, str, float]], before: Sequence[str]) -> list[float]:
    """Of (arrival, endpoint, ms of CPU): by readiness, but endpoints of `before` preempt the others immediately."""
    left = [[(wait, cpu_ms * share) for wait, share in _steps(name)] for _, name, cpu_ms in jobs]
    coming = [(at, number) for number, (at, _, _) in enumerate(jobs)]
    heapq.heapify(coming)
    ready: list[tuple[bool, float, int]] = []
    latencies, now = [0.0] * len(jobs), 0.0
    while coming or ready:
        now = now if ready else max(now, coming[0][0])
        while coming and coming[0][0] <= now:
            at, number = heapq.heappop(coming)
            heapq.heappush(ready, (jobs[number][1] not in before, at, number))
        _, at, number = ready[0]
        _, burst_ms = left[number][0]
        ran_ms = min(burst_ms, coming[0][0] - now) if coming else burst_ms
        now += ran_ms
        left[number][0] = (0.0, burst_ms - ran_ms)
        if ran_ms < burst_ms:
            continue  # somebody is ready: perhaps before this one
        heapq.heappop(ready)
        del left[number][0]
        if left[number]:
            heapq.heappush(coming, (now + left[number][0][0], number))
        else:
            latencies[number] = now - jobs[number][0]
    return latencies


def _steps(endpoint: str) -> list[tuple[float, float]]:
    """(ms of I/O before it, share of the CPU) of each burst: offers ask three times, surge before most of it."""
    if endpoint in _LIGHT:
        return [(0.0, 0.25), *[(_UPSTREAM_MS, 0.25)] * 3]
    return [(0.0, 0.05), (_UPSTREAM_MS, 0.95)] if endpoint == "surge" else [(0.0, 1.0)]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
