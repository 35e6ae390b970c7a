"""`greenlane demo offers`: fixes of pricingservice under the same riders, measured side by side; or the page.

    main(argv, out, err) -> exit code      0 well, 1 the run failed, 2 a wrong option, 130 Ctrl-C

Data goes to `out`, talk to `err`. In `--out` it leaves run.json (every poll) and rows.json.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Final, TextIO

from greenlane_tools.lab import demo
from greenlane_tools.lab.environment import front
from greenlane_tools.lab.run.rows import rotate
from greenlane_tools.lab.run.talk import LiveTalk, Talk
from greenlane_tools.lab.written import prepared, written
from offers import traced
from offers.contenders import FIXES
from offers.demo import added
from offers.demo.options import ATTEMPTED, Options, bad, parse
from offers.demo.results import rows_of, sentence, shown, verdicts_of, warnings
from offers.demo.turn import WARM_S, Turn, summary, turn
from offers.site import Site
from offers.table import read

# --- What is measured, in which order: contenders take turns, so that none has the machine's better hour.


#: Of each run: start, offers by themselves, endpoints asked before, drain.
_BESIDE_S = WARM_S + 18.0
_SITE_S = 4.0


def run(options: Options, talk: Talk) -> list[Turn]:
    """Starts everything, measures, ends everything. Raw runs are written as soon as they are there."""
    talk.say(f"about {max(1, round(minutes(options)))} min")
    found: list[Turn] = []
    with Site(say=talk.progress) as site:
        for repetition in range(options.repetitions):
            for region in options.regions:
                for contender in rotate(options.contenders, repetition):
                    found.append(
                        turn(
                            site, contender, region, options.seconds, f"{options.seed}-{repetition}", talk,
                            cancel=options.cancel, propagate_deadline=options.propagate_deadline,
                        )
                    )  # fmt: skip
                    written(options.out / "run.json", json.dumps([summary(one) for one in found]))
                    talk.say(_said(found[-1]))
    return found


def minutes(options: Options) -> float:
    """How long it takes on an idle machine."""
    runs = len(options.contenders) * len(options.regions) * options.repetitions
    return (_SITE_S + runs * (options.seconds + _BESIDE_S)) / 60


def _said(found: Turn) -> str:
    counts = found.counts
    return f"{found.contender} in {found.region}: {counts.made:,} of {counts.ended:,} bike and scooter offers in time"


SCHEMA: Final = "greenlane.demo-offers/1"
#: Rows of riders' offers: where one has none but errors, the run has failed.
_OFFERED: Final = ("offers", added.ENDPOINT)
_PACKAGES: Final = ("greenlane", "gunicorn", "gevent", "flask", "urllib3", "aiohttp")


def main(argv: Sequence[str], out: TextIO, err: TextIO) -> int:
    """Runs the demo. Blocks until all is done or Ctrl-C; no process of it is left afterwards."""
    return demo.run(argv, out, err, ATTEMPTED, parse, _demo)


def _demo(options: Options, out: TextIO, err: TextIO) -> int:
    if FIXES["lane"] in options.contenders:
        front()
    talk = LiveTalk(err, err)
    if options.page:
        from .live.command import serve

        return serve(options, talk, out)
    prepared(options.out, "run.json", "[]", ATTEMPTED)
    return _measured(options, talk, out)


def _measured(options: Options, talk: LiveTalk, out: TextIO) -> int:
    turns: list[Turn] = []
    if options.utilisations_frac:
        waits = added.run(options, talk)
        rows, verdicts = added.rows_of(waits), added.verdicts_of(waits)
    else:
        turns = run(options, talk)
        rows, verdicts = rows_of(turns), verdicts_of(turns, bad(read().regions))
    remarks = [*dict.fromkeys(turn.warning for turn in turns if turn.warning), *warnings(rows)]
    if traced.enabled():
        remarks.append("spans are sent, which costs every service CPU: unset OTEL_EXPORTER_OTLP_ENDPOINT for figures")
    document = {
        "schema": SCHEMA,
        "environment": demo.environment(
            _PACKAGES, options, traced=traced.enabled(),
            cpu_ms_per_job_of="pricingservice with all its processes, not offerservice and upstreams",
            latency_from="offers: the instant at which offerservice sends its request; direct: the scheduled send; "
            "polls: the instant at which they are due",
            flicker="changes of offered modes between a rider's successive polls (every 2 s), per rider-minute",
            wasted_cpu="offers whose upstream calls were made and that no rider saw, at the CPU of an offer alone",
        ),
        "rows": rows,
    }  # fmt: skip
    text = "\n\n".join(part for part in (shown(rows, verdicts), sentence(rows)) if part)
    demo.left(options, document, verdicts, text, "every poll", talk, out, remarks)
    return 0 if all(row["samples"] > row["errors"] + row["lost"] for row in rows if row["endpoint"] in _OFFERED) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], sys.stdout, sys.stderr))
