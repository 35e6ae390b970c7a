"""What is claimed of the plan: the simulator against theory, its predictions against the lab and pos, and its advice.

Questions: does the simulator give what is known without it, and how fast; from one recording of the stock gevent
contender, are other contenders and loads predicted; does the advice from that recording alone turn the service's
failures into successes, and how many, as predicted? Expected: every figure of the selftest within its tolerance; a
million requests a second of M/M/1 on one core, and a plan's 200 cells of a million in four minutes on all; p50 within
7 % and p99 within 20 %, or missed for a reason that was found; permits or a lane recommended, and the share in time
within 0.3 points.

Short: 20 s for each contender and load where `python -m bench.predictions` has 40. It wants RabbitMQ (systems/pos).
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bench import pos_slots, predictions, simulate
from bench.claims import Claim, of_verdicts
from bench.predicted import pos
from bench.predicted.pricing import RECORDING
from bench.predicted.rows import FIGURES, Asked, Row, judged
from greenlane_tools.lab.pricing import pricing
from greenlane_tools.lab.run.store import digest
from greenlane_tools.lab.run.talk import LiveTalk, Talk
from greenlane_tools.plan import selftest
from greenlane_tools.plan.advice import Advice, advised
from greenlane_tools.plan.goal import goals
from greenlane_tools.plan.sources import opened
from greenlane_tools.plan.verify.compared import WITHIN_FRAC
from greenlane_tools.plan.verify.proof import Proof, proven

_SECONDS: Final = 20.0
_VERIFIED_S: Final = 60.0
_QUICK_S: Final = 3.0
_SELFTEST_S, _ADVICE_S, _SPEED_S = 70.0, 75.0, 80.0
#: Cells, and requests of each, where only the way there is tried.
_SPEED_QUICK: Final = 20, 100_000
_LOADS: Final = (0.5, 0.7, 0.85)
_SLOTS_QUICK_S: Final = 20.0
_GOAL: Final = "bikes p99 <= 500ms"
_HERE: Final = Path(__file__).parent


def expected_s(quick: bool) -> float:
    """How long the runs take on an idle machine."""
    asked = _asked(quick, Path(), LiveTalk(io.StringIO(), io.StringIO()))
    runs = sum(expected(asked) for expected, _ in predictions.SYSTEMS.values())
    slots_s = 30 + (_SLOTS_QUICK_S if quick else pos_slots.SECONDS)
    return runs + 2 * _verified_s(quick) + 15 + slots_s + (14 if quick else _SELFTEST_S + _ADVICE_S + _SPEED_S)


def installed() -> None:
    """Raises PlatformError when the machine has no RabbitMQ."""
    pos.installed()


def sources() -> str:
    """Of all that its result depends on beside the package, sixteen digits."""
    parts = ("predict*.py", "pos_slots.py", "simulate.py", "predicted/*.py")
    return digest(*(path.read_bytes() for path in sorted(path for part in parts for path in _HERE.glob(part))))


def measure(quick: bool, talk: Talk) -> list[dict[str, Any]]:
    """Runs everything; gives verdicts as they can be stored."""
    found = selftest.run(part=0.01 if quick else 1.0)
    held = [row.holds for row in found]
    verdicts = [_verdict("selftest: figures within their tolerance, share", sum(held) / len(held), ">=", 1.0,
                         f"{sum(held)} of {len(held)}")]  # fmt: skip
    verdicts += _speed(quick)
    with tempfile.TemporaryDirectory(prefix="gl-prove-") as folder:
        asked = _asked(quick, Path(folder), talk)
        verdicts += _predicted(predictions.run(asked, tuple(predictions.SYSTEMS)))
        verdicts += _advised(asked, quick)
        verdicts += _slots(Path(folder), talk, quick)
    return verdicts


def claims(verdicts: Sequence[Mapping[str, Any]]) -> list[Claim]:
    """What is claimed of them."""
    return of_verdicts("plan", verdicts, digits=4)


def _asked(quick: bool, folder: Path, talk: Talk) -> Asked:
    return Asked(
        loads=_LOADS, contenders=("gevent", "gthread-64", "greenlane"), seconds=_QUICK_S if quick else _SECONDS,
        repetitions=1 if quick else 2, record_at=_LOADS[-1], folder=folder, talk=talk,
        least_record_s=0.0 if quick else 60.0,
    )  # fmt: skip


def _verified_s(quick: bool) -> float:
    return _QUICK_S if quick else _VERIFIED_S


def _predicted(rows: Sequence[Row]) -> list[dict[str, Any]]:
    found = []
    for name, _, most, _ in FIGURES:
        shown, well, unexplained = judged(rows, name)
        where = [
            f"{row['system']} {row['contender']} {row['endpoint']}: {', '.join(miss['reasons'])}"
            for row in rows
            for miss in row["misses"]
            if miss["figure"] == name
        ]
        text = f"{name} off by more than {most:.0%} for no reason that was found, of {shown}"
        remark = f"{well} of {shown} within; missed: {' | '.join(where) or 'none'}"
        found.append(_verdict(text, float(unexplained), "<=", 0.0, remark))
    return found


def _advised(asked: Asked, quick: bool) -> list[dict[str, Any]]:
    """From the recording alone, as `greenlane plan pricing.glr --goal … --verify pricing` does it."""
    profile = opened(str(asked.folder / RECORDING), skip_s=pricing().warm_s)
    asked.talk.say(f"plan: {_GOAL}")
    advice = advised(profile, goals([_GOAL], profile), jobs=20_000 if quick else 1_000_000)
    chosen = advice.recommended
    set_up = chosen.set_up if chosen else None
    kept = set_up is not None and (set_up.host == "permits" or bool(set_up.lanes))
    said = chosen.candidate.said if chosen else advice.verdict.value
    verdicts = [_verdict("pricing: permits or a lane recommended (1 = yes)", float(kept), ">=", 1.0, said)]
    if chosen is None:
        return verdicts
    proof = proven(advice, asked.folder / "verify", asked.talk, scenario="pricing", seconds=_verified_s(quick),
                   fresh=True)  # fmt: skip
    return verdicts + _success(advice, proof)


def _success(advice: Advice, proof: Proof) -> list[dict[str, Any]]:
    """The advice's own number, of the long run, against what the recommended set-up did in the lab."""
    assert advice.recommended is not None, "asked only then"
    goal = advice.goals[0]
    name = "recommended" if any(row.contender == "recommended" for row in proof.rows) else "present"
    row = next(one for one in proof.rows if (one.contender, one.route) == (name, goal.route))
    predicted = next(one for one in advice.recommended.at.goals if one.goal == goal).within.at
    measured = row.measured_within or 0.0
    remark = f"{predicted:.2%} predicted, {measured:.2%} of {row.samples} measured"
    off = abs(predicted - measured)
    return [
        _verdict("pricing: share in time after the change, predicted less measured", off, "<=", WITHIN_FRAC, remark)
    ]


def _speed(quick: bool) -> list[dict[str, Any]]:
    cells, jobs = _SPEED_QUICK if quick else (simulate.CELLS, simulate.JOBS)
    (plainest,) = simulate.single_core([simulate.PLAINEST], jobs, 1 if quick else simulate.REPETITIONS)
    took_s, most_s = simulate.cells_took_s(cells, jobs), simulate.most_s(cells, jobs)
    of_each = f"{jobs:,} requests each"
    return [
        _verdict("simulator: M/M/1 on one core, million requests a second", plainest["jobs_per_s"] / 1e6, ">=",
                 simulate.LEAST_PER_S / 1e6, of_each),
        _verdict(f"simulator: a plan's {cells} cells on all cores, s", took_s, "<=", most_s, of_each),
    ]  # fmt: skip


def _slots(folder: Path, talk: Talk, quick: bool) -> list[dict[str, Any]]:
    row = pos_slots.planned(pos_slots.recorded(folder, _SLOTS_QUICK_S if quick else pos_slots.SECONDS, talk))
    said = (
        f"{row['slots']:g} slots that the rate needs, {row['recorded_busy']:.1f} busy by Little's law; "
        f"{row['recommended_slots']} recommended, with those that bulkheads add"
    )
    return [
        _verdict("pos: slots for 6,000 orders an hour, off Little's law", abs(row["slots_off_frac"]), "<=",
                 pos_slots.WITHIN, said),
        _verdict("pos: a bulkhead recommended (1 = yes)", float(row["bulkhead"]), ">=", 1.0, row["recommended"]),
    ]  # fmt: skip


def _verdict(text: str, measured: float, relation: str, target: float, remark: str) -> dict[str, Any]:
    return {"text": text, "measured": measured, "low": None, "high": None, "relation": relation, "target": target,
            "unit": "", "remark": remark}  # fmt: skip
