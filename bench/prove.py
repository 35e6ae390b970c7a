"""Runs every measured claim of the README and prints measured, target, verdict.

    python -m bench.prove [--quick] [--only NAME[,NAME]] [--fresh] [--seed N]

It says first how long it takes. Each block's claims are printed as soon as the block is done; raw samples are kept
in bench/results/raw/, and a proof that was interrupted goes on where it stopped. `--quick` runs everything for a few
seconds: a smoke test of the proof, not a proof. Exit code 0: every claim holds; 1: one does not; 2: wrong options.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import NoReturn

from bench import blocks, claims, ideal, overhead, store, summary
from bench.blocks import BLOCKS, Block
from bench.claims import Claim
from greenlane.demo import arena, comparison, tables, work
from greenlane.demo.contenders import Server
from greenlane.demo.plan import Plan
from greenlane.demo.rates import OFFER_DEADLINE_MS, JobCost
from greenlane.demo.rows import Row, Run, pooled
from greenlane.demo.samples import RunKey
from greenlane.errors import GreenlaneError, SettingsError
from greenlane.lab.environment import about

_OURS = "greenlane"
_GTHREADS = ("gthread-64", "gthread-64-0.5ms")
_NAMES = ("overhead", *(block.name for block in BLOCKS))
_PACKAGES = ("greenlane", "gunicorn", "gevent", "flask", "django", "numpy")
# A simulation this long (s) gives the ideal bound beyond the arrivals that were drawn.
_LONG_S = 3_000.0


def main(argv: Sequence[str]) -> int:
    """Run the proof; gives the exit code."""
    try:
        given = _arguments(argv)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        return _Proof(given.quick, given.only, given.seed).run(given.fresh)
    except GreenlaneError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("\nstopped; run it again to go on where it was", file=sys.stderr)
        return 130


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(prog="python -m bench.prove", description=__doc__, allow_abbrev=False,
                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="a smoke test of a few minutes")
    parser.add_argument("--only", default=",".join(_NAMES), help=f"some of {', '.join(_NAMES)}")
    parser.add_argument("--fresh", action="store_true", help="forget what was measured before")
    parser.add_argument("--seed", type=int, default=1, help="of all load (1)")
    given = parser.parse_args(argv)
    given.only = tuple(given.only.split(","))
    for name in given.only:
        if name not in _NAMES:
            raise SettingsError("--only", name, f"some of {', '.join(_NAMES)}", attempted="run the proof")
    return given


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise SettingsError("arguments", message, "options that exist", "python -m bench.prove --help",
                            attempted="run the proof")  # fmt: skip


class _Proof:
    def __init__(self, quick: bool, only: Sequence[str], seed: int) -> None:
        self._quick = quick
        self._only = only
        self._seed = seed
        folder = blocks.checkout() / "bench" / "results"
        self._results = folder
        self._store = store.Store(folder / ("raw-quick" if quick else "raw"), {"seed": seed, "quick": quick})
        self._claims: list[Claim] = []
        self._rows: list[tuple[Block, list[Row]]] = []
        self._iterations = 0

    def run(self, fresh: bool) -> int:
        resumed = self._store.open(fresh)
        _say("resuming: what is stored is not run again" if resumed else "a new proof")
        self._iterations = self._iterations_per_ms()
        chosen = [block for block in BLOCKS if block.name in self._only]
        costs = {kind: self._costs(kind) for kind in {block.django for block in chosen}}
        seconds = sum(block.expected_s(costs[block.django], self._quick) for block in chosen)
        if "overhead" in self._only:
            seconds += self._rounds() * 1.5 * 5.5 + 15
        _say(f"{len(chosen)} comparisons{' and the overhead' * ('overhead' in self._only)}: "
             f"about {round(seconds / 60)} minutes when nothing is stored yet")  # fmt: skip
        if "overhead" in self._only:
            self._overhead()
        for block in chosen:
            self._block(block, costs[block.django])
        return self._end()

    def _iterations_per_ms(self) -> int:
        known = self._store.note("iterations")
        if not isinstance(known, int):
            known = work.iterations_per_ms(rounds=200)
            self._store.keep_note("iterations", known)
        return known

    def _costs(self, django: bool) -> dict[str, JobCost]:
        name = "costs-django" if django else "costs"
        known = self._store.note(name)
        if known is None:
            _say(f"calibrating on stock gthread ({'Django' if django else 'Flask'})")
            like = next(block for block in BLOCKS if block.django == django)
            stock = Block("calibration", "", like.mix, 0.5, ("gthread-64",), like.shares, django)
            with blocks.opened(stock, self._iterations) as running:
                costs = blocks.calibrate(stock, running, self._iterations, 1.0 if self._quick else 4.0)
            known = store.costs_as_json(costs)
            self._store.keep_note(name, known)
        return store.costs_from_json(known)

    def _rounds(self) -> int:
        return 3 if self._quick else overhead.ROUNDS

    def _overhead(self) -> None:
        print("\noverhead: CPU per request on hello-world, paired with stock gthread", flush=True)
        known = self._store.note("overhead")
        if not isinstance(known, dict):
            rounds = overhead.measure(self._rounds(), "keep-alive") + overhead.measure(self._rounds() // 2 + 1, "new")
            known = {"rounds": [asdict(one) for one in rounds], "changes": overhead.interval_changes()}
            self._store.keep_note("overhead", known)
        self._judge(overhead.claims([overhead.Round(**one) for one in known["rounds"]], known["changes"]))

    def _block(self, block: Block, costs: dict[str, JobCost]) -> None:
        design = block.design(costs, self._seed, self._quick)
        shape = f"{design.repetitions} repetitions of {design.run_seconds:g} s"
        print(f"\n{block.name}: {block.title}; {shape}", flush=True)
        print(tables.mix_table(design.shares, costs, design.utilisations_frac), flush=True)
        runs = {key: self._store.load(block.name, key) for key in design.turns()}
        if None in runs.values():
            with blocks.opened(block, self._iterations) as running:
                comparison.warm_up(running, design.shares, costs, 2 * comparison.WARM_S)
                for key, stored in runs.items():
                    runs[key] = stored or self._turn(block, design, running, key, costs)
        done = [run for run in runs.values() if run is not None]
        rows = pooled(done)
        light, heavy = comparison.subjects(design.shares)
        print("\n" + tables.result_table(rows, light, heavy), flush=True)
        if disturbance := comparison.disturbed(done):
            _say(f"\n{disturbance}")
        self._rows.append((block, rows))
        plans = [comparison.plan_of(design, key, _Nowhere(), costs) for key in design.turns() if key.contender == _OURS]
        self._judge(_claims(block, done, heavy, plans))

    def _turn(
        self,
        block: Block,
        design: comparison.Design,
        running: arena.Arena,
        key: RunKey,
        costs: dict[str, JobCost],
    ) -> Run:
        server = running.servers[key.contender]
        run = comparison.take_turn(key, comparison.plan_of(design, key, server, costs), server)
        self._store.save(block.name, run)
        light, heavy = comparison.subjects(design.shares)
        print(tables.live_line(pooled([run]), key.repetition, light, heavy), flush=True)
        return run

    def _judge(self, found: Sequence[Claim]) -> None:
        self._claims += found
        print("\n" + "\n".join(summary.claim_line(claim) for claim in found), flush=True)

    def _end(self) -> int:
        failed = [claim for claim in self._claims if not claim.holds]
        print(f"\n{len(self._claims) - len(failed)} of {len(self._claims)} claims hold", flush=True)
        if self._quick:
            print("--quick: a smoke test; nothing of it proves a claim")
            return 0
        if set(self._only) == set(_NAMES):
            summary.write(self._results, about(_PACKAGES), self._rows, self._claims)
            _say(f"written: {self._results / 'summary.md'}, {self._results / 'summary.json'}")
        return 1 if failed else 0


class _Nowhere(Server):
    """In place of a server where only the schedule of a plan is wanted."""

    def __init__(self) -> None:
        pass

    def address(self, endpoint: str) -> str:
        return "127.0.0.1:0"


def _claims(block: Block, runs: Sequence[Run], heavy: str, plans: Sequence[Plan]) -> list[Claim]:
    cells: dict[str, list[Run]] = {}
    for run in runs:
        cells.setdefault(run.key.contender, []).append(run)
    ours = [name for name in cells if name.startswith(_OURS)]
    return [claim for name in ours for claim in _claims_of(block, cells, name, heavy, plans)]


def _claims_of(block: Block, cells: dict[str, list[Run]], name: str, heavy: str, plans: Sequence[Plan]) -> list[Claim]:
    mine, rivals = cells[name], [other for other in cells if not other.startswith(_OURS)]
    at = f"{block.utilisation_frac:g}, {name}"
    share, low, high = claims.share_within(mine, "bikes", OFFER_DEADLINE_MS)
    found = [Claim(block.name, f"bikes within 500 ms ({at})", share, low, high, "≥", 0.999, digits=4)]

    def against(endpoint: str, names: Sequence[str], target: float, at_share: float = 0.99, note: str = "") -> None:
        present = [other for other in names if other in cells]
        if present:
            statistic = claims.of_p(at_share, endpoint)
            rival = claims.best(cells, present, statistic)
            point = claims.ratio(mine, cells[rival], statistic)
            text = f"{endpoint} p{at_share * 100:g} ÷ {rival}'s ({at})"
            found.append(Claim(block.name, text, *point, "≤", target, note=note))

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
    found.append(Claim(block.name, f"done per s ÷ {rival}'s ({at})", *point, "≥", 0.98))
    return found


def _bound(plans: Sequence[Plan], heavy: str) -> str:
    long = Plan("ideal", _LONG_S, plans[0].streams)
    return (
        f"ideal bound against first come, first served: {ideal.p99_ratio(plans, heavy):.2f} for these arrivals, "
        f"{ideal.p99_ratio([long], heavy):.2f} in the long run"
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
