"""A scenario from the first process to the last row: start, calibrate, warm up, every run in turn, judge.

A service that dies is restarted and its run counts as it went; a contender that does not come up is left out and
the others go on. Both are reported, and the result is then not `complete`.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from greenlane.errors import GreenlaneError, HostError
from greenlane_tools.lab.ending import checkpoint
from greenlane_tools.lab.environment import about
from greenlane_tools.lab.run import tables
from greenlane_tools.lab.run.arena import Arena, calibrated, opened, settle, take, warm_up
from greenlane_tools.lab.run.contrast import missing, tools
from greenlane_tools.lab.run.judged import Judgement, conclusion, judged, remarks
from greenlane_tools.lab.run.pacing import rates_per_s, replayed
from greenlane_tools.lab.run.rows import Row, Run, Turn, pooled, turns
from greenlane_tools.lab.run.server import said as said_by
from greenlane_tools.lab.run.store import Store, digest
from greenlane_tools.lab.run.talk import Talk
from greenlane_tools.lab.scenario.scenario import Scenario

#: Whose versions a result names.
PACKAGES: Final = ("greenlane", "gunicorn", "gevent", "flask", "numpy")
# What stands around the load: starting; per class its calibration beyond `calibrated_s`; per run the generator's start
# and the drain.
_AROUND_S: Final = 5.0
_AROUND_CONTENDER_S: Final = 1.0
_AROUND_CLASS_S: Final = 0.6
_AROUND_RUN_S: Final = 0.8


@dataclass(frozen=True)
class Result:
    """All of it."""

    scenario: Scenario
    contenders: tuple[str, ...]
    runs: Sequence[Run]
    rows: Sequence[Row]
    # CPU of one job by class, and iterations of `work` in 1 ms; empty and 0 when nothing needed them.
    costs_ms: Mapping[str, float]
    iterations_per_ms: int
    judgements: Sequence[Judgement]
    remarks: Sequence[str]
    conclusion: str
    environment: Mapping[str, object]
    # Runs that were planned and not made.
    left_out: int

    @property
    def complete(self) -> bool:
        """Every run was made and no service died of itself."""
        return not self.left_out and not any(run.dead for run in self.runs)


def expected_s(scenario: Scenario, contenders: Sequence[str]) -> float:
    """How long the whole takes when nothing is stored yet."""
    runs = len(list(turns(scenario, contenders)))
    shares = sum(bool(one.cpu_share_frac or one.request_share_frac) for one in scenario.classes)
    around = _AROUND_S + (_AROUND_CONTENDER_S + scenario.warm_s) * len(contenders)
    around += shares * (scenario.calibrated_s + _AROUND_CLASS_S)
    contrast = scenario.contrast.repetitions / scenario.repetitions * len(tools(scenario))
    return around + runs * (_AROUND_RUN_S + scenario.run_seconds() * (1 + min(contrast, len(tools(scenario)))))


def stored(scenario: Scenario, folder: Path) -> Store:
    """The folder of a result of this scenario; see `Store`."""
    packages = about(PACKAGES)
    identity = {
        "scenario": hashlib.sha256(_asked(scenario)).hexdigest()[:16],
        "build": digest(*(path.read_bytes() for path in _files(scenario))),
        "run_seconds": round(scenario.run_seconds(), 6),
        "seed": scenario.seed,
        **{name: packages[name] for name in ("kernel", "processor", "cores", "python", "versions", "greenlane_env")},
    }
    return Store(folder, identity, {"scenario": scenario.text, "environment": packages})


def run_scenario(
    scenario: Scenario, contenders: Sequence[str], store: Store, talk: Talk, *, fresh: bool = False, late_s: float = 0.0
) -> Result:
    """Runs it. Blocks until all is done or Ctrl-C; no process of it is left afterwards.

    Args:
        contenders: names of those that take part.
        store: where runs are kept, and found again.
        fresh: forget what is there.
        late_s: a run that would start this much past the expected end is left out; 0 = none is.

    Raises:
        GreenlaneError: the folder, a shared service, every contender, the calibration or the generator failed.
    """
    return _Runner(scenario, tuple(contenders), store, talk, late_s).run(fresh)


class _Runner:
    def __init__(
        self, scenario: Scenario, contenders: tuple[str, ...], store: Store, talk: Talk, late_s: float
    ) -> None:
        self._scenario = scenario
        self._contenders = contenders
        self._store = store
        self._talk = talk
        self._began_s = time.monotonic()
        self._until_s = self._began_s + expected_s(scenario, contenders)
        self._late_s = late_s
        self._shown = tables.subjects(scenario)
        self._turns = list(turns(scenario, contenders))
        self._runs: dict[Turn, Run] = {}
        self._absent: dict[str, GreenlaneError] = {}
        self._costs_ms: Mapping[str, float] = {}
        self._iterations = 0

    def run(self, fresh: bool) -> Result:
        for one in self._scenario.classes:
            if one.arrivals == "recorded":
                replayed(self._scenario, one)  # what cannot be read is refused before anything starts
        self._resume(fresh)
        self._announce()
        left = [turn for turn in self._turns if turn not in self._runs]
        if left:
            chosen = self._scenario.chosen(self._contenders)
            with opened(self._scenario, chosen, self._iterations) as arena:
                self._absent |= arena.absent
                self._calibrate(arena)
                self._perform(arena, left)
        return self._result()

    def _resume(self, fresh: bool) -> None:
        self._store.open(fresh)
        self._store.plan(self._turns)
        self._costs_ms, self._iterations = (
            self._store.note("costs_ms") or {},
            self._store.note("iterations_per_ms") or 0,
        )
        for turn in self._turns:
            if (run := self._store.load(turn)) is not None:
                self._runs[turn] = run

    def _announce(self) -> None:
        scenario, kept = self._scenario, len(self._runs)
        if kept:
            self._talk.say(f"{kept} of {len(self._turns)} runs were made before and are kept; --fresh makes them again")
            self._until_s -= (self._until_s - self._began_s) * kept / len(self._turns)
        if kept < len(self._turns):
            self._talk.say(
                f"{len(self._contenders)} contender{_s(self._contenders)} × {len(scenario.levels())} "
                f"level{_s(scenario.levels())} × {scenario.repetitions} repetition{'s' * (scenario.repetitions != 1)} "
                f"of {scenario.run_seconds():.3g} s: about {minutes(self._until_s - self._began_s)}"
            )
        if absent := missing(scenario):
            self._talk.say(f"not installed here, left out: {', '.join(absent)}")

    def _calibrate(self, arena: Arena) -> None:
        for name, error in arena.absent.items():
            self._talk.say(f"{name} does not take part: {error}")
        if not self._costs_ms:
            self._costs_ms = calibrated(self._scenario, arena, self._talk.say)
            self._store.keep_note("costs_ms", self._costs_ms)
        self._iterations = arena.site.iterations_per_ms
        self._store.keep_note("iterations_per_ms", self._iterations)
        self._talk.show(tables.load_table(self._scenario, self._costs_ms))
        checkpoint()
        self._talk.progress("warming up")
        warm_up(self._scenario, arena, self._costs_ms)
        self._talk.progress("")

    def _perform(self, arena: Arena, left: Sequence[Turn]) -> None:
        self._talk.show("\n" + tables.live_head(self._scenario, self._shown))
        for turn in left:
            checkpoint()
            late_s = time.monotonic() + self._scenario.run_seconds() - self._until_s
            if self._late_s and late_s > self._late_s:
                break
            if turn.contender not in self._absent:
                self._one(arena, turn)

    def _one(self, arena: Arena, turn: Turn) -> None:
        number = self._turns.index(turn) + 1
        said = f"{number} of {len(self._turns)}: {turn.contender} at {turn.level.label}"
        server = arena.servers[turn.contender]
        if server.dead() and not self._again(turn.contender, server.restart):
            return
        self._talk.progress(self._left(said, number))

        def told(sent: int, over: int) -> None:
            checkpoint()
            self._talk.progress(self._left(said, number))

        run = take(self._scenario, turn, arena, self._costs_ms, told)
        # Before it is kept: half of this run had no such service.
        for one in arena.shared.values():
            if not one.child.running():
                raise GreenlaneError("go on with the scenario", name="service", value=one.service.name,
                                     rule=f"a shared service that stays. It exited and said:\n{said_by(one.log)}",
                                     hint="finished runs are kept: repair it and run the same again")  # fmt: skip
        self._store.save(run)
        self._runs[turn] = run
        self._talk.progress("")
        rows = pooled(self._scenario, [run])
        self._talk.show(tables.live_line(self._scenario, rows, turn.repetition, self._shown))
        if run.dead:
            self._talk.say(f"{', '.join(run.dead)} of {turn.contender} exited meanwhile; it said:\n{run.said}")
        self._again(turn.contender, lambda: settle(self._scenario, run, server))

    def _again(self, contender: str, step: Callable[[], None]) -> bool:
        """Brings a contender to rest or up again; False = it is left out from here on."""
        try:
            step()
        except HostError as error:
            self._absent[contender] = error
            self._talk.say(f"{contender} is left out from here on: {error}")
            return False
        return True

    def _left(self, said: str, number: int) -> str:
        """What is being done, and how long all of it will take at least: a slow machine shortens no run."""
        least_s = (len(self._turns) - number) * (self._scenario.run_seconds() + _AROUND_RUN_S)
        return f"{said}, {minutes(max(least_s, self._until_s - time.monotonic()))} left"

    def _result(self) -> Result:
        runs = [self._runs[turn] for turn in self._turns if turn in self._runs]
        rows = pooled(self._scenario, runs)
        left_out = len(self._turns) - len(runs)
        said = conclusion(self._scenario, rows)
        found = remarks(self._scenario, runs, rows, self._absent)
        if left_out and not self._absent:
            found.append(f"{left_out} runs were left out to end in time: the machine was slower than expected.")
        return Result(
            scenario=self._scenario, contenders=self._contenders, runs=runs, rows=rows, costs_ms=self._costs_ms,
            iterations_per_ms=self._iterations, judgements=judged(self._scenario, rows), remarks=found, conclusion=said,
            environment=self._environment(), left_out=left_out,
        )  # fmt: skip

    def _environment(self) -> dict[str, object]:
        scenario = self._scenario
        return {
            **about(PACKAGES),
            "scenario": scenario.name,
            "work": scenario.work,
            "iterations_per_ms": self._iterations,
            "costs_ms": dict(self._costs_ms),
            "rates_per_s": {level.label: rates_per_s(scenario, self._costs_ms, level) for level in scenario.levels()}
            if self._costs_ms or not scenario.calibrates()
            else {},
            "run_seconds": scenario.run_seconds(),
            "repetitions": scenario.repetitions,
            "seed": scenario.seed,
            "cpu_ms_per_job_of": "the contender's processes, user + system",
            "samples_folder": str(self._store.samples_folder()),
            "duration_s": round(time.monotonic() - self._began_s, 1),
        }


def minutes(seconds: float) -> str:
    """A time as people say it."""
    whole = round(seconds)
    return f"{whole // 60} min {whole % 60} s" if whole >= 60 else f"{whole} s"


def _asked(scenario: Scenario) -> bytes:
    """What of a scenario decides what is measured in one run."""
    plain = replace(
        scenario, question="", expected="", bounds=(), expectations=(), text="", folder=Path(), seconds=0.0,
        repetitions=0, seed=0, utilisations_frac=(), rate_factors=(),
    )  # fmt: skip
    return repr(plain).encode()


def _files(scenario: Scenario) -> list[Path]:
    """Programs that its services run."""
    found: list[Path] = []
    for service in scenario.services:
        for name in service.files:
            path = scenario.folder / name
            found += sorted(one for one in path.rglob("*.py")) if path.is_dir() else [path]
    return found


def _s(found: Sequence[object]) -> str:
    return "s" * (len(found) != 1)
