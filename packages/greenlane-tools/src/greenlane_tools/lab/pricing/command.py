"""`greenlane demo pricing`: five ways to serve one service, measured side by side in under four minutes.

    main(argv, out, err) -> exit code      0 well, 1 the run failed, 2 a wrong option, 130 Ctrl-C

Data goes to `out`, talk to `err`. In `--out` it leaves samples/ (every request), rows.json (every cell) and
pricing.html (one page, offline). The lab runs it; what is said and drawn of it is the demo's own.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Final, TextIO

from greenlane.errors import PlatformError
from greenlane_tools.lab.ending import exit_code
from greenlane_tools.lab.pricing import page
from greenlane_tools.lab.pricing.alone import alone_ms
from greenlane_tools.lab.pricing.conclusion import conclusion
from greenlane_tools.lab.pricing.mixes import light_frac, pricing
from greenlane_tools.lab.pricing.options import Options, parse
from greenlane_tools.lab.run import tables
from greenlane_tools.lab.run.remarks import disturbed
from greenlane_tools.lab.run.runner import Result, run_scenario, stored
from greenlane_tools.lab.run.talk import LiveTalk
from greenlane_tools.lab.scenario.adapted import adapted
from greenlane_tools.lab.scenario.scenario import Scenario

__all__ = ["LATE_S", "SCHEMA", "chosen", "main"]

SCHEMA: Final = "greenlane.demo/1"
#: A run that would start later than this past the expected end is left out, so that the whole ends when it said.
LATE_S: Final = 15.0
_PACKAGES: Final = ("flask", "gunicorn", "gevent", "numpy", "pyarrow")
# Fields of a row that the demo's document has not: it has one phase and one rate.
_LABS_OWN: Final = ("phase", "rate_factor")


def main(argv: Sequence[str], out: TextIO, err: TextIO) -> int:
    """Runs the demo. Blocks until all is done or Ctrl-C; no process of it is left afterwards."""

    def demo() -> int:
        options = parse(argv)
        if isinstance(options, str):
            out.write(options)
            return 0
        return _Demo(options, out, err).run()

    return exit_code("run the pricing demo", demo, err, "stopped; every server was ended")


def chosen(options: Options) -> Scenario:
    """The scenario that the options ask for."""
    return adapted(
        pricing(options.mix), seconds=options.seconds, repetitions=options.repetitions, seed=options.seed,
        utilisations_frac=options.utilisations_frac,
    )  # fmt: skip


class _Demo:
    def __init__(self, options: Options, out: TextIO, err: TextIO) -> None:
        self._options = options
        self._out = out
        # With --json the tables are talk: they still say how it goes.
        self._talk = LiveTalk(err if options.json else out, err)
        self._scenario = chosen(options)
        shown = tables.subjects(self._scenario)
        self._light, self._heavy = shown[0], shown[1] if len(shown) > 1 else None

    def run(self) -> int:
        if missing := [name for name in _PACKAGES if importlib.util.find_spec(name) is None]:
            raise PlatformError("run the pricing demo", name="packages", value=missing, rule="all of them installed",
                                hint='pip install "greenlane[demo]"')  # fmt: skip
        store = stored(self._scenario, self._options.out)
        names = self._options.contenders
        result = run_scenario(self._scenario, names, store, self._talk, fresh=True, late_s=LATE_S)
        self._report(result)
        took_part = {run.turn.contender for run in result.runs if not run.dead}
        return 0 if took_part == set(names) else 1

    def _report(self, result: Result) -> None:
        options = self._options
        said = conclusion(result.rows, self._light, self._heavy, options.repetitions)
        if result.left_out:
            said += f" {result.left_out} runs were left out to end in time: the machine was slower than expected."
        document = {
            "schema": SCHEMA,
            "environment": self._environment(result),
            "rows": [_row(asdict(row)) for row in result.rows],
            "conclusion": said,
        }
        (options.out / "rows.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        if disturbance := disturbed(result.runs):
            self._talk.say(f"\n{disturbance}\n")
        html = options.out / "pricing.html"
        html.write_text(page.page(result, said, self._environment(result), disturbance), encoding="utf-8")
        if options.json:
            self._out.write(json.dumps(document) + "\n")
        else:
            self._tables(result, said)
        self._talk.say(f"raw samples {options.out / 'samples'}, rows {options.out / 'rows.json'}, page {html}")

    def _tables(self, result: Result, said: str) -> None:
        shown = tables.subjects(self._scenario)
        self._talk.show("\n" + tables.result_table(self._scenario, result.rows, shown))
        if others := tables.others_table(result.rows, shown):
            self._talk.show("\n" + others)
        self._talk.show(f"\n{said}")

    def _environment(self, result: Result) -> dict[str, object]:
        """The fields that the demo's document has had from the start; the lab's own names differ in places."""
        options, found = self._options, dict(result.environment)
        for name in ("scenario", "work", "run_seconds", "samples_folder"):
            del found[name]
        return {
            **found,
            "mix": options.mix,
            "cpu_share_frac": {one.name: one.cpu_share_frac for one in self._scenario.classes},
            "light_frac": light_frac(self._scenario),
            "costs_ms": _costs(self._scenario, result),
            "cell_seconds": options.seconds,
            "workers": 1,
            "cpu_ms_per_job_of": "gunicorn masters and workers, user + system",
            "samples_file": str(options.out / "samples"),
        }


def _costs(scenario: Scenario, result: Result) -> Mapping[str, Mapping[str, float]]:
    """Each job's CPU in two parts: its own work, and what stock gthread was measured to spend around it."""
    found = {}
    for name, ms in alone_ms(scenario, result.iterations_per_ms).items():
        cpu_ms = result.costs_ms[name]
        found[name] = {"work_ms": min(ms, cpu_ms), "overhead_ms": max(0.0, cpu_ms - ms), "cpu_ms": cpu_ms}
    return found


def _row(fields: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in fields.items() if name not in _LABS_OWN}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], sys.stdout, sys.stderr))
