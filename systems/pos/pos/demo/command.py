"""`greenlane demo pos`: workers on the same orders, measured side by side.

    main(argv, out, err) -> exit code      0 well, 1 the run failed, 2 a wrong option, 130 Ctrl-C

Data goes to `out`, talk to `err`. In `--out` it leaves run.json (every order) and rows.json.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Final, TextIO

from greenlane_tools.lab import demo
from greenlane_tools.lab.run.talk import LiveTalk
from greenlane_tools.lab.written import prepared
from pos.demo.results import rows_of, shown, verdicts_of

from .options import ATTEMPTED, Options, parse
from .run import run

SCHEMA: Final = "greenlane.demo-pos/1"
_PACKAGES: Final = ("greenlane", "celery", "kombu", "amqp", "billiard", "gevent", "requests", "grpcio", "aiohttp")
#: A publish that began later than this was late by the publisher, not by the worker.
_LAG_MS: Final = 50.0


def main(argv: Sequence[str], out: TextIO, err: TextIO) -> int:
    """Runs the demo. Blocks until all is done or Ctrl-C; no process of it is left afterwards."""
    return demo.run(argv, out, err, ATTEMPTED, parse, _measured)


def _measured(options: Options, out: TextIO, err: TextIO) -> int:
    prepared(options.out, "run.json", "{}", ATTEMPTED)
    talk = LiveTalk(err, err)
    result = run(options, talk)
    rows, verdicts = rows_of(result), verdicts_of(result)
    document = {
        "schema": SCHEMA,
        "environment": demo.environment(
            _PACKAGES, options,
            cpu_ms_per_job_of="the worker with all its processes, not broker and merchants",
            latency_from="the instant at which an order was due to be published",
        ),
        "rows": rows,
    }  # fmt: skip
    demo.left(options, document, verdicts, shown(rows, verdicts), "every order", talk, out, _remarks(rows))
    return 0


def _remarks(rows: Sequence[demo.Json]) -> Iterator[str]:
    for row in rows:
        if row.get("publish_lag_ms", 0) > _LAG_MS and row["merchant_class"] == "healthy":
            yield (f"{row['contender']}: orders were published up to {row['publish_lag_ms']:.0f} ms late: "
                   "the machine is busy with something else")  # fmt: skip
        if row.get("queue_emptied"):
            yield f"{row['contender']}: the queue ran empty: it does more than {row['done_per_s']:.0f} a second"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], sys.stdout, sys.stderr))
