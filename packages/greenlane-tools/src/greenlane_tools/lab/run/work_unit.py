"""How many iterations of a service's own loop make one millisecond of CPU, measured once per run.

Why not wall clock in the service: "compute until 40 ms have passed" gives a starved contender less to do, and so
flatters the one that waits most. Iterations are the same work for everybody.

    python -m greenlane_tools.lab.run.work_unit FILE FUNCTION [ROUNDS]       prints the number

It is a program of its own: what the file imports must not be imported by the lab.
"""

from __future__ import annotations

import importlib.util
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from greenlane.errors import HostError
from greenlane_tools.lab.run.server import child_environment

# Long against the clock's grain and short enough that most rounds see no other process.
_ROUND_ITERATIONS: Final = 100_000
ROUNDS: Final = 25


def iterations_per_ms(work: str, folder: Path, rounds: int = ROUNDS) -> int:
    """Iterations of `work` (FILE:FUNCTION in `folder`) in one millisecond of a thread's CPU time.

    The median of `rounds` (25: about 0.2 s in all) of 100,000 iterations each, on this interpreter, after one round
    that lets the interpreter specialise the loop.

    Raises:
        HostError: the file cannot be imported, or has no such function.
    """
    file, _, function = work.partition(":")
    command = [sys.executable, "-m", "greenlane_tools.lab.run.work_unit", str(folder / file), function, str(rounds)]
    done = subprocess.run(command, cwd=folder, env=child_environment(), capture_output=True, text=True)
    if done.returncode:
        said = done.stderr.strip().splitlines()[-1:] or ["nothing"]
        rule, hint = f"a function that can be called ({said[0]})", f"try it: {' '.join(command)}"
        raise HostError("calibrate the work", name="work", value=work, rule=rule, hint=hint)
    return int(done.stdout)


def cpu_ms(call: Callable[[], object], rounds: int) -> float:
    """The median CPU time of one call on this thread, in milliseconds; it is called once more than `rounds`."""
    call()
    return statistics.median(_one_ms(call) for _ in range(rounds))


def _one_ms(call: Callable[[], object]) -> float:
    began_ns = time.thread_time_ns()
    call()
    return (time.thread_time_ns() - began_ns) / 1e6


def main(argv: list[str]) -> int:
    """Prints the number."""
    file, function, rounds = argv[0], argv[1], int(argv[2]) if len(argv) > 2 else ROUNDS
    found = importlib.util.spec_from_file_location("work", file)
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    burn = getattr(module, function)
    per_call_ms = cpu_ms(lambda: burn(_ROUND_ITERATIONS), rounds)
    os.write(1, f"{max(1, round(_ROUND_ITERATIONS / per_call_ms))}\n".encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
