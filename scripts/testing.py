"""Runs the tests in parts: what only computes or waits as processes side by side, then what measures, alone.

    python scripts/testing.py fast|system [arguments of pytest's]

`fast`: without real servers and soak. `system`: those with real servers. With arguments of pytest's it is one run. The
first part's output is shown as it comes, its neighbours' when all are over. Exit 0: every part passed.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Part:
    """One process of pytest."""

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
        return [sys.executable, "-m", "pytest", "-m", self.marks, *self.options, *ignored, *paths]


def _everywhere() -> list[str]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return list(tomllib.load(file)["tool"]["pytest"]["ini_options"]["testpaths"])


_FAST: Final = "not system and not soak"
_STEADY: Final = f"{_FAST} and not measured"
_SYSTEM: Final = "system and not soak"
_LONG: Final = ("--timeout", "180")
#: About as long as all others that are steady.
_HALF: Final = ("systems/feed/tests", "packages/greenlane/tests/hazards", "packages/greenlane-tools/tests")
#: About as long as each other.
_HOSTS: Final = ("packages/greenlane/tests/hosts", "packages/greenlane/tests/lanes", "tests/servers")
#: They mostly wait, or count what came of a load.
_WAITING: Final = (
    "systems/offers/tests",
    "systems/pos/tests",
    "packages/greenlane-serve/tests",
    "tests/system",
    "packages/greenlane-work/tests",
)
_PROGRAMS: Final = ("systems/feed/tests", "packages/greenlane-tools/tests", "packages/greenlane/tests/probes")
_SIDE_BY_SIDE: Final = (_PROGRAMS, _HOSTS, _WAITING)

#: kind -> what is run one after the other; what stands together is run side by side.
PLANS: Final[dict[str, tuple[tuple[Part, ...], ...]]] = {
    "fast": (
        (Part(_STEADY, without=_HALF), Part(_STEADY, paths=_HALF)),
        (Part(f"{_FAST} and measured"),),
    ),
    "system": (
        tuple(Part(_SYSTEM, paths=paths, options=_LONG) for paths in _SIDE_BY_SIDE),
        (Part(_SYSTEM, without=tuple(path for paths in _SIDE_BY_SIDE for path in paths), options=_LONG),),
    ),
}
_PYTEST: Final = (sys.executable, "-m", "pytest")
_WHOLE: Final = {"fast": (*_PYTEST, "-m", _FAST), "system": (*_PYTEST, "-m", _SYSTEM, *_LONG)}


def main(argv: Sequence[str]) -> int:
    """Run them; gives the exit code."""
    if not argv or argv[0] not in PLANS:
        print(f"run the tests: kind={argv[:1]}, expected one of {sorted(PLANS)}", file=sys.stderr)
        return 2
    kind, arguments = argv[0], argv[1:]
    if arguments:
        return subprocess.run([*_WHOLE[kind], *arguments], check=False).returncode
    return max([beside(parts) for parts in PLANS[kind]])


def beside(parts: Sequence[Part]) -> int:
    """Run them at the same time; gives the greatest exit code."""
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
    # A signal's is negative.
    return max(abs(code) for code in codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
