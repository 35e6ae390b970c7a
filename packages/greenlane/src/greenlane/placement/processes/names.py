"""Functions cross to a worker by the name that imports them.

`module:qualified.name:depth`: `depth` counts the decorators to go through (`__wrapped__`), so a function that is known
to its module by its decorated form runs bare in the worker. Other callables (partials, methods, instances of classes
with `__call__`) are pickled with the arguments.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
import types
from collections.abc import Callable
from typing import Any, Final

from greenlane.errors import PlacementError

__all__ = ["found", "imported", "main_module", "name_of", "shipped"]

# Arbitrary: decorators stacked deeper than this are a loop.
_DEEPEST: Final = 32
_HINT: Final = "define it at the top of a module and hand what it closes over as arguments"


def shipped(fn: Callable[..., Any]) -> object:
    """What stands for `fn` in a message: its name, or itself where it has none.

    Raises:
        PlacementError: it is a closure, a lambda or a function that its module does not know.
    """
    return name_of(fn) if isinstance(fn, types.FunctionType) else fn


@functools.lru_cache(maxsize=1024)
def name_of(fn: Callable[..., Any]) -> str:
    """Give the name of a function. Raises PlacementError if it has none that imports it."""
    if fn.__module__ == "__main__" and not main_module()[0]:
        raise _refusal(fn, "one of a module that a worker can import, not of -c, a prompt or a package's __main__.py")
    if "<" in fn.__qualname__:
        raise _refusal(fn, "a function that can be imported, not a closure or lambda")
    try:
        at: Any = _walk(sys.modules[fn.__module__], fn.__qualname__)
    except (KeyError, AttributeError):
        raise _refusal(fn, f"a name that {fn.__module__} has") from None
    for depth in range(_DEEPEST):
        if at is fn:
            return f"{fn.__module__}:{fn.__qualname__}:{depth}"
        at = getattr(at, "__wrapped__", None)
    raise _refusal(fn, f"the function that {fn.__module__} has by this name")


@functools.lru_cache(maxsize=1024)
def found(name: str) -> Callable[..., Any]:
    """Import what `shipped` named. Raises what the import raises."""
    module, qualified, depth = name.split(":")
    at: Any = _walk(importlib.import_module(module), qualified)
    for _ in range(int(depth)):
        at = at.__wrapped__
    function: Callable[..., Any] = at
    return function


def imported(name: str) -> None:
    """Import it before its first call; "" = what was pickled brings its module."""
    if name:
        found(name)


def main_module() -> tuple[str, str]:
    """Say how a worker finds `__main__` again; empty = it cannot.

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


def _walk(at: Any, qualified: str) -> Any:
    for part in qualified.split("."):
        at = getattr(at, part)
    return at


def _refusal(fn: Callable[..., Any], rule: str) -> PlacementError:
    name = f"{fn.__module__}.{fn.__qualname__}"
    return PlacementError("send a function to a worker process", name="function", value=name, rule=rule, hint=_HINT)
