"""One run in a process of its own that does not outlive us: what it left, or why it left nothing."""

from __future__ import annotations

import json
import os
import random
import tempfile
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from greenlane_tools.lab import processes
from greenlane_tools.lab.ending import checkpoint
from greenlane_tools.lab.environment import usable_cores

# --- Contenders take turns, so that none has the machine's good minutes alone.


Cell = TypeVar("Cell", bound=Hashable)
Run = TypeVar("Run")


def in_turns(
    cells: Sequence[Cell],
    run: Callable[[Cell], Run],
    *,
    repetitions: int = 1,
    seed: int = 1,
    block_of: Callable[[Cell], Hashable] = lambda cell: "",
    progress: Callable[[int, Cell], None] | None = None,
) -> dict[Cell, list[Run]]:
    """Runs by cell, one a repetition: each cell once a repetition, in another order each time.

    Args:
        seed: of the orders.
        block_of: cells of one block run close together; blocks keep their order.
        progress: called before each run with its number from 0.
    """
    found: dict[Cell, list[Run]] = {cell: [] for cell in cells}
    source, number = random.Random(seed), 0
    for _ in range(repetitions):
        for block in dict.fromkeys(map(block_of, cells)):
            order = [cell for cell in cells if block_of(cell) == block]
            source.shuffle(order)
            for cell in order:
                checkpoint()
                if progress is not None:
                    progress(number, cell)
                found[cell].append(run(cell))
                number += 1
    return found


_POLL_S: Final = 0.01


@dataclass(frozen=True)
class Ended:
    """What one process did."""

    # What it wrote, as JSON; None = nothing.
    result: Any
    # Why there is nothing; "" = there is something.
    failed: str
    # Cores that other processes used meanwhile, on average; grain 10 ms in all.
    others_cores: float


def ended(
    command: Callable[[Path, Path], tuple[Sequence[str], Mapping[str, str]]], limit_s: float, *, lasting: bool = False
) -> Ended:
    """Runs it until it ends. Whatever happens, Ctrl-C included, all its processes have ended afterwards.

    Args:
        command: from the run's own folder and the file of its result: argument vector, and what the environment gets.
        limit_s: a run that takes longer hangs or has no CPU.
        lasting: it is a server, and done once its result is there, which it writes in one step.
    """
    # A short name: Ray's sockets lie in this folder, and a socket's path has at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="gl-p-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        result, log = folder / "result.json", folder / "log"
        arguments, environment = command(folder, result)
        busy_ns, began_s = processes.machine_busy_ns() - processes.family_ns(), time.monotonic()
        with log.open("wb") as written:
            try:
                child = processes.Child(arguments, {**os.environ, **environment}, written, folder)
            except OSError as error:
                return Ended(None, f"not started ({error.strerror})", 0.0)
            try:
                while child.running() and not (lasting and result.exists()) and time.monotonic() < began_s + limit_s:
                    checkpoint()
                    time.sleep(_POLL_S)
                passed_s = time.monotonic() - began_s
                late = child.running() and passed_s >= limit_s
                others_ns = processes.machine_busy_ns() - processes.family_ns() - busy_ns
            finally:
                child.end()
        others = min(max(others_ns / 1e9 / passed_s, 0.0), usable_cores())
        if result.exists() and not late:
            return Ended(json.loads(result.read_text()), "", others)
        lines = log.read_text(errors="replace").strip().splitlines()
        said = f"; it said: {lines[-1]}" if lines else ""
        return Ended(None, f"{'it took too long' if late else 'it ended without a result'}{said}", others)
