"""Builds the Go programs on this machine, at their first need: `program("offerservice")` is the path of one.

`python -m offers.build` builds them now. All are built together into target/offers (CARGO_TARGET_DIR), by one
`go build`; what is newer than every source is left alone, so asking is cheap (about 1 ms). The first build fetches Go
modules by name.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, Final

from greenlane.errors import GreenlaneError

PROGRAMS: Final = ("offerservice", "pricing", "upstream")
SOURCES: Final = Path(__file__).resolve().parents[1] / "go"
_CHECKOUT: Final = Path(__file__).resolve().parents[3]
_ATTEMPTED: Final = f"build {', '.join(PROGRAMS)}"
_HINT: Final = "install Go: scripts/toolchain go names the command"
_HINT_OLD: Final = "scripts/toolchain go says whether Go is new enough; the first build fetches modules by name"


class BuildError(GreenlaneError):
    """The Go programs could not be built."""

    code: ClassVar[str] = "offers-build"
    exit_code: ClassVar[int] = 2


def program(name: str) -> Path:
    """Path of a program that is newer than its sources. Blocks for some seconds when it has to be built.

    Raises:
        BuildError: Go is missing, or it refused.
    """
    folder = _folder()
    if not _is_fresh(folder):
        with _alone(folder):
            if not _is_fresh(folder):
                _build(folder)
    return folder / name


def _folder() -> Path:
    return _CHECKOUT / os.environ.get("CARGO_TARGET_DIR", "target") / "offers"


def _is_fresh(folder: Path) -> bool:
    made = [folder / name for name in PROGRAMS]
    if not all(path.exists() for path in made):
        return False
    built_ns = min(path.stat().st_mtime_ns for path in made)
    sources = [*SOURCES.rglob("*.go"), SOURCES / "go.mod", SOURCES / "go.sum"]
    run = [path for path in sources if not path.name.endswith("_test.go")]
    return all(path.stat().st_mtime_ns <= built_ns for path in run if path.exists())


def _build(folder: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise BuildError(_ATTEMPTED, name="go", value="", rule="on PATH", hint=_HINT)
    sys.stderr.write("building offerservice, the Go twin and the Go upstreams …\n")
    packages = [f"./cmd/{name}" for name in PROGRAMS]
    # Into a folder of their own, then renamed one by one: a program that runs keeps its file.
    fresh = folder / "fresh"
    fresh.mkdir(exist_ok=True)
    command = [go, "build", "-buildvcs=false", "-o", f"{fresh}{os.sep}", *packages]
    done = subprocess.run(command, cwd=SOURCES, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).rstrip()
        rule = f"0; it said:\n{said}"
        raise BuildError(_ATTEMPTED, name="exit code of go", value=done.returncode, rule=rule, hint=_HINT_OLD)
    for name in PROGRAMS:
        made = fresh / name
        # go leaves what has not changed as old as it was.
        made.touch()
        made.replace(folder / name)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One build at a time, for all callers."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> int:
    """Builds them, and says where they are; gives the exit code."""
    try:
        for name in PROGRAMS:
            sys.stdout.write(f"{program(name)}\n")
    except BuildError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
