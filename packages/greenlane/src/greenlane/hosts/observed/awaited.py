"""Starts the recording of an unchanged program when it may have something to record: with its first socket, or job.

A program that imports neither `socket` nor `greenlane.record` serves nobody and has no jobs. It loads no more of us
than this file. Nothing is replaced: the one finder in `sys.meta_path` goes when it has seen one of the two names.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # as `typing` has it, which every Python program would load for it

if TYPE_CHECKING:
    from typing import Any, Final

__all__ = ["start_when_needed"]

_NAMES: Final = ("socket", "greenlane.record")


def start_when_needed(folder: str) -> None:
    """Record into `folder`, once the program imports what a service needs."""
    if any(name in sys.modules for name in _NAMES):
        _start(folder)
    else:
        sys.meta_path.insert(0, _Awaited(folder))


class _Awaited:
    """Sees a name being imported, and starts the recording when that is through."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Let the others find it; see `importlib.abc.MetaPathFinder`."""
        if name not in _NAMES:
            return None
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        for finder in list(sys.meta_path):
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                self._follow(spec.loader)
                return spec
        return None

    def _follow(self, loader: Any) -> None:
        execute: Any = getattr(loader, "exec_module", None)

        def exec_module(module: Any) -> None:
            del loader.exec_module
            execute(module)
            _start(self._folder)

        if execute is not None:
            loader.exec_module = exec_module


def _start(folder: str) -> None:
    if not _is_main_interpreter():
        _say_skipped(folder, "subinterpreters are left alone, the main interpreter is recorded")
        return
    try:
        _load_wrapt(folder)
        from greenlane.hosts.observed import program

        why = program.start()
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
    if why:
        _say_skipped(folder, why)


def _is_main_interpreter() -> bool:
    import _thread

    if hasattr(_thread, "_is_main_interpreter"):  # CPython 3.12
        return bool(_thread._is_main_interpreter())
    import _xxsubinterpreters  # type: ignore[import-not-found]

    return bool(_xxsubinterpreters.get_current() == _xxsubinterpreters.get_main())


def _load_wrapt(folder: str) -> None:
    try:
        import wrapt
    except ImportError:
        with open(os.path.join(folder, "wrapt"), encoding="utf-8") as stream:
            root = stream.read()
        sys.path.insert(0, root)
        try:
            import wrapt  # noqa: F401
        finally:
            sys.path.remove(root)


def _say_skipped(folder: str, why: str) -> None:
    """Say why this program is not recorded: once a recording and reason; `greenlane record` repeats it at its end."""
    note = os.path.join(folder, "skipped-" + "".join(letter if letter.isalnum() else "-" for letter in why)[:100])
    try:
        with open(note, "x", encoding="utf-8") as stream:
            stream.write(why)
    except OSError:
        return
    os.write(2, f"greenlane record: {sys.executable} is not recorded: {why}\n".encode())
