"""Runs the tests in parts, and ends with the slowest and with those that were run again.

    python scripts/testing.py fast|system [arguments of pytest's]

`fast`: what takes under 0.25 s each, on both cores; few examples of Hypothesis, hazards with permits on. `system`: all
the rest but soak: slow tests, every example and mode, real servers; then what measures, alone. With arguments of
pytest's it is one run of that kind. A test with a server, or one that measures, that failed twice is run once more at
the end, alone in a new process (tests/disturbed.py). Exit 0: every part passed.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
#: How many of the slowest are named.
SLOWEST: Final = 20
#: Tests that are run a third time; more than these is no disturbance.
MOST_ALONE: Final = 12

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
#: Three runs side by side, each about as long as the others: they mostly wait, each for servers of its own.
_HOSTS: Final = (
    "packages/greenlane/tests/hosts", "packages/greenlane/tests/lanes", "tests/servers", "systems/offers/tests",
    "systems/pos/tests", "tests/system",
)  # fmt: skip
_WAITING: Final = ("packages/greenlane-work/tests",)
#: Counts what a load makes of it, so with one neighbour at most.
_SERVE: Final = ("packages/greenlane-serve/tests",)
_PROGRAMS: Final = ("systems/feed/tests", "packages/greenlane-tools/tests", "packages/greenlane/tests/probes")
#: What places work measures shares that neighbours seldom change.
_PLACEMENT: Final = ("packages/greenlane/tests/placement",)
_SIDE_BY_SIDE: Final = (_PROGRAMS, _HOSTS, _WAITING)

#: kind -> what is run one after the other; what stands together is run side by side.
PLANS: Final[dict[str, tuple[tuple[Part, ...], ...]]] = {
    "fast": ((Part(_FAST, options=_BOTH_CORES),),),
    "system": (
        (Part(_REST, options=_BOTH_CORES),),
        tuple(Part(_SERVERS, paths=paths, options=_LONG) for paths in _SIDE_BY_SIDE),
        (
            Part(_SERVERS, paths=_SERVE, options=_LONG),
            Part(_SERVERS, without=tuple(path for paths in (*_SIDE_BY_SIDE, _SERVE) for path in paths), options=_LONG),
            Part(_MEASURED, paths=_PLACEMENT, options=_LONG),
        ),
        (Part(_MEASURED, without=_PLACEMENT, options=_LONG),),
    ),
}
_WHOLE: Final = {"fast": (*_PYTEST, "-m", _FAST), "system": (*_PYTEST, "-m", f"not soak and not ({_FAST})", *_LONG)}


def main(argv: Sequence[str]) -> int:
    """Run them; gives the exit code."""
    if not argv or argv[0] not in PLANS:
        print(f"run the tests: kind={argv[:1]}, expected one of {sorted(PLANS)}", file=sys.stderr)
        return 2
    kind, arguments = argv[0], argv[1:]
    with tempfile.TemporaryDirectory() as told:
        os.environ["TESTS_TOLD"] = told
        if kind == "system":
            os.environ["TESTS_PROFILE"] = "thorough"
        if arguments:
            return subprocess.run([*_WHOLE[kind], *arguments], check=False).returncode
        codes = [beside(parts) for parts in PLANS[kind]]
        runs = list(_runs(Path(told)))
        failed = sorted({test for run in runs for test in run["failed"]})
        if max(codes) == 1 and 0 < len(failed) <= MOST_ALONE and not any(run["final"] for run in runs):
            print(f"== alone, in a new process: {len(failed)}", *failed, sep="\n   ", flush=True)
            codes = [subprocess.run([*_PYTEST, *_LONG, *failed], check=False).returncode]
        _tell(runs, failed)
    return max(codes)


def beside(parts: Sequence[Part]) -> int:
    """Run them at the same time, the first one's output as it comes; gives the greatest exit code."""
    first, *others = parts
    with contextlib.ExitStack() as stack:
        heard = [stack.enter_context(tempfile.TemporaryFile()) for _ in others]
        # Not a shell's background job: those ignore Ctrl-C, and so would the programs that they test.
        running = [
            subprocess.Popen(one.command(), stdout=said, stderr=subprocess.STDOUT)
            for one, said in zip(others, heard, strict=True)
        ]
        try:
            codes = [subprocess.run(first.command(), check=False).returncode]
            codes += [one.wait() for one in running]
        finally:
            for one in running:
                if one.poll() is None:
                    one.terminate()
                one.wait()
        for said in heard:
            said.seek(0)
            sys.stdout.write(said.read().decode(errors="replace"))
        sys.stdout.flush()
    # A signal's is negative; 5 = a part of which nothing was selected.
    return max(0 if code == 5 else abs(code) for code in codes)


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


def _runs(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("*.json")):
        yield json.loads(path.read_text("utf-8"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
