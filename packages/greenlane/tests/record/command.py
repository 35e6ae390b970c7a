"""`greenlane record` as people run it: a process of its own, in an empty folder, without settings from outside."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from greenlane_tools.reader import Recording, open_recording

GREENLANE = (sys.executable, "-c", "import sys; from greenlane.cli.main import main; sys.exit(main())")

#: Of a program that works off jobs: each is one line of output.
JOBS = """
import sys, time
import greenlane.record

def work(name="work", times=3, seconds=0.005):
    for _ in range(times):
        with greenlane.record.job(name):
            time.sleep(seconds)
"""


def environment(**more: str) -> dict[str, str]:
    """This process's environment without Greenlane's variables."""
    return {**{name: value for name, value in os.environ.items() if not name.startswith("GREENLANE_")}, **more}


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


def greenlane(*argv: str | Path, cwd: Path, env: dict[str, str] | None = None, timeout_s: float = 40) -> Ended:
    """Runs `greenlane …` to its end."""
    done = subprocess.run(
        [*GREENLANE, *map(str, argv)],
        cwd=cwd,
        env=environment() if env is None else env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def record(source: str, *options: str, cwd: Path, argv: Sequence[str] = (), env: dict[str, str] | None = None) -> Ended:
    """Records `source`, run by this interpreter, into r.glr."""
    command = (sys.executable, "-c", JOBS + source, *argv)
    return greenlane("record", "-o", "r.glr", *options, "--", *command, cwd=cwd, env=env)


def recorded(folder: Path, name: str = "r.glr") -> Recording:
    """What stands in the folder's recording."""
    return open_recording(folder / name)


def routes(recording: Recording) -> dict[str, int]:
    """How many jobs of each route there are."""
    found: dict[str, int] = {}
    for job in recording.jobs:
        found[job.route] = found.get(job.route, 0) + 1
    return found
