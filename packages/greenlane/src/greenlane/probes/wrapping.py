"""How a driver's blocking call becomes the end of a phase: the wrappers of Python functions. The shape:

    if silent or not <can it block>:
        return original(...)
    try:
        phase.leave(kind)
        return original(...)
    finally:
        phase.enter()

`leave` stands inside the `try` so that a KeyboardInterrupt which arrives on its way out still meets `enter`; when
`leave` itself raises (a late job that asked for it), `enter` finds nothing to end. `silent` is the ledger's switch
(`patching.Patches.silent`). The outermost pair counts, so a wrapper may call another one.

Cost, beyond the original call and the subscriber's two (CPython 3.11-3.13, `python -m tests.probes.cost`, least of
many runs): `always` 0.2-0.3 us; a call that ends no phase 0.07-0.2.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

from greenlane import phase
from greenlane.phase import Kind

if TYPE_CHECKING:
    _Static: TypeAlias = staticmethod[..., Any]
else:
    _Static = staticmethod

__all__ = ["Make", "always", "dress", "when"]

#: Makes the replacement of an original: gets the original and the ledger's `silent` switch.
Make: TypeAlias = Callable[[Any, list[bool]], Any]


def always(kind: Kind) -> Make:
    """Make a wrapper for a call that is taken to block each time."""
    number = int(kind)

    def make(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if silent:
                return original(*args, **kwargs)
            try:
                phase.leave(number)
                return original(*args, **kwargs)
            finally:
                phase.enter()

        return wrapper

    return make


def when(kind: Kind, blocks: Callable[..., object]) -> Make:
    """Make a wrapper for a call that can block only if `blocks(<the same arguments>)` says so.

    `blocks` has the parameters of the original. If it raises, the arguments are wrong, and the original is left to say
    so in its own words.
    """
    number = int(kind)

    def make(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if silent:
                return original(*args, **kwargs)
            try:
                waits = blocks(*args, **kwargs)
            except Exception:
                waits = False
            if not waits:
                return original(*args, **kwargs)
            try:
                phase.leave(number)
                return original(*args, **kwargs)
            finally:
                phase.enter()

        return wrapper

    return make


def dress(wrapper: Callable[..., Any], original: Any, owner: Any) -> Any:
    """Give `wrapper` the original's name, docstring, signature and way of binding.

    `owner` is the module or class it will stand in: pickle finds a function by that path. A C function is not a
    descriptor, so a class body may hold it and call it without `self` (`selectors.SelectSelector._select`); its
    replacement keeps that.
    """
    functools.update_wrapper(wrapper, original)
    wrapper.__module__ = owner.__name__ if isinstance(owner, ModuleType) else owner.__module__
    return wrapper if hasattr(type(original), "__get__") else _Unbound(wrapper)


class _Unbound(_Static):
    """A function that a class body or an instance can hold without it becoming a method; pickled by its name."""

    def __reduce__(self) -> str:
        return self.__qualname__
