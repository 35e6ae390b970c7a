"""Slots for 6,000 orders an hour, and the bulkhead, from a recording of pos.

    python -m bench.pos_slots [--seconds 130] [--out FOLDER] [--json]

Question: what does the plan make of a recording of stock Celery in the article's case: orders to ten merchants, each
3.2 s (an order that held a slot for 32 s, time divided by ten), 6,000 an hour of the article's time? Expected: within
10 % of 53.3 are busy on average (Little's law), and the slots that this rate needs (`slots`) within 10 % of what is
busy; and, since a merchant that hangs takes every one of them, a bulkhead for each merchant. So that the others keep
theirs, bulkheads come with more slots than the rate needs: `recommended_slots`, of which nothing is claimed.

Stock gevent-200 is recorded at that rate; the plan is asked as if it were four processes of one slot, what the article
began with. Wants RabbitMQ. Two and a half minutes; no latency is judged.
Exit codes: 0 both hold, 1 one does not, 2 options, 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from bench.predicted.pos import RECORDED, installed, site_with
from bench.predicted.rows import cleared
from greenlane.cli.output import environment
from greenlane.errors import GreenlaneError
from greenlane_tools.lab.arguments import Values
from greenlane_tools.lab.interruption import ended_by_signals
from greenlane_tools.lab.processes import StartFailed
from greenlane_tools.lab.run.talk import LiveTalk, Talk
from greenlane_tools.plan.advice import advised
from greenlane_tools.plan.goal import goals
from greenlane_tools.plan.profile import Profile
from greenlane_tools.plan.set_up import present
from greenlane_tools.plan.slots import slots
from greenlane_tools.plan.sources import keyed, opened

SECONDS: Final = 130.0
RECORDING: Final = "pos-slots.glr"
WITHIN: Final = 0.10
#: Beyond what an order takes by itself: it may wait for a slot as long again twice.
_GOAL: Final = "p99 <= 10s"
_PROCESSES, _SLOTS = 4, 1
#: Warm orders, one for each merchant, come first.
_SKIP_S: Final = 5.0
_JOBS: Final = 200_000
_VALUES: Final = Values("count slots from a recording of pos", "python -m bench.pos_slots --help")

Row = dict[str, Any]


def recorded(folder: Path, seconds: float, talk: Talk) -> Path:
    """The recording of stock gevent-200 in the article's case. Blocks; no process is left."""
    installed()
    from pos.demo import article
    from pos.demo.stages import slow
    from pos.site import Plan

    file = cleared(folder / RECORDING)
    per_s = article.offered_per_s("gevent-200")
    law = {"median_ms": article.CALL_MS, "p99_ms": article.CALL_MS}
    with site_with(Plan(law=law, work_ms=article.WORK_MS), file) as site:
        talk.say(f"pos: recording gevent-200 at {per_s:.1f} orders a second for {seconds:g} s")
        slow(site, RECORDED, "slots", per_s, seconds, talk, 2 * article.CALL_MS / 1e3)
    talk.progress("")
    return file


def planned(file: Path) -> Row:
    """What the plan says."""
    from pos.demo import article

    profile = keyed(opened(str(file), skip_s=_SKIP_S))
    stay_ms = _mean_ms(profile)
    needed = slots(profile.arrivals.rate_per_s, stay_ms)
    base = replace(present(profile), processes=_PROCESSES, limit=_SLOTS)
    found = advised(profile, goals([_GOAL], profile), base=base, jobs=_JOBS)
    chosen = found.recommended
    return {
        "orders_per_h": article.per_h(profile.arrivals.rate_per_s),
        "upstreams": len(profile.upstreams),
        "little_busy": article.busy_slots(article.AFTER_PER_H),
        "recorded_busy": needed.busy,
        "slots": needed.needed,
        "recommended_slots": chosen.set_up.limit * chosen.set_up.processes if chosen else None,
        "slots_off_frac": needed.needed / needed.busy - 1,
        "busy_off_frac": needed.busy / article.busy_slots(article.AFTER_PER_H) - 1,
        "recommended": chosen.candidate.said if chosen else found.verdict.value,
        "bulkhead": bool(chosen and chosen.set_up.upstream_limits),
        "verdict": found.verdict.value,
        "notes": list(found.notes),
    }


def holds(row: Row) -> bool:
    """Slots near what is busy, that near what the article's rate demands, and the bulkhead."""
    near = max(abs(row["slots_off_frac"]), abs(row["busy_off_frac"])) <= WITHIN
    return near and bool(row["bulkhead"])


def main(argv: Sequence[str]) -> int:
    """Record, plan, print."""
    parser = argparse.ArgumentParser(prog="python -m bench.pos_slots", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--seconds", default=f"{SECONDS:g}", help=f"of orders ({SECONDS:g})")
    parser.add_argument("--out", type=Path, default=Path("out/predictions"), help="the recording (out/predictions)")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    given = parser.parse_args(argv)
    try:
        seconds = _VALUES.number("--seconds", given.seconds, 20, 3_600)
        given.out.mkdir(parents=True, exist_ok=True)
        with ended_by_signals():
            row = planned(recorded(given.out, seconds, LiveTalk(sys.stderr, sys.stderr)))
    except (GreenlaneError, StartFailed) as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("\nstopped; every process was ended", file=sys.stderr)
        return 130
    if given.json:
        document = {"schema": "greenlane.bench.pos-slots/1", "environment": environment(), "rows": [row]}
        print(json.dumps(document, indent=1))
    else:
        print("\n".join(f"{name:16} {value}" for name, value in row.items()))
        print("holds" if holds(row) else "FAILS")
    return 0 if holds(row) else 1


def _mean_ms(profile: Profile) -> float:
    rate = sum(route.rate_per_s for route in profile.routes)
    whole = (route.rate_per_s * (sum(_parts(route.demand)) + profile.overhead_ms) for route in profile.routes)
    return sum(whole) / rate


def _parts(mean: Any) -> tuple[float, ...]:
    return mean.cpu_ms, mean.free_ms, mean.io_ms, mean.held_ms


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
