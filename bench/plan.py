"""What is claimed of the plan: how fast it simulates, that its bands are right, and what its advice is worth.

Questions: how many requests a second are simulated; of the p99 of services that no constant was fitted on, how many are
in the band that was said before; does the advice from a service's numbers turn its failures into successes? Expected: a
million requests a second of M/M/1 on one core, and a plan's 200 cells of a million in four minutes on all; 9 of 10 in
their bands; permits or a lane recommended for pricing's model, and its share in time in its band.

Short: `python -m bench.plan_calibration` has longer runs and asks real services.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bench import plan_calibration, simulate
from bench.claims import Claim, of_verdicts
from greenlane_tools.lab.run.store import digest
from greenlane_tools.lab.run.talk import Talk
from greenlane_tools.plan.advice import advised
from greenlane_tools.plan.goal import goals
from greenlane_tools.plan.sources import opened
from greenlane_tools.plan.verify.proof import proven

_SECONDS, _QUICK_S = 60.0, 3.0
_RECORD_S, _QUICK_RECORD_S = 120.0, 5.0
_AROUND_S: Final = 12.0
_ADVICE_S, _SPEED_S = 60.0, 80.0
#: Cells, and requests of each, where only the way there is tried.
_SPEED_QUICK: Final = 20, 100_000
_LOADS: Final = (0.8, 1.2)
_SEEDS: Final = (101, 102)
_GOAL: Final = "bikes p99 <= 400ms"
_HERE: Final = Path(__file__).parent
_MODEL: Final = _HERE.parent / "packages/greenlane-tools/tests/oncall/models/pricing.toml"


def expected_s(quick: bool) -> float:
    """How long the runs take on an idle machine."""
    seconds, record_s = (_QUICK_S, _QUICK_RECORD_S) if quick else (_SECONDS, _RECORD_S)
    runs = len(_SEEDS) * (record_s + len(_LOADS) * len(plan_calibration.HOSTS) * (seconds + _AROUND_S))
    return runs + 2 * (seconds + _AROUND_S) + (14 if quick else _ADVICE_S + _SPEED_S)


def installed() -> None:
    """Nothing else is needed."""


def sources() -> str:
    """Of all that its result depends on beside the package, sixteen digits."""
    return digest(
        *((_HERE / name).read_bytes() for name in ("plan_calibration.py", "simulate.py")), _MODEL.read_bytes()
    )


def measure(quick: bool, talk: Talk) -> list[dict[str, Any]]:
    """Runs everything; gives verdicts as they can be stored."""
    with tempfile.TemporaryDirectory(prefix="gl-prove-") as folder:
        asked = plan_calibration.Asked(
            _LOADS, plan_calibration.HOSTS, _QUICK_S if quick else _SECONDS,
            _QUICK_RECORD_S if quick else _RECORD_S, Path(folder), talk,
        )  # fmt: skip
        rows = plan_calibration.run(asked, _SEEDS, ())
        return [*_speed(quick), *_calibrated(rows), *_advised(Path(folder), talk, quick)]


def claims(verdicts: Sequence[Mapping[str, Any]]) -> list[Claim]:
    """What is claimed of them."""
    return of_verdicts("plan", verdicts, digits=4)


def _calibrated(rows: Sequence[plan_calibration.Row]) -> list[dict[str, Any]]:
    if not rows:
        return []
    inside, widest, factor = plan_calibration.verdict(rows)
    out = [f"{row['service']} {row['contender']} {row['endpoint']}" for row in rows if not row["inside"]]
    remark = f"of {len(rows)}; 9 of 10 take a factor of {factor:.2f}; out: {', '.join(out) or 'none'}"
    return [
        _verdict("p99 measured in the band that was said before, share", inside, ">=", plan_calibration.INSIDE, remark),
        _verdict("widest band below 0.8 of a process, times and by", widest, "<=", plan_calibration.WIDEST, ""),
    ]


def _advised(folder: Path, talk: Talk, quick: bool) -> list[dict[str, Any]]:
    profile = opened(str(_MODEL))
    talk.say(f"plan: {_GOAL}")
    advice = advised(profile, goals([_GOAL], profile), jobs=20_000 if quick else 1_000_000)
    chosen = advice.recommended
    kept = chosen is not None and (chosen.set_up.host == "permits" or bool(chosen.set_up.lanes))
    said = chosen.candidate.said if chosen else advice.verdict.value
    found = [_verdict("pricing: permits or a lane recommended (1 = yes)", float(kept), ">=", 1.0, said)]
    if chosen is None:
        return found
    proof = proven(advice, folder / "verify", talk, seconds=_QUICK_S if quick else _SECONDS, fresh=True)
    row = proof.rows[-1]
    remark = f"{row.band.low_within:.2%} to {row.band.high_within:.2%} predicted, {row.samples} measured"
    text = "pricing: share in time after the change, not below its band"
    return [*found, _verdict(text, row.measured_within or 0.0, ">=", row.band.low_within, remark)]


def _speed(quick: bool) -> list[dict[str, Any]]:
    cells, jobs = _SPEED_QUICK if quick else (simulate.CELLS, simulate.JOBS)
    per_s = simulate.jobs_per_s(jobs, 1 if quick else simulate.REPETITIONS)
    took_s, most_s = simulate.cells_took_s(cells, jobs), simulate.most_s(cells, jobs)
    of_each = f"{jobs:,} requests each"
    return [
        _verdict("simulator: M/M/1 on one core, million requests a second", per_s / 1e6, ">=",
                 simulate.LEAST_PER_S / 1e6, of_each),
        _verdict(f"simulator: a plan's {cells} cells on all cores, s", took_s, "<=", most_s, of_each),
    ]  # fmt: skip


def _verdict(text: str, measured: float, relation: str, target: float, remark: str) -> dict[str, Any]:
    return {"text": text, "measured": measured, "low": None, "high": None, "relation": relation, "target": target,
            "unit": "", "remark": remark}  # fmt: skip
