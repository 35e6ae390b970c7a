"""Processes that pos consists of: each has a log file, and none outlives the process that started it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from greenlane_tools.lab.logged import Logged, StartFailed
from greenlane_tools.lab.processes import descendants, free_port

from .interpreter import environment

__all__ = ["Process", "StartFailed", "descendants", "free_port"]


class Process(Logged):
    """A child with pos on its import path. Start it from a thread that lives as long as it shall.

    Args:
        command: argument vector.
        log: file that its stdout and stderr are added to.
        added: variables added to its environment.
        cwd: its working directory; None = ours.
    """

    def __init__(
        self, command: Sequence[str], log: Path, added: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> None:
        super().__init__(command, log, {**environment(), **(added or {})}, cwd)
