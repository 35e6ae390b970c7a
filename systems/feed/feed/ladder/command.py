"""`greenlane demo feed`: the article's ladder and ours, measured side by side.

    main(argv, out, err) -> exit code      0 well, 1 the run failed, 2 a wrong option, 130 Ctrl-C

Data goes to `out`, talk to `err`. In `--out` it leaves run.json (every request's latency, every counter) and rows.json.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from typing import Any, Final, TextIO

from feed.ladder.rows import verdicts_of
from feed.ladder.run import Kept, sources_digest
from feed.ladder.tables import steps_of
from feed.native import PROFILE
from greenlane.errors import PlatformError
from greenlane_tools.lab import demo
from greenlane_tools.lab.run.talk import LiveTalk

from . import tables
from .options import ATTEMPTED, Options, parse
from .rows import rows_of
from .run import Result, run
from .shares import missing

SCHEMA: Final = "greenlane.demo-feed/1"
#: Told of a result.
_PACKAGES: Final = ("greenlane", "aiohttp", "redis", "hiredis", "catboost", "numpy", "orjson", "py-spy")
#: Options that do not change what is measured.
_OUTWARD: Final = ("json", "fresh", "out", "folder")
#: Rough seconds of a variant by itself and of a pair, beside their cells.
_ALONE_S, _PAIR_S = 40, 20


def main(argv: Sequence[str], out: TextIO, err: TextIO) -> int:
    """Runs the ladder. Blocks until all is done or Ctrl-C; no process of it is left afterwards."""
    stopped = "stopped, and all processes ended; the same command resumes"
    return demo.run(argv, out, err, ATTEMPTED, parse, _measured, stopped)


def _measured(options: Options, out: TextIO, err: TextIO) -> int:
    if shutil.which("redis-server") is None:
        raise PlatformError(ATTEMPTED, name="redis-server", value=None, rule="it on PATH",
                            hint="apt-get install redis-server")  # fmt: skip
    talk = LiveTalk(err, err)
    environment = _environment(options)
    kept = Kept(options.out, _identity(environment), fresh=options.fresh)
    if len(kept):
        talk.say(f"resuming with {len(kept)} parts of an interrupted run; --fresh starts over")
    if said := missing():
        talk.say(said)
    many = len(options.variants)
    minutes = many * (_ALONE_S + _PAIR_S + 9 * options.seconds) / 60
    talk.say(f"{many} variants, about {minutes:.0f} min on an idle machine")
    result = run(options, kept, talk)
    code = _report(options, result, environment, talk, out)
    kept.complete()
    return code


def _report(
    options: Options, result: Result, environment: demo.Json, talk: LiveTalk, out: TextIO
) -> int:  # fmt: skip
    rows, verdicts, steps = rows_of(result), verdicts_of(result), steps_of(result)
    document = {
        "schema": SCHEMA,
        "environment": environment,
        "rows": rows,
        "steps": [step.row() for step in steps],
        "outage": result.outage,
    }
    text = tables.shown(result, rows, verdicts, steps)
    demo.left(options, document, verdicts, text, "every request", talk, out, _remarks(result, rows))
    return 0 if all(row["samples"] > row["errors"] for row in rows if row["stage"] is None) else 1


def _remarks(result: Result, rows: Sequence[dict[str, Any]]) -> list[str]:
    runs = [run for pair in result.pairs.values() for cell in pair["cells"].values() for run in cell]
    said = list(dict.fromkeys(run["warning"] for run in runs if run["warning"]))
    others = max((row["others_cores"] for row in rows if row["stage"] is None), default=0.0)
    if others > 0.2:
        said.append(f"other programs used up to {others:.1f} cores meanwhile: end them and measure again")
    return said


def _environment(options: Options) -> demo.Json:
    return demo.environment(
        _PACKAGES, options, sources=sources_digest(), native_profile=PROFILE,
        cpu_ms_per_job_of="the service and its workers, not stores and models",
        path_cpu_ms_per_job_of="cpu_ms_per_job times the ranking path's share with one request at a time",
        loop_lag_of="wait of an event that arrives at a random moment, from the lengths of the loop's iterations",
    )  # fmt: skip


def _identity(environment: demo.Json) -> demo.Json:
    """What the meaning of a result depends on."""
    same = {name: value for name, value in environment.items() if name != "load_average_1min"}
    return {**same, "options": {name: one for name, one in same["options"].items() if name not in _OUTWARD}}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], sys.stdout, sys.stderr))
