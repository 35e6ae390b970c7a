"""Readiness: `select`, `poll`, `epoll` and `selectors` end a phase unless their timeout is 0.

`select.poll` and `select.epoll` are C types that cannot be subclassed, so their names are bound to proxies that hold
one. What was made before still counts as an instance (`isinstance(earlier, select.epoll)`). The `selectors` classes
took their C types when they were defined and keep them: their own `select` method is wrapped.
"""

from __future__ import annotations

import select
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from greenlane import phase
from greenlane.phase import Kind
from greenlane.probes.patching import Patches
from greenlane.probes.wrapping import timed

__all__ = ["place", "place_selectors"]

_SELECT: Final = int(Kind.SELECT)


def place(patches: Patches, module: ModuleType) -> None:
    """Place the probes in `select`."""
    patches.replace(module, "select", _select)
    patches.replace(module, "poll", _poll_type)
    patches.replace(module, "epoll", _epoll_type)


def place_selectors(patches: Patches, module: ModuleType) -> None:
    """Place the probes in `selectors`."""
    for name in ("SelectSelector", "PollSelector", "EpollSelector"):
        # A selector does not wait when its timeout is negative; the C types below wait for ever.
        patches.replace(getattr(module, name), "select", timed(Kind.SELECT))


def _select(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    def wait(rlist: Any, wlist: Any, xlist: Any, timeout: Any = None, /) -> Any:
        if silent or timeout == 0:
            return original(rlist, wlist, xlist, timeout)
        try:
            phase.leave(_SELECT)
            return original(rlist, wlist, xlist, timeout)
        finally:
            phase.enter()

    return wait


class _Alike(type):
    """Lets the objects of the C type count as instances of the proxy that took its name."""

    original: Callable[..., Any]
    c_type: type

    def __instancecheck__(cls, instance: object) -> bool:
        return super().__instancecheck__(instance) or isinstance(instance, cls.c_type)


class _Proxy(metaclass=_Alike):
    """Holds one object of the C type; whatever is not defined below is that object's."""

    __slots__ = ("__weakref__", "_inner")
    original: Callable[..., Any]
    silent: list[bool]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._inner = type(self).original(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def _wait(self, timeout: float | None, *more: Any) -> Any:
        # Both C types take any negative timeout, like None, for "wait for ever".
        if self.silent or timeout == 0:
            return self._inner.poll(timeout, *more)
        try:
            phase.leave(_SELECT)
            return self._inner.poll(timeout, *more)
        finally:
            phase.enter()


class _Poll(_Proxy):
    __slots__ = ()

    def poll(self, timeout: float | None = None, /) -> Any:
        return self._wait(timeout)


class _Epoll(_Proxy):
    __slots__ = ()

    @classmethod
    def fromfd(cls, fd: int, /) -> _Epoll:
        """Hold an epoll made from a descriptor."""
        made = cls.__new__(cls)
        made._inner = cls.original.fromfd(fd)  # type: ignore[attr-defined]
        return made

    def poll(self, timeout: float | None = None, maxevents: int = -1) -> Any:
        return self._wait(timeout, maxevents)

    def __enter__(self) -> _Epoll:
        self._inner.__enter__()
        return self

    def __exit__(self, *exc: Any) -> Any:
        return self._inner.__exit__(*exc)


def _poll_type(original: Callable[..., Any], silent: list[bool]) -> type:
    # `select.poll` is a function; its type has no name of its own.
    return _named(_Poll, "poll", original, type(original()), silent)


def _epoll_type(original: type, silent: list[bool]) -> type:
    return _named(_Epoll, "epoll", original, original, silent)


def _named(proxy: type, name: str, original: Callable[..., Any], c_type: type, silent: list[bool]) -> type:
    body = {
        "__slots__": (),
        "__module__": select.__name__,
        "__qualname__": name,
        "__doc__": original.__doc__,
        "original": staticmethod(original),
        "c_type": c_type,
        "silent": silent,
    }
    return _Alike(name, (proxy,), body)
