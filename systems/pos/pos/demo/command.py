"""`greenlane demo pos`: workers on the same orders, measured side by side.

    main(argv, out, err) -> exit code      0 well, 1 the run failed, 2 a wrong option, 130 Ctrl-C

Data goes to `out`, talk to `err`. In `--out` it leaves run.json (every order) and rows.json.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final, TextIO

from greenlane_tools.lab.ending import exit_code
from greenlane_tools.lab.environment import about
from greenlane_tools.lab.run.talk import LiveTalk, give
from greenlane_tools.lab.written import prepared, written

from .options import ATTEMPTED, Options, parse
from .rows import rows_of
from .run import Result, run
from .verdicts import shown, verdicts_of

SCHEMA: Final = "greenlane.demo-pos/1"
_PACKAGES: Final = ("greenlane", "celery", "kombu", "amqp", "billiard", "gevent", "requests", "grpcio", "aiohttp")
#: A publish that began later than this was late by the publisher, not by the worker.
_LAG_MS: Final = 50.0


def main(argv: Sequence[str], out: TextIO, err: TextIO) -> int:
    """Runs the demo. Blocks until all is done or Ctrl-C; no process of it is left afterwards."""

    def demo() -> int:
        options = parse(argv)
        if isinstance(options, str):
            out.write(options)
            return 0
        return _measured(options, out, err)

    return exit_code(ATTEMPTED, demo, err, "stopped; every process was ended")


def _measured(options: Options, out: TextIO, err: TextIO) -> int:
    prepared(options.out, "run.json", "{}", ATTEMPTED)
    talk = LiveTalk(err, err)
    return _report(options, run(options, talk), talk, out)


def _report(options: Options, result: Result, talk: LiveTalk, out: TextIO) -> int:
    rows = rows_of(result)
    verdicts = verdicts_of(result)
    document = {
        "schema": SCHEMA,
        "environment": {
            **about(_PACKAGES),
            "options": {**asdict(options), "out": str(options.out)},
            "cpu_ms_per_job_of": "the worker with all its processes, not broker and merchants",
            "latency_from": "the instant at which an order was due to be published",
        },
        "rows": rows,
        "verdicts": [verdict.row() for verdict in verdicts],
    }
    path = options.out / "rows.json"
    written(path, json.dumps(document, indent=1))
    text = shown(rows, verdicts)
    give(document if options.json else None, text, talk, out)
    for row in rows:
        if row.get("publish_lag_ms", 0) > _LAG_MS and row["merchant_class"] == "healthy":
            talk.say(f"{row['contender']}: orders were published up to {row['publish_lag_ms']:.0f} ms late: "
                     "the machine is busy with something else")  # fmt: skip
        if row.get("queue_emptied"):
            talk.say(f"{row['contender']}: the queue ran empty: it does more than {row['done_per_s']:.0f} a second")
    if verdicts and options.repetitions == 1:
        talk.say("one run each: with --repetitions 3 verdicts have intervals")
    talk.say(f"rows {path}, every order {options.out / 'run.json'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], sys.stdout, sys.stderr))
