"""Runs the tests in parts, and ends with the slowest and with those that were run again.

    python scripts/testing.py fast|system [arguments of pytest's]

`fast`: what takes under 0.25 s each, on both cores; few examples of Hypothesis, hazards with permits on. `system`: all
the rest but soak: slow tests, every example and mode, real servers; then what measures, alone. With arguments of
pytest's it is one run of that kind. A test with a server, or one that measures, that failed in a part is run again at
the end, alone in a new process (tests/disturbed.py). A part in which pytest failed, and no test, is run once more: what
it printed says why. Exit 0: every part passed, except tests that passed alone.

`TESTS_END_S` (since the epoch): then what runs is interrupted and says what has failed, and nothing else is run.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
#: How many of the slowest are named.
SLOWEST: Final = 20
#: Tests that are run again alone; more than these is no disturbance.
MOST_ALONE: Final = 12
#: How pytest ends when something but a test raises in it.
_INTERNAL_ERROR: Final = 3
#: What a part that is interrupted has to say which of its tests have failed.
LAST_WORDS_S: Final = 20

_FAST: Final = "not slow and not system and not measured and not soak"
_REST: Final = "(slow or hypothesis) and not system and not measured and not soak"
_SERVERS: Final = "system and not measured and not soak"
_MEASURED: Final = "measured and not soak"
_BOTH_CORES: Final = ("-n", "2", "--dist", "worksteal")
_LONG: Final = ("--timeout", "180")


@dataclass(frozen=True)
class Part:
    """One run of pytest."""

    marks: str
    #: Empty = everywhere.
    paths: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    def command(self) -> list[str]:
        """Its arguments."""
        ignored = [f"--ignore={path}" for path in self.without]
        # pytest ignores nothing that it is asked for, and without paths it is asked for all of `testpaths`.
        paths = self.paths or [path for path in _everywhere() if path not in self.without]
        return [*_PYTEST, "-m", self.marks, *self.options, *ignored, *paths]


def _everywhere() -> list[str]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return list(tomllib.load(file)["tool"]["pytest"]["ini_options"]["testpaths"])


_PYTEST: Final = (sys.executable, "-m", "pytest", "-q")
_SERVE: Final = ("packages/greenlane-serve/tests",)
_WORK: Final = ("packages/greenlane-work/tests",)
#: About half of what that takes.
_HALF_OF_WORK: Final = tuple(
    str(path.relative_to(ROOT))
    for path in sorted(
        (ROOT / _WORK[0] / "worker").glob("test_*.py"), key=lambda path: (path.stat().st_size, path.name), reverse=True
    )[::2]
)
_HOSTS: Final = ("packages/greenlane/tests/hosts", "tests/servers", "tests/system")
#: `make examples` runs them from wheels.
_EXAMPLES: Final = ("tests/system/test_examples.py", "tests/system/test_tutorial.py")
_SYSTEMS: Final = ("systems/offers/tests", "systems/pos/tests", "systems/feed/tests")
_TOOLS: Final = ("packages/greenlane-tools/tests", "packages/greenlane/tests/probes")
#: Measures shares that neighbours seldom change. One Ray for all of it.
_PLACEMENT: Final = ("packages/greenlane/tests/placement",)
#: Records programs, and asserts rather what they did than when: neighbours seldom change it.
_RECORDED: Final = tuple(
    f"packages/greenlane/tests/record/{name}"
    for name in (
        "foreign", "test_always_on.py", "test_asyncio.py", "test_asyncio_hosts.py", "test_attach.py",
        "test_attach_celery.py", "test_bound.py", "test_calls.py", "test_command.py",
    )
)  # fmt: skip
_WAITING: Final = (*_SERVE, *_WORK, *_HOSTS, *_SYSTEMS, *_TOOLS, *_PLACEMENT)

#: kind -> what is run one after the other; of what stands together, AT_A_TIME. They mostly wait, each for
#: servers of its own. The longest come first.
PLANS: Final[dict[str, tuple[tuple[Part, ...], ...]]] = {
    "fast": ((Part(_FAST, options=_BOTH_CORES),),),
    "system": (
        (Part(_REST, options=_BOTH_CORES),),
        (
            Part(_SERVERS, paths=_WORK, without=_HALF_OF_WORK, options=_LONG),
            *(
                Part(_SERVERS, paths=paths, without=_EXAMPLES, options=_LONG)
                for paths in (_HALF_OF_WORK, _SYSTEMS, _SERVE, _HOSTS, _TOOLS)
            ),
            Part(f"({_SERVERS}) or ({_MEASURED})", paths=_PLACEMENT, options=_LONG),
            Part(_MEASURED, paths=_RECORDED, options=_LONG),
            Part(_SERVERS, without=_WAITING, options=_LONG),
        ),
        (Part(_MEASURED, without=(*_PLACEMENT, *_RECORDED), options=_LONG),),
    ),
}
#: How many of those that stand together run at a time.
AT_A_TIME: Final = 3
_WHOLE: Final = {"fast": (*_PYTEST, "-m", _FAST), "system": (*_PYTEST, "-m", f"not soak and not ({_FAST})", *_LONG)}


@dataclass(frozen=True)
class Ended:
    """How one run of pytest ended."""

    #: As subprocess gives it: a signal's is negative.
    code: int
    #: What tests/disturbed.py has written; None = it ended before, so that its exit code says nothing.
    said: dict[str, Any] | None
    #: The last line of its output; "" = that was seen as it came.
    last: str = ""

    @property
    def passed(self) -> bool:
        """Also when nothing was selected."""
        return self.code in (0, 5) and self.said is not None

    @property
    def broken(self) -> bool:
        """Whether pytest met an error of its own or of a plugin's: which tests would have passed is unknown."""
        return self.code == _INTERNAL_ERROR and self.said is None

    def __str__(self) -> str:
        if self.said is None:
            return f"pytest itself, exit code {self.code}"
        tests = [*self.said["final"], *self.said["failed"]]
        # For example what the garbage collector found when all tests had passed.
        return "\n   ".join([f"exit code {self.code}", *(tests or [f"after its tests: {self.last or 'see above'}"])])

    def to_repeat(self) -> list[str]:
        """Its failed tests, if nothing but tests failed that may be run again; else none."""
        if self.code != 1 or self.said is None or self.said["final"]:
            return []
        return list(self.said["failed"])


def main(argv: Sequence[str]) -> int:
    """Run them; gives the exit code."""
    if not argv or argv[0] not in PLANS:
        print(f"run the tests: kind={argv[:1]}, expected one of {sorted(PLANS)}", file=sys.stderr)
        return 2
    kind, arguments = argv[0], argv[1:]
    if kind == "system":
        os.environ["TESTS_PROFILE"] = "thorough"
    if arguments:
        return subprocess.run([*_WHOLE[kind], *arguments], check=False).returncode
    with tempfile.TemporaryDirectory() as told:
        os.environ["TESTS_TOLD"] = told
        limit_s = float(os.environ.get("TESTS_END_S", "inf")) - time.time()
        return in_turn([[part.command() for part in parts] for parts in PLANS[kind]], limit_s)


def in_turn(commands: Sequence[Sequence[Sequence[str]]], limit_s: float = math.inf) -> int:
    """Run these commands of pytest in this order, what stands together side by side; gives the exit code.

    They tell what they did in the folder TESTS_TOLD.
    """
    end_s = time.monotonic() + limit_s
    ended = []
    for together in commands:
        ended += beside(together, end_s)
        if time.monotonic() >= end_s:
            print(f"== ended at the limit of {limit_s:.0f} s", flush=True)
            break
    alone = repeated_alone(ended)
    last = ended
    if alone:
        print(f"== alone, in a new process: {len(alone)}", *alone, sep="\n   ", flush=True)
        last = beside([[*_PYTEST, *_LONG, *alone]], end_s)
    _tell([one.said for one in ended if one.said], alone)
    wrong = [one for one in last if not one.passed]
    for one in wrong:
        print(f"== failed: {one}")
    return 1 if wrong or time.monotonic() >= end_s else 0


def repeated_alone(ended: Sequence[Ended]) -> list[str]:
    """The tests that decide when they are run again alone; none = what these runs say is final."""
    failed = [one.to_repeat() for one in ended if not one.passed]
    tests = sorted({test for one in failed for test in one})
    return tests if all(failed) and len(tests) <= MOST_ALONE else []


def beside(commands: Sequence[Sequence[str]], end_s: float) -> list[Ended]:
    """Run them, AT_A_TIME of them side by side, until then; those that were not begun have not passed.

    The output of one alone is seen as it comes, that of several when each has ended.
    """
    left, running, ended, again = list(commands), list[_Running](), list[Ended](), list[Sequence[str]]()
    try:
        while (left or running) and time.monotonic() < end_s:
            while left and len(running) < AT_A_TIME:
                running.append(_Running(left.pop(0), live=len(commands) == 1))
            over = [one for one in running if one.process.poll() is not None]
            running = [one for one in running if one not in over]
            for one in over:
                end = one.ended()
                if end.broken and one.command not in again:
                    print("== pytest itself failed, see INTERNALERROR: that part once more", flush=True)
                    again.append(one.command)
                    left.append(one.command)
                else:
                    ended.append(end)
            time.sleep(0.05)
        for one in running:
            one.process.send_signal(signal.SIGINT)
    finally:
        # Interrupted, by us or by Ctrl-C, which they have had, too.
        ended += [one.ended() for one in running]
    return [*ended, *(Ended(-signal.SIGINT, None) for _ in left)]


class _Running:
    def __init__(self, command: Sequence[str], *, live: bool) -> None:
        self.command = command
        self._heard = None if live else tempfile.TemporaryFile()
        # Not a shell's background job: those ignore Ctrl-C, and so would the programs that they test.
        self.process = subprocess.Popen(command, stdout=self._heard, stderr=self._heard and subprocess.STDOUT)

    def ended(self) -> Ended:
        """Wait for its last words, and give its output."""
        try:
            self.process.wait(LAST_WORDS_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        output = ""
        if self._heard is not None:
            with self._heard as heard:
                heard.seek(0)
                output = heard.read().decode(errors="replace")
            sys.stdout.write(output)
            sys.stdout.flush()
        path = Path(os.environ["TESTS_TOLD"], f"{self.process.pid}.json")
        said = json.loads(path.read_text("utf-8")) if path.is_file() else None
        return Ended(self.process.returncode, said, output.rstrip().rpartition("\n")[2])


def _tell(runs: Sequence[dict[str, Any]], alone: Sequence[str]) -> None:
    slowest = sorted(((seconds, test) for run in runs for test, seconds in run["seconds"].items()), reverse=True)
    again = sorted([*(test for run in runs for test in run["again"]), *alone])
    print(f"== the {SLOWEST} slowest tests of {len(slowest)}")
    for seconds, test in slowest[:SLOWEST]:
        print(f"   {seconds:6.1f} s {test}")
    print("== seconds by folder, those over 20")
    by_folder = Counter[str]()
    for seconds, test in slowest:
        by_folder["/".join(test.partition("::")[0].split("/")[:4])] += round(seconds)
    for name, sum_s in by_folder.most_common():
        if sum_s > 20:
            print(f"   {sum_s:6d} s {name}")
    print(f"== repeated: {len(again)}")
    for test in again:
        print(f"   {test}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
