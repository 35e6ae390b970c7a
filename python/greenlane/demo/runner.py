"""`greenlane demo pricing`: five ways to serve one service, measured side by side in under four minutes.

    main(argv, out, err) -> exit code      0 well, 1 the run failed, 2 a wrong option, 130 Ctrl-C

Data goes to `out`, talk to `err`. In `--out` it leaves samples.csv.gz (every request), rows.json (every cell) and
pricing.html (one page, offline).
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Final, TextIO

from greenlane.demo import arena, calibration, comparison, page, tables, work
from greenlane.demo.conclusion import conclusion
from greenlane.demo.contenders import named
from greenlane.demo.options import Options, parse
from greenlane.demo.rates import MIXES, JobCost, rates_per_s
from greenlane.demo.rows import Row, Run, pooled
from greenlane.demo.samples import keep
from greenlane.errors import GreenlaneError, PlatformError, SettingsError
from greenlane.lab.environment import about, usable_cores

SCHEMA: Final = "greenlane.demo/1"
_INTERRUPTED: Final = 130
# What stands around the load: starting, calibration and warm-up; and per run the generator's start and the drain.
_AROUND_S: Final = 14.0
_AROUND_CONTENDER_S: Final = 1.6
_AROUND_RUN_S: Final = 0.8
# A run that would start later than this past the expected end is left out, so that the whole ends when it said.
_LATE_S: Final = 15.0


def main(argv: Sequence[str], out: TextIO, err: TextIO) -> int:
    """Runs the demo. Blocks until all is done or Ctrl-C; no process of it is left afterwards."""
    try:
        options = parse(argv)
        if isinstance(options, str):
            out.write(options)
            return 0
        with _ended_by_sigterm():
            return _Demo(options, out, err).run()
    except GreenlaneError as error:
        err.write(f"{error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        err.write("\nstopped; every server was ended\n")
        return _INTERRUPTED


def expected_s(options: Options) -> float:
    """How long the whole takes, start to page."""
    runs = len(options.contenders) * len(options.utilisations_frac) * options.repetitions
    around = _AROUND_S + _AROUND_CONTENDER_S * len(options.contenders) + _AROUND_RUN_S * runs
    return around + options.seconds * len(options.contenders) * len(options.utilisations_frac)


class _Demo:
    def __init__(self, options: Options, out: TextIO, err: TextIO) -> None:
        self._options = options
        self._out = out
        self._err = err
        self._began_s = time.monotonic()
        self._mix = MIXES[options.mix]
        shown = comparison.subjects(self._mix)
        self._light, self._heavy = shown[0], shown[1] if len(shown) > 1 else None
        self._samples = options.out / "samples.csv.gz"
        self._iterations = 0
        self._costs: Mapping[str, JobCost] = {}
        self._left_out = 0

    def run(self) -> int:
        self._check()
        self._announce()
        self._iterations = work.iterations_per_ms()
        with arena.opened(named(self._options.contenders), None, self._iterations) as opened:
            self._calibrate(opened)
            comparison.warm_up(opened, self._mix, self._costs)
            runs = self._compare(opened)
        self._report(runs)
        return 0

    def _check(self) -> None:
        if missing := arena.missing_packages():
            raise PlatformError("run the pricing demo", name="packages", value=missing, rule="all of them installed",
                                hint='pip install "greenlane[demo]"')  # fmt: skip
        try:
            self._options.out.mkdir(parents=True, exist_ok=True)
            self._samples.unlink(missing_ok=True)
            self._samples.touch()
            self._samples.unlink()
        except OSError as error:
            raise SettingsError("--out", str(self._options.out), f"a folder that can be written ({error.strerror})",
                                "give another folder", attempted="run the pricing demo") from error  # fmt: skip

    def _announce(self) -> None:
        options = self._options
        self._say(
            f"{len(options.contenders)} contenders × {len(options.utilisations_frac)} utilisations × "
            f"{options.repetitions} repetitions of {options.seconds / options.repetitions:.1f} s: "
            f"about {_minutes(expected_s(options))}"
        )
        if usable_cores() < 2:
            self._say("one core only: the load and the upstream service compete with what is measured")

    def _calibrate(self, opened: arena.Arena) -> None:
        self._say("calibrating the work, and what stock gthread adds to it")
        alone_ms = calibration.alone(self._mix, self._iterations)
        self._costs = calibration.on_gthread(opened, alone_ms)
        self._show(tables.mix_table(self._mix, self._costs, self._options.utilisations_frac))

    def _compare(self, opened: arena.Arena) -> list[Run]:
        options = self._options
        design = comparison.Design(
            options.mix, self._mix, options.contenders, options.utilisations_frac, options.repetitions,
            options.seconds / options.repetitions, options.seed,
        )  # fmt: skip
        until_s = self._began_s + expected_s(options) + _LATE_S
        turns = list(design.turns())
        runs: list[Run] = []
        self._show("\n" + tables.live_head(self._light, self._heavy))
        for number, key in enumerate(turns):
            if time.monotonic() + design.run_seconds > until_s:
                self._left_out = len(turns) - number
                break
            self._progress(f"{number + 1} of {len(turns)}: {key.contender} at {key.utilisation_frac:g}", until_s)
            server = opened.servers[key.contender]
            run = comparison.take_turn(key, comparison.plan_of(design, key, server, self._costs), server)
            keep(self._samples, key, run.samples)
            runs.append(run)
            self._progress("", until_s)
            self._show(tables.live_line(pooled([run]), key.repetition, self._light, self._heavy))
        return runs

    def _report(self, runs: Sequence[Run]) -> None:
        options, rows, environment = self._options, pooled(runs), self._environment()
        said = conclusion(rows, self._light, self._heavy, options.repetitions)
        if self._left_out:
            said += f" {self._left_out} runs were left out to end in time: the machine was slower than expected."
        document = {
            "schema": SCHEMA,
            "environment": environment,
            "rows": [asdict(row) for row in rows],
            "conclusion": said,
        }
        (options.out / "rows.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        if disturbance := comparison.disturbed(runs):
            self._say(f"\n{disturbance}\n")
        html = options.out / "pricing.html"
        html.write_text(page.page(rows, runs, said, environment, disturbance), encoding="utf-8")
        if options.json:
            self._out.write(json.dumps(document) + "\n")
        else:
            self._tables(rows, said)
        self._say(f"raw samples {self._samples}, rows {options.out / 'rows.json'}, page {html}")

    def _tables(self, rows: Sequence[Row], said: str) -> None:
        self._show("\n" + tables.result_table(rows, self._light, self._heavy))
        others = tables.others_table(rows, (self._light, self._heavy)) if rows else ""
        if others:
            self._show("\n" + others)
        self._show(f"\n{said}")

    def _environment(self) -> dict[str, object]:
        options = self._options
        return {
            **about(("greenlane", "gunicorn", "gevent", "flask", "numpy")),
            "mix": options.mix,
            "cpu_share_frac": dict(self._mix),
            "iterations_per_ms": self._iterations,
            "costs_ms": {name: {"work_ms": cost.work_ms, "overhead_ms": cost.overhead_ms, "cpu_ms": cost.cpu_ms}
                         for name, cost in self._costs.items()},
            "rates_per_s": {f"{utilisation:g}": rates_per_s(self._mix, self._costs, utilisation)
                            for utilisation in options.utilisations_frac},
            "cell_seconds": options.seconds,
            "repetitions": options.repetitions,
            "seed": options.seed,
            "workers": 1,
            "cpu_ms_per_job_of": "gunicorn masters and workers, user + system",
            "samples_file": str(self._samples),
            "duration_s": round(time.monotonic() - self._began_s, 1),
        }  # fmt: skip

    def _show(self, text: str) -> None:
        # With --json the tables are talk: they still say how it goes.
        (self._err if self._options.json else self._out).write(text + "\n")
        (self._err if self._options.json else self._out).flush()

    def _say(self, text: str) -> None:
        self._err.write(text + "\n")
        self._err.flush()

    def _progress(self, text: str, until_s: float) -> None:
        if self._err.isatty():
            left = f"  {text}, {_minutes(max(0.0, until_s - _LATE_S - time.monotonic()))} left" if text else ""
            self._err.write(f"\r\x1b[K{left}")
            self._err.flush()


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """SIGTERM ends the run as Ctrl-C does, with every server; only in the main thread, else it is left alone."""
    try:
        before = signal.signal(signal.SIGTERM, _interrupt)
    except ValueError:
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _minutes(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 60} min {whole % 60} s" if whole >= 60 else f"{whole} s"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], sys.stdout, sys.stderr))
