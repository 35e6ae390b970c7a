"""What a worker is told first."""

from __future__ import annotations

import dataclasses
import os
import sys

__all__ = ["CHANNEL_FD", "FILES_FD", "START", "Start", "main_module"]

# Descriptors that a worker begins with.
CHANNEL_FD = 3
FILES_FD = 4
#: Of the messages' call ids, which count from 1: what concerns the worker's start.
START = 0


@dataclasses.dataclass(frozen=True)
class Start:
    """The first message, pickled. Five memory files come with it: control, arguments, results, crash, shared."""

    # Name of the function to call before the first call; "" = none.
    warm_up: str
    # Whether arguments may be written to.
    writable: bool
    # Largest result.
    most_bytes: int
    # The program's arguments, which its main module may look at.
    argv: tuple[str, ...]
    # How multiprocessing finds the program's main module again: key and value for its `prepare`; "" = there is none.
    main_key: str
    main_value: str


def main_module() -> tuple[str, str]:
    """Say how a worker finds `__main__` again, for `Start`; empty = it cannot.

    That of `-c`, of stdin or of a prompt lies nowhere; a package's `__main__.py` multiprocessing never imports again.
    """
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name:
        return ("", "") if spec.name.rpartition(".")[2] == "__main__" else ("init_main_from_name", spec.name)
    path = getattr(main, "__file__", None)
    if path is None or not os.path.exists(path):
        return "", ""
    return "init_main_from_path", os.path.abspath(path)
