"""Who waits when there is no GIL: the demo's pricing mix on a free-threaded CPython, beside the same with a GIL.

    python -m bench.nogil --python .venv-3.14t-guest/bin/python [--loads 0.9,1.4,1.8] [--seconds 14] [--json]

`make guest VENV=.venv-3.14t PYTHON=/path/to/python3.14t` makes such an environment. Question: what do light requests
wait for once the GIL is gone, and what do CPU permits mean there? Contenders, in turns, one process each: gunicorn's
gthread with 64 threads and Greenlane's worker on this interpreter, and on the other gthread, Greenlane with its default
of one permit fewer than cores, with as many as cores, and in mode `observe`. Loads are of one core of this interpreter.

Expected: without a GIL light requests are late only where more threads compute than there are cores, and a core kept
free of heavy phases serves them (docs/design/0027). What it does not show: more cores than this machine has, of which
the load generator takes part of one. Exit codes: 0 ran, 1 a server did not start, 2 options, 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from greenlane.cli.output import Output, environment
from greenlane.errors import GreenlaneError
from greenlane.policy.permits import usable_cores
from greenlane_tools.lab.interruption import ended_by_signals
from greenlane_tools.lab.processes import StartFailed
from greenlane_tools.lab.run.runner import run_scenario, stored
from greenlane_tools.lab.run.talk import LiveTalk
from greenlane_tools.lab.samples import Samples
from greenlane_tools.lab.scenario.catalogue import found
from greenlane_tools.lab.scenario.file import read
from greenlane_tools.lab.scenario.parts import Contender
from greenlane_tools.lab.statistics import quantile

SCHEMA: Final = "greenlane.bench.nogil/1"
_THREADS: Final = ("--worker-class", "gthread", "--threads", "64")
_OURS: Final = ("--worker-class", "greenlane.hosts.gunicorn.Worker", "--threads", "64")
#: name -> (on the free-threaded interpreter, arguments, environment)
CONTENDERS: Final[dict[str, tuple[bool, Sequence[str], dict[str, str]]]] = {
    "gil-threads": (False, _THREADS, {}),
    "gil-greenlane": (False, _OURS, {}),
    "free-threads": (True, _THREADS, {}),
    "free-permits": (True, _OURS, {}),
    "free-permits-cores": (True, _OURS, {"GREENLANE_PERMITS": str(usable_cores())}),
    "free-observe": (True, _OURS, {"GREENLANE_MODE": "observe"}),
}
_COLUMNS: Final = ("load", "contender", "class", "p50", "p99", "in time", "samples")
Row = dict[str, Any]


def rows_of(python: str, loads: Sequence[float], seconds: float, repetitions: int, out: Path) -> list[Row]:
    """Serves all of them at each load. Blocks; no process is left."""
    asked = read(found("pricing"))
    (command,) = [one.command for one in asked.services if one.name == "pricing"]
    contenders = tuple(
        Contender(
            name=name, arguments=tuple(arguments), env=env,
            command=tuple(python if part == "{python}" and free else part for part in command),
        )
        for name, (free, arguments, env) in CONTENDERS.items()
    )  # fmt: skip
    whole = replace(
        asked, contenders=contenders, utilisations_frac=tuple(loads), seconds=seconds, repetitions=repetitions,
        calibrated_on="gil-threads", bounds=(),
    )  # fmt: skip
    result = run_scenario(whole, list(CONTENDERS), stored(whole, out), LiveTalk(sys.stderr, sys.stderr), fresh=True)
    rows = []
    for load in loads:
        for name in CONTENDERS:
            runs = [
                run for run in result.runs
                if run.turn.contender == name and run.turn.level.utilisation_frac == load
            ]  # fmt: skip
            samples = Samples.joined([run.samples for run in runs])
            rows += [row for one in whole.classes if (row := _row(load, name, samples, one.name, one.deadline_ms))]
    return rows


def _row(load: float, contender: str, samples: Samples, name: str, deadline_ms: float) -> Row | None:
    of = samples.of(name)
    latencies_ms = np.sort(of.answered())
    if len(latencies_ms) < 50:
        return None
    return {
        "utilisation_frac": load, "contender": contender, "endpoint": name, "samples": len(latencies_ms),
        "p50_ms": quantile(latencies_ms, 0.5), "p99_ms": quantile(latencies_ms, 0.99),
        "within_deadline_frac": float((latencies_ms <= deadline_ms).sum()) / len(of.status) if deadline_ms else None,
    }  # fmt: skip


def main(argv: Sequence[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.nogil", description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    add = parser.add_argument
    add("--python", required=True, help="a free-threaded interpreter with greenlane, gunicorn, flask and numpy")
    add("--loads", default="0.9,1.4,1.8", help="of one core")
    add("--seconds", type=float, default=14.0)
    add("--repetitions", type=int, default=2)
    add("--out", type=Path, default=Path("out/nogil"))
    add("--json", action="store_true")
    given = parser.parse_args(argv)
    asks = "import sys, greenlane; print(sys.version.split()[0], sys._is_gil_enabled())"
    try:
        told = subprocess.run([given.python, "-c", asks], capture_output=True, text=True, check=True).stdout.split()
        if told[1] != "False":
            parser.error(f"--python={given.python}: expected an interpreter that runs without a GIL; it has one")
        with ended_by_signals():
            rows = rows_of(
                str(Path(given.python).absolute()), [float(part) for part in given.loads.split(",")],
                given.seconds, given.repetitions, given.out,
            )  # fmt: skip
    except (OSError, subprocess.CalledProcessError) as error:
        parser.error(f"--python={given.python}: expected an interpreter with greenlane ({error}); see --help")
    except (GreenlaneError, StartFailed) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    document = {"schema": SCHEMA, "environment": environment() | {"free_threaded_python": told[0]}, "rows": rows}
    if given.json:
        print(json.dumps(document, indent=1))
        return 0
    Output.standard().table([
        dict(zip(_COLUMNS, (
            f"{row['utilisation_frac']:g}", row["contender"], row["endpoint"], f"{row['p50_ms']:.0f} ms",
            f"{row['p99_ms']:.0f} ms",
            "" if row["within_deadline_frac"] is None else f"{row['within_deadline_frac']:.1%}", row["samples"],
        ), strict=True))
        for row in rows
    ], _COLUMNS)  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
