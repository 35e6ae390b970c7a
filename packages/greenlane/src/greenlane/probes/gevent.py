"""What a gevent program does, for the recording: its greenlets are units, its hub is their loop.

The methods of gevent's own classes lead to us, natively, when gevent is imported or if it already is; monkey-patched or
not, with or without a hub, for libev's and libuv's loops, in every thread that has a hub. The methods stay the objects
that they are. What gevent's compiled code calls within itself is not seen. Nothing is placed in a process that
never imports gevent. The switches of a thread are followed from its hub's first wait or callback on.

Why not a loop or hub class of our own (`GEVENT_LOOP`): the hub of the main thread usually exists when we come, and the
program may have its own.

Cost: `python -m bench.costs` prints what a switch costs more; the target is 250 ns.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from greenlane._native import Recorder, Switches, calls_rescan
from greenlane.phase import Kind
from greenlane.probes.patching import Patches

__all__ = ["absent", "install", "installed", "uninstall"]

#: module -> class -> method -> what a wait in it is.
_WAITS: Final[dict[str, dict[str, dict[str, Kind]]]] = {
    "gevent.lock": {
        "Semaphore": {"acquire": Kind.LOCK, "__enter__": Kind.LOCK, "wait": Kind.LOCK},
        "RLock": {"acquire": Kind.LOCK, "__enter__": Kind.LOCK},
    },
    "gevent.event": {
        "Event": {"wait": Kind.LOCK},
        "AsyncResult": {"get": Kind.FUTURE, "wait": Kind.FUTURE, "result": Kind.FUTURE},
    },
    "gevent.queue": {
        "SimpleQueue": {"get": Kind.QUEUE, "put": Kind.QUEUE, "peek": Kind.QUEUE},
        "Queue": {"join": Kind.QUEUE},
        "JoinableQueue": {"join": Kind.QUEUE},
        "Channel": {"get": Kind.QUEUE, "put": Kind.QUEUE},
    },
    "gevent.greenlet": {"Greenlet": {"join": Kind.FUTURE, "get": Kind.FUTURE}},
    "gevent.pool": {
        "Group": {"join": Kind.FUTURE},
        "Pool": {"add": Kind.LOCK, "start": Kind.LOCK, "wait_available": Kind.LOCK},
        "GroupMappingMixin": {"map": Kind.FUTURE, "apply": Kind.FUTURE},
    },
    "gevent.threadpool": {"ThreadPool": {"join": Kind.FUTURE}},
    "gevent.select": {"SelectResult": {"select": Kind.SELECT}, "poll": {"poll": Kind.SELECT}},
    "gevent.subprocess": {"Popen": {"wait": Kind.PROCESS, "communicate": Kind.PROCESS}},
    # Ours: what a greenlet waits for in `greenlane.run`.
    "greenlane.placement.on_hub": {"Waker": {"wait": Kind.FUTURE}},
    "gevent.resolver.thread": {
        "Resolver": dict.fromkeys(
            ("gethostbyname", "gethostbyname_ex", "getaddrinfo", "gethostbyaddr", "getnameinfo"), Kind.DNS
        )
    },
    "gevent.resolver": {
        "AbstractResolver": dict.fromkeys(
            ("gethostbyname", "gethostbyname_ex", "getaddrinfo", "gethostbyaddr", "getnameinfo"), Kind.DNS
        )
    },
}
#: module -> class -> method -> what it tells.
_ROLES: Final[dict[str, dict[str, dict[str, str]]]] = {
    "gevent.libev.corecext": {"loop": {"run_callback": "run_callback"}},
    "gevent._ffi.loop": {"AbstractLoop": {"run_callback": "run_callback"}},
    "gevent.hub": {"WaitOperationsGreenlet": {"wait": "hub_wait"}},
    "gevent.timeout": {"Timeout": {"_on_expiration": "expires"}},
    "gevent.threadpool": {"ThreadResult": {"_on_async": "thread_result"}},
}
#: Modules that take the place of another one when they are compiled: that one has their name then.
_COMPILED: Final = {
    "gevent._gevent_cevent": "gevent.event",
    "gevent._gevent_cgreenlet": "gevent.greenlet",
    "gevent._gevent_cqueue": "gevent.queue",
}


def install() -> None:
    """Follow the greenlets of this process from now on. Idempotent; nothing happens until gevent is imported."""
    _patches.install()


def uninstall() -> None:
    """Put everything back. Threads that wait in their hub take their trace off at their next switch. Idempotent."""
    if not _patches.installed:
        return
    _patches.uninstall()
    if "gevent.hub" in sys.modules:
        Switches.uninstall()


def installed() -> bool:
    """Whether the probe is in place, or will be when gevent is imported."""
    return _patches.installed


def absent() -> tuple[str, ...]:
    """Names that the probe asks for and that the imported gevent does not have: what to look at after an upgrade."""
    return _patches.absent()


def _place(patches: Patches, module: ModuleType) -> None:
    name = _COMPILED.get(module.__name__, module.__name__)
    for owner, waits in _WAITS.get(name, {}).items():
        for method, kind in waits.items():
            _lead(patches, module, owner, method, "waits", int(kind))
    for owner, roles in _ROLES.get(name, {}).items():
        for method, role in roles.items():
            _lead(patches, module, owner, method, role)
    if name == "gevent.hub":
        _follow(patches, module)
    elif name == "gevent.threadpool":
        patches.replace(module.ThreadPool, "spawn", _spawn)
        patches.replace(module.ThreadResult, "set", _see_result)
        patches.replace(module.ThreadResult, "handle_error", _see_result)


def _lead(patches: Patches, module: ModuleType, owner: str, method: str, role: str, kind: int = 0) -> None:
    found = getattr(module, owner, None)
    # An alias stands for its class (`JoinableQueue` is `Queue`); what is inherited is seen in the class that has it.
    if isinstance(found, type) and method in vars(found):
        patches.replace(found, method, functools.partial(_probe_call, method, role, kind, f"{found.__name__}.{method}"))


def _probe_call(method: str, role: str, kind: int, call: str, original: Any, _silent: list[bool]) -> Any:
    return Switches.lead(method, original, role, kind, call)


def _follow(patches: Patches, module: ModuleType) -> None:
    Switches.install(module.Hub)
    # The loop came with a library that calls the C library itself.
    calls_rescan()
    patches.replace(module.Hub, "__init__", _see_new_hub)
    if sys.modules["gevent._hub_local"].get_hub_if_exists() is not None:
        Switches.watch()


def _see_new_hub(original: Callable[..., None], silent: list[bool]) -> Callable[..., None]:
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if not silent:
            calls_rescan()
            Switches.watch()

    return init


def _spawn(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    original = _probe_call("spawn", "waits", int(Kind.LOCK), "ThreadPool.spawn", original, silent)

    def spawn(self: Any, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        job = 0 if silent else _recorder.job()
        if not job:
            return original(self, func, *args, **kwargs)
        return original(self, _Placed(func, job), *args, **kwargs)

    return spawn


class _Placed:
    """A function that a worker thread runs for the job that placed it."""

    __slots__ = ("_func", "_job")

    def __init__(self, func: Callable[..., Any], job: int) -> None:
        self._func = func
        self._job = job

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        before = _recorder.attach(self._job)
        try:
            return self._func(*args, **kwargs)
        finally:
            _recorder.attach(before)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._func, name)

    def __repr__(self) -> str:
        return repr(self._func)


def _see_result(original: Callable[..., None], silent: list[bool]) -> Callable[..., None]:
    def finish(self: Any, *args: Any) -> None:
        if not silent:
            Switches.finish(self)
        original(self, *args)

    return finish


_recorder: Final = Recorder()
_patches: Final = Patches(dict.fromkeys({*_WAITS, *_ROLES, *_COMPILED}, _place))
