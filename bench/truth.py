"""Whether the recording tells the truth: programs whose split is known by construction, on every runtime.

    python -m bench.truth [--quick] [--jobs 100] [--runtimes threads,gevent,asyncio,uvloop] [--hurry]

The question: of each job's latency, are CPU, I/O and wait each right within 3 % or 0.5 ms, is the wait blamed on who
it was, and do the parts of every one of 100,000 jobs make its latency? Expected: yes for 99 of 100 jobs; 95 % of the
blame; all sums, nothing lost, residual at most 1 % at p99. And are services with a trouble (a driver that blocks
unseen, an idle process pool …) told by its right name, within 5 % of their latency?

Each program (`bench/truths/`) knows its own time: CPU by the thread's clock, the reply's moment by the process that
sent it, and when its hogs ran by their own clocks. It waits for a quiet machine first (not with `--hurry`), and says
if it was none: two clocks of a descheduled thread do not tell the same. Claims: bench/results/truth.md.

What it does not show: what a hook cannot see at all (facts of each probe are in its module), nor other machines.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from bench.claims import Claim
from bench.summary import claim_line
from bench.truths import machine
from bench.truths.compare import PARTS, RUNTIMES, Outcome, parts, play, run
from bench.truths.named import NAMED_FRAC, play_trouble
from bench.truths.troubles import TROUBLES
from greenlane_tools.lab.environment import about
from greenlane_tools.lab.statistics import quantile, wilson
from greenlane_tools.reader import Job, open_recording

THREADS, EACH = 4, 25_000
#: Of the jobs: two clocks cannot be read at once, and the machine may take the core in between.
RIGHT_FRAC = 0.99
BLAME_FRAC = 0.95
RESIDUAL_FRAC = 0.01
#: So often a runtime is measured until the machine was quiet meanwhile.
_TRIES = 3
_MS = 1e6
_RESULTS = Path(__file__).parent / "results" / "truth.md"


def main(argv: Sequence[str]) -> int:
    """Measure, print, write; the exit code is 1 if a claim fails."""
    parser = argparse.ArgumentParser(prog="python -m bench.truth", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="a smoke test: few jobs, no proof, nothing written")
    parser.add_argument("--jobs", type=int, default=100, help="victims of each program (100)")
    parser.add_argument("--runtimes", default=",".join(RUNTIMES), help="some of them")
    parser.add_argument("--hurry", action="store_true", help="do not wait for a quiet machine, do not run again")
    given = parser.parse_args(argv)
    hurry, jobs = given.hurry or given.quick, 10 if given.quick else given.jobs
    if not hurry:
        machine.settled()
    rows, claims = [], []
    print(f"{'program':<18}{'jobs':>5}" + "".join(f"{part:>7} right  p50 / p99 ms off" for part in PARTS) + "  blame")
    for runtime in given.runtimes.split(","):
        outcomes, seen = _runtime(runtime, jobs, 1 if hurry else _TRIES)
        rows += [{**_row(one), "machine": asdict(seen)} for one in outcomes]
        claims += _claims(runtime, outcomes, "" if seen.quiet else "disturbed")
    claims += _troubles(jobs)
    found, row = _many(EACH // 50 if given.quick else EACH)
    rows.append(row)
    claims += found
    print()
    print("\n".join(map(claim_line, claims)))
    if given.quick:
        print("--quick: a smoke test; nothing of it proves a claim")
        return 0
    _RESULTS.write_text(_markdown(about(("greenlane", "gevent", "uvloop")), claims), encoding="utf-8")
    print(f"written: {_RESULTS}")
    return 0 if all(claim.holds for claim in claims) else 1


def _markdown(environment: Mapping[str, object], claims: Sequence[Claim]) -> str:
    where = f"{environment['cores']} cores ({environment['processor']}), CPython {environment['python']}"
    lines = ["| claim | measured | target | verdict |", "|---|---:|---:|---|"]
    for one in claims:
        measured, target = f"{one.measured:.{one.digits}f}{one.unit}", f"{one.relation} {one.target:g}{one.unit}"
        lines.append(f"| {one.text} | {measured} | {target} | {one.verdict} |")
    return f"# The recording against programs that know the truth\n\n`python -m bench.truth` on {where}.\n\n" + (
        "\n".join(lines) + "\n"
    )


def _runtime(runtime: str, jobs: int, tries: int) -> tuple[list[Outcome], machine.Machine]:
    """Every program of one runtime; again while the machine is disturbed, at most `tries` times."""
    for _ in range(tries):
        outcomes, watch = [], machine.Watch()
        for what in RUNTIMES[runtime][2]:
            with tempfile.TemporaryDirectory(prefix="gltruth-") as folder:
                outcomes.append(play(runtime, what, jobs, Path(folder)))
            print(_line(outcomes[-1]), flush=True)
        seen = watch.seen()
        print(f"  {runtime}: {seen.line()}", flush=True)
        if seen.quiet:
            break
    return outcomes, seen


def _line(one: Outcome) -> str:
    row = _row(one)
    columns = "".join(
        f"{row[f'{part}_right_frac']:>13.3f}  {row[f'{part}_off_ms_p50']:>6.3f} / {row[f'{part}_off_ms_p99']:<6.3f}"
        for part in PARTS
    )
    return f"{one.runtime + ' ' + one.what:<18}{len(one.compared):>5}{columns}  {one.blame_frac:.3f}"


def _row(one: Outcome) -> dict[str, object]:
    row: dict[str, object] = {"runtime": one.runtime, "program": one.what, "jobs": len(one.compared)}
    for part in PARTS:
        off_ms = sorted(abs(each.off_ns[part]) / _MS for each in one.compared)
        row[f"{part}_right_frac"] = sum(each.right(part) for each in one.compared) / len(one.compared)
        row[f"{part}_off_ms_p50"], row[f"{part}_off_ms_p99"] = quantile(off_ms, 0.5), quantile(off_ms, 0.99)
    blame_ms = {
        who: [round(ns / _MS, 3), round(one.blame_ns.get(who, 0) / _MS, 3)] for who, ns in one.true_blame_ns.items()
    }
    return {
        **row,
        "blame_right_frac": one.blame_frac,
        "blame_true_and_recorded_ms": blame_ms,
        "residual_frac_p99": _residual_p99([each.job for each in one.compared]),
        "lost_events": one.lost,
    }


def _residual_p99(jobs: Sequence[Job]) -> float:
    return quantile(sorted(abs(job.residual_ns) / max(1, job.latency_ns) for job in jobs), 0.99)


def _claims(runtime: str, outcomes: Sequence[Outcome], note: str) -> list[Claim]:
    victims = [each for one in outcomes for each in one.compared]
    claims = []
    for part in PARTS:
        right = sum(each.right(part) for each in victims)
        claims.append(Claim(runtime, f"{runtime}: jobs whose {part} is within 3 % or 0.5 ms", right / len(victims),
                            *wilson(right, len(victims)), "≥", RIGHT_FRAC, note=note))  # fmt: skip
    waits_ns = [sum(one.true_blame_ns.values()) for one in outcomes]
    shares = [one.blame_frac for one in outcomes]
    blamed = sum(share * ns for share, ns in zip(shares, waits_ns, strict=True)) / sum(waits_ns)
    claims.append(Claim(runtime, f"{runtime}: wait blamed on who it was", blamed, min(shares), max(shares), "≥",
                        BLAME_FRAC, note=note))  # fmt: skip
    claims += _sums(runtime, [each.job for each in victims])
    return claims


def _troubles(jobs: int) -> list[Claim]:
    """Services with a trouble: does each wait have its right name and length?"""
    claims = []
    for what in TROUBLES:
        with tempfile.TemporaryDirectory(prefix="gltruth-") as folder:
            told = play_trouble(what, jobs, Path(folder))
        for each in told:
            print(f"  {each.line()}", flush=True)
            off = abs(each.off_frac)
            text = f"{what}: {each.what} recorded against true, of the latency"
            claims.append(Claim(what, text, off, off, off, "≤", NAMED_FRAC))
    return claims


def _sums(what: str, jobs: Sequence[Job]) -> list[Claim]:
    wrong = sum(sum(parts(job).values()) + job.residual_ns != job.latency_ns for job in jobs)
    residual = _residual_p99(jobs)
    return [
        Claim(what, f"{what}: jobs of {len(jobs)} whose parts are not their latency", wrong, wrong, wrong, "≤", 0, 0),
        Claim(what, f"{what}: share of residual at p99", residual, residual, residual, "≤", RESIDUAL_FRAC, 5),
    ]


def _many(each: int) -> tuple[list[Claim], dict[str, object]]:
    """Many real jobs: sums, residual, and that none and nothing is missing."""
    what, watch = f"{THREADS * each} jobs", machine.Watch()
    with tempfile.TemporaryDirectory(prefix="gltruth-") as folder:
        told = run(Path(folder), "many", str(THREADS), str(each))
        jobs = open_recording(folder).jobs
    missing = THREADS * each - min(len(jobs), told["jobs"])
    claims = _sums(what, jobs)
    claims.append(Claim(what, f"{what}: not in the recording", missing, missing, missing, "≤", 0, 0))
    claims.append(Claim(what, f"{what}: events lost", told["lost"], told["lost"], told["lost"], "≤", 0, 0))
    print(f"  {what}: {told['events']} events in {told['took_s']:.1f} s; {watch.seen().line()}")
    return claims, {"runtime": "threads", "program": "many", "recorded": len(jobs), **told,
                    "residual_frac_p99": _residual_p99(jobs)}  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
