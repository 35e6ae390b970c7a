"""`make ecosystem`: parts of public test suites, stock, under `greenlane record`, and with permits on.

Programs of Celery's run beside a worker at a real broker: stock with `-P threads`, and in mode `work` with our pool.

A difference is a test that passes stock and not with us, told by its name. What differs is run once more in all modes;
what does not differ again is flaky. Exit code: 0 no difference that known.toml does not explain, 1 one, 2 usage.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO

from tests.child import LAUNCHER, Child
from tests.ecosystem.environment import CACHE, HERE, python, source
from tests.servers import RabbitMQ, Redis
from tests.where import ROOT

MODES = ("stock", "record", "permits", "work")
#: A process that has died in a test, or hung, is started again without the tests that have run; so often at most.
_MOST_STARTS = 12
_LIMIT_S = 600.0
_STALL_S = 60.0
_LOOK_S = 0.2
#: A process that signal N has ended has this plus N as its exit code, if something like a shell tells of it.
_SIGNALLED = 128
#: Its `sitecustomize` begins the recording of programs that serve nobody, too.
_RECORDED = ROOT / "packages" / "greenlane" / "tests" / "recorded"
#: What `greenlane record` says when its command has ended and processes that it left behind still record.
_LEFT = b"greenlane: the command ended with"
#: The worker of a suite with a broker, stock and with our pool; the suite does not ask for early or unsafe settings.
_POOLS = {"stock": "threads", "work": "custom"}
_POOL = {
    "CELERY_CUSTOM_WORKER_POOL": "greenlane_work.celery:Pool",
    "GREENLANE_TASK_ALLOW": "early-ack,no-confirms",
    # `Reject(requeue=True)` comes back after this time and not immediately, see docs/tasks.md; a test waits for 10 s.
    "GREENLANE_TASK_RETURN_S": "0.2",
    "GREENLANE_CONFIG": "",
    "PYTHONPATH": str(ROOT / "packages" / "greenlane-work" / "src"),
}
_READY_S = 60.0
#: Stands for the end of a process, which can hang or fail as well.
END = "(the end of the process)"


@dataclass(frozen=True)
class Suite:
    """One table of suites.toml."""

    name: str
    source: str = ""
    drop: Sequence[str] = ()
    pytest: Sequence[str] = ()
    unittest: Sequence[str] = ()
    each: Sequence[str] = ("",)
    environ: Mapping[str, str] = field(default_factory=dict)
    permits: str = "wsgi"
    threads: bool = False
    stall_s: float = _STALL_S
    limit_s: float = _LIMIT_S
    slice: bool | Sequence[str] = False
    broker: str = ""

    @property
    def modes(self) -> Sequence[str]:
        """The modes that it is run in."""
        return ("stock", "work") if self.broker else ("stock", "record", "permits")

    def command(self, interpreter: Path, item: str) -> list[str]:
        """Give what runs the suite, or one item of `each`."""
        if self.pytest:
            # Only the plugins that the suite names; no files are left behind; ours is told first what begins.
            plugins = ["-p", "ecosystem_tests", "-p", "no:cacheprovider"]
            if not self.source:
                plugins += ["-c", str(CACHE / "pytest.ini"), "--rootdir", "."]
                plugins += ["--confcutdir", str(interpreter.parents[1])]
            words = [str(interpreter), "-m", "pytest", "-q", *plugins, *self.pytest]
        else:
            words = [str(interpreter), "-m", "ecosystem_tests", *self.unittest]
        return [word.replace("{}", item) for word in words]


Outcomes = dict[str, str]


@dataclass(frozen=True)
class Row:
    """One suite in one mode: a line of the table."""

    suite: str
    mode: str
    passed: int
    failed: int
    skipped: int
    seconds: float
    #: Test -> what happened to it with us.
    differing: Mapping[str, str]
    #: Test -> why it may differ, from known.toml.
    known: Mapping[str, str]
    flaky: Sequence[str]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the arguments ask for; give the exit code."""
    asked = _parse(arguments)
    suites = [sliced(each) if asked.slice else each for each in load(asked.suites) if _is_asked(each, asked)]
    if not suites:
        print("ecosystem: no such suite; --list shows them", file=sys.stderr)
        return 2
    if asked.list:
        print("\n".join(suite.name for suite in suites))
        return 0
    # What a suite leaves behind becomes our child, and is ended with its process.
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    # Also where a shell's background job has SIGINT ignored, which the suites would inherit.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    modes = ["stock", *(mode for mode in MODES[1:] if not asked.mode or mode in asked.mode)]
    rows: list[Row] = []
    out = sys.stderr if asked.json else sys.stdout
    try:
        interpreter = asked.python or python(_say)
        if len(suites) > 1 and asked.beside > 1:
            rows = side_by_side([suite.name for suite in suites], asked, interpreter)
        else:
            for suite in suites:
                own = [mode for mode in modes if mode in suite.modes]
                rows += compare(suite, own, interpreter, known().get(suite.name, {}))
        for row in rows:
            _show(row, out)
    except KeyboardInterrupt:
        _say("interrupted")
        return 130
    finally:
        end_descendants()
    if asked.json:
        environment = {"python": sys.version.split()[0], "cores": os.cpu_count()}
        shown = {"schema": "greenlane.ecosystem/1", "environment": environment, "rows": list(map(asdict, rows))}
        print(json.dumps(shown, indent=1))
    empty = [row.suite for row in rows if row.mode == "stock" and not row.passed]
    if empty:
        print(f"no test passes stock: {', '.join(empty)} (see {CACHE / 'logs'})", file=out)
    print(f"the suites took {_took(rows, modes)}", file=out)
    apart = sum(len(row.differing) for row in rows)
    # The plain last line that CI reads.
    print(f"{sum(row.passed for row in rows)} passed, {apart} failed", file=out)
    return 1 if apart or empty else 0


def load(file: Path = HERE / "suites.toml") -> list[Suite]:
    """Give all suites of a file."""
    with file.open("rb") as stream:
        return [Suite(name, **table) for name, table in tomllib.load(stream).items()]


def sliced(suite: Suite) -> Suite:
    """Give what CI runs of a suite that it runs."""
    return suite if isinstance(suite.slice, bool) else replace(suite, each=suite.slice)


def known() -> dict[str, dict[str, str]]:
    """Give the known differences: suite -> test -> reason."""
    with (HERE / "known.toml").open("rb") as stream:
        return tomllib.load(stream)


def side_by_side(names: Sequence[str], asked: argparse.Namespace, interpreter: Path) -> list[Row]:
    """Run suites in processes of their own, some at a time: they mostly wait. Gives the rows in the order of the names.

    Each process shows its rows on stderr when it has them.
    """
    options = ["--json", "--suites", str(asked.suites), "--python", str(interpreter)]
    options += ["--slice"] * asked.slice + [word for mode in asked.mode or () for word in ("--mode", mode)]

    def rows_of(name: str) -> list[Row]:
        command = [sys.executable, "-m", "tests.ecosystem.run", "--suite", name, *options]
        launched = [sys.executable, "-I", "-S", "-c", LAUNCHER, str(os.getpid()), "", "", *command]
        done = subprocess.run(launched, cwd=ROOT, stdout=subprocess.PIPE, check=False)
        if not done.stdout:
            # The other suites' rows are worth showing all the same.
            _say(f"{name}: its process ended with {done.returncode} and told nothing")
            return [Row(name, "stock", 0, 0, 0, 0.0, {}, {}, ())]
        return [Row(**row) for row in json.loads(done.stdout)["rows"]]

    with ThreadPoolExecutor(asked.beside) as pool:
        try:
            return [row for rows in pool.map(rows_of, names) for row in rows]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            end_descendants()
            raise


# --- comparing --------------------------------------------------------------------------------------------------------


def compare(suite: Suite, modes: Sequence[str], interpreter: Path, known_here: Mapping[str, str]) -> list[Row]:
    """Run a suite in all modes, and give a row for each."""
    folder = source(suite.source, list(suite.drop), interpreter, _say) if suite.source else CACHE / "empty"
    folder.mkdir(parents=True, exist_ok=True)
    # Where a suite has no configuration pytest looks further up, and would take this checkout's.
    (CACHE / "pytest.ini").write_text("[pytest]\n")
    first: dict[str, Outcomes] = {}
    seconds: dict[str, float] = {}
    for mode in modes:
        began_s = time.monotonic()
        first[mode] = Run(suite, mode, interpreter, folder).outcomes()
        seconds[mode] = round(time.monotonic() - began_s, 1)
    suspects = {name for mode in modes for name in differing(first["stock"], first[mode])}
    again: dict[str, Outcomes] = {}
    if suspects:
        _say(f"{suite.name}: {len(suspects)} differ, once more: {', '.join(sorted(suspects)[:5])}")
        for mode in modes:
            again[mode] = Run(suite, mode, interpreter, folder, only=frozenset(suspects)).outcomes()
    rows = []
    for mode in modes:
        outcomes = first[mode]
        apart = sorted(differing(first["stock"], outcomes))
        real = [name for name in apart if name in differing(again["stock"], again[mode])]
        row = Row(
            suite.name,
            mode,
            passed=count(outcomes, "passed"),
            failed=sum(outcome not in ("passed", "skipped") for outcome in outcomes.values()),
            skipped=count(outcomes, "skipped"),
            seconds=seconds[mode],
            differing={name: outcomes.get(name, "missing") for name in real if name not in known_here},
            known={name: known_here[name] for name in real if name in known_here},
            flaky=[name for name in apart if name not in real],
        )
        rows.append(row)
    return rows


def differing(stock: Outcomes, ours: Outcomes) -> set[str]:
    """Give the tests that pass stock, and do not with us: failed, skipped, hung, died or missing."""
    return {name for name, outcome in stock.items() if outcome == "passed" and ours.get(name) != "passed"}


def count(outcomes: Outcomes, wanted: str) -> int:
    """Count the tests with an outcome; the end of a process is none."""
    return sum(outcome == wanted and not name.endswith(END) for name, outcome in outcomes.items())


# --- running ----------------------------------------------------------------------------------------------------------


class Run:
    """One suite in one mode."""

    def __init__(
        self,
        suite: Suite,
        mode: str,
        interpreter: Path,
        folder: Path,
        *,
        only: frozenset[str] = frozenset(),
        logs: Path = CACHE / "logs",
    ) -> None:
        self._suite = suite
        self._mode = mode
        self._interpreter = interpreter
        self._folder = folder
        self._only = only
        self._stem = logs / f"{suite.name}-{mode}{'-again' if only else ''}"
        self._until_s = time.monotonic() + suite.limit_s

    def outcomes(self) -> Outcomes:
        """Run it all, and give each test's outcome by its name."""
        self._stem.parent.mkdir(parents=True, exist_ok=True)
        found: Outcomes = {}
        with self._file(".log").open("wb") as log:
            for item in self._suite.each:
                prefix = f"{item}: " if item else ""
                only = frozenset(name.removeprefix(prefix) for name in self._only if name.startswith(prefix))
                if not self._only or only:
                    one = self._item(item, only, log)
                    found.update({prefix + name: outcome for name, outcome in one.items()})
                    _say(f"{self._suite.name} {self._mode} {item}: {_said(found)}")
        return found

    def _item(self, item: str, only: frozenset[str], log: object) -> Outcomes:
        """Run one process, and where it dies or hangs further ones for the tests that are left."""
        found: Outcomes = {}
        for _ in range(_MOST_STARTS):
            self._file(".report").unlink(missing_ok=True)
            self._file(".skip").write_text("\n".join(found), encoding="utf-8")
            self._file(".only").write_text("\n".join(only), encoding="utf-8")
            how = self._process(item, bool(only), log)
            lines = self._lines()
            found.update({line["end"]: line["outcome"] for line in lines if "end" in line})
            unfinished = [line["begin"] for line in lines if "begin" in line and line["begin"] not in found]
            if self._mode == "permits" and not how and found and not any(line.get("jobs") for line in lines):
                how = "no test was a job"
            if not unfinished:
                found[END] = how or "passed"
                break
            found.update(dict.fromkeys(unfinished, how or "died"))
            if time.monotonic() > self._until_s:
                break
        return found

    def _process(self, item: str, is_only: bool, log: object) -> str:
        """Run one process to its end; give "" or what went wrong with it as a whole."""
        with self._beside() as environ:
            return self._child(item, {**self._environ(is_only), **environ}, log)

    @contextlib.contextmanager
    def _beside(self) -> Iterator[dict[str, str]]:
        """Run what the suite needs beside it, a broker and a worker; gives the variables that lead there."""
        if not self._suite.broker:
            yield {}
            return
        with contextlib.ExitStack() as servers:
            results = servers.enter_context(Redis())
            broker = results if self._suite.broker == "redis" else servers.enter_context(RabbitMQ())
            environ = {
                "TEST_BROKER": broker.url, "TEST_BACKEND": results.url, "REDIS_HOST": "127.0.0.1",
                "REDIS_PORT": str(results.port), "C_FORCE_ROOT": "1",
            }  # fmt: skip
            # Of Celery's own sources there are only the tests.
            command = [self._interpreter, "-m", "celery", "-A", "integration_app", "worker", "-l", "INFO"]
            pool = ["-P", _POOLS[self._mode], "-c", "10"]
            added = environ | (_POOL if self._mode == "work" else {})
            worker = servers.enter_context(Child([*command, *pool], env=added, cwd=self._folder))
            worker.wait_output(r"ready\.", timeout_s=_READY_S)
            try:
                yield environ
            finally:
                self._file(".worker.log").write_text(worker.output, encoding="utf-8")

    def _child(self, item: str, environ: Mapping[str, str], log: object) -> str:
        command = self._suite.command(self._interpreter, item)
        recording = self._file(".glr")
        recording.unlink(missing_ok=True)
        if self._mode == "record":
            greenlane = Path(sys.executable).with_name("greenlane")
            command = [str(greenlane), "record", "--force", "-o", str(recording), "--", *command]
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", LAUNCHER, str(os.getpid()), "", "", *command],
            cwd=self._folder, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log,  # type: ignore[call-overload]
            start_new_session=True,
        )  # fmt: skip
        try:
            ended = self._watch(child)
        finally:
            end_descendants()
            child.wait()
        if not ended:
            return "hung"
        was_recorded = recording.exists()
        recording.unlink(missing_ok=True)
        if child.returncode < 0 or child.returncode > _SIGNALLED:
            return f"died of signal {abs(child.returncode) % _SIGNALLED}"
        if self._mode == "record" and not was_recorded:
            return "was not recorded"
        return f"exit code {child.returncode}" if self._suite.pytest and child.returncode > 1 else ""

    def _watch(self, child: subprocess.Popen[bytes]) -> bool:
        """Wait for the end; False where nothing was reported for too long."""
        size, since_s = -1, time.monotonic()
        log, leaves = self._file(".log"), False
        said_before = log.read_bytes().count(_LEFT)
        while child.poll() is None:
            if self._mode == "record" and not leaves and log.read_bytes().count(_LEFT) > said_before:
                # `greenlane record` waits for what the suite has left in the background, by design. We do not.
                child.send_signal(signal.SIGINT)
                leaves = True
            now_s = time.monotonic()
            report = self._file(".report")
            now_size = report.stat().st_size if report.exists() else 0
            if now_size != size:
                size, since_s = now_size, now_s
            if now_s - since_s > self._suite.stall_s or now_s > self._until_s:
                for pid in descendants():  # faulthandler says where they stand
                    _kill(pid, signal.SIGABRT)
                time.sleep(1)
                return False
            time.sleep(_LOOK_S)
        return True

    def _environ(self, is_only: bool) -> dict[str, str]:
        path = (self._suite.environ.get("PYTHONPATH", ""), str(_RECORDED))
        ours = ("GREENLANE_", "PYTEST_", "PYTHON", "ECOSYSTEM_", "COV_", "MAKE", "MFLAGS")
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith(ours) and name != "CI"},
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "ECOSYSTEM_REPORT": str(self._file(".report")),
            "ECOSYSTEM_SKIP": str(self._file(".skip")),
            "ECOSYSTEM_ONLY": str(self._file(".only")) if is_only else "",
            "ECOSYSTEM_PERMITS": self._suite.permits if self._mode == "permits" else "",
            "ECOSYSTEM_THREADS": "1" if self._suite.threads else "",
            **self._suite.environ,
            **({"PYTHONPATH": os.pathsep.join(filter(None, path))} if self._mode == "record" else {}),
        }

    def _file(self, suffix: str) -> Path:
        return self._stem.with_name(self._stem.name + suffix)

    def _lines(self) -> list[dict[str, Any]]:
        report = self._file(".report")
        if not report.exists():
            return []
        return [json.loads(line) for line in report.read_text(encoding="utf-8").splitlines() if line.endswith("}")]


def descendants() -> list[int]:
    """Give the processes that descend from this one; what has lost its parent is our child."""
    children: dict[int, list[int]] = {}
    for each in Path("/proc").iterdir():
        if each.name.isdecimal():
            try:
                state, parent = (each / "stat").read_text().rpartition(")")[2].split()[:2]
            except OSError:
                continue
            if state != "Z":
                children.setdefault(int(parent), []).append(int(each.name))
    return list(_below(os.getpid(), children))


def end_descendants() -> None:
    """End all of them; Popen reaps its own, the rest goes when this process ends."""
    while left := descendants():
        for pid in left:
            _kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def _below(pid: int, children: Mapping[int, list[int]]) -> Iterator[int]:
    for child in children.get(pid, ()):
        yield child
        yield from _below(child, children)


def _kill(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


# --- talking ----------------------------------------------------------------------------------------------------------


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make ecosystem ARGS=…", description=__doc__, allow_abbrev=False)
    parser.add_argument("--suite", action="append", metavar="NAME", help="only this one; may be given again")
    parser.add_argument("--mode", action="append", choices=MODES, help="only this one, beside stock")
    parser.add_argument("--slice", action="store_true", help="only what CI runs, in three minutes")
    parser.add_argument("--beside", type=int, default=2, metavar="N", help="suites at a time (2)")
    parser.add_argument("--suites", metavar="FILE", type=Path, default=HERE / "suites.toml", help="other suites")
    parser.add_argument("--python", metavar="PATH", type=Path, help="run them there: what they need is installed")
    parser.add_argument("--list", action="store_true", help="name the suites")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout after the table")
    return parser.parse_args(arguments)


def _is_asked(suite: Suite, asked: argparse.Namespace) -> bool:
    return (not asked.suite or suite.name in asked.suite) and (not asked.slice or bool(suite.slice))


def _show(row: Row, out: TextIO) -> None:
    counts = f"{row.passed:>6} passed {row.failed:>4} failed {row.skipped:>4} skipped {row.seconds:>7} s"
    print(f"{row.suite:<18} {row.mode:<8} {counts}", file=out)
    for name, outcome in row.differing.items():
        print(f"    differs: {name}: {outcome}", file=out)
    for name, reason in row.known.items():
        print(f"    known: {name}: {reason}", file=out)
    for name in row.flaky:
        print(f"    flaky: {name}", file=out)
    out.flush()


def _took(rows: Sequence[Row], modes: Sequence[str]) -> str:
    by_mode = {mode: sum(row.seconds for row in rows if row.mode == mode) for mode in modes}
    parts = " + ".join(f"{mode} {seconds:.0f}" for mode, seconds in by_mode.items())
    return f"{sum(by_mode.values()):.0f} s: {parts}"


def _said(outcomes: Outcomes) -> str:
    kinds = sorted(set(outcomes.values()))
    return ", ".join(f"{sum(outcome == kind for outcome in outcomes.values())} {kind}" for kind in kinds)


def _say(text: str) -> None:
    print(f"ecosystem: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
