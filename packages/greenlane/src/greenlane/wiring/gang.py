"""The gang: threads that run jobs keep to one core, so that the GIL is handed on where it was released (`cores`).

Waking a thread on another, idle core takes some 0.1 ms on a virtual machine, in which nobody computes
(docs/design/0030-one-core.md). Which core, and whether any, is decided in `crates/permits/src/gang`. Here is what
nobody else may notice: threads and programs that a member starts use all cores, and who asks is told all.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from types import ModuleType
from typing import Any, Final

from greenlane import _native
from greenlane.policy.cores import has_quota
from greenlane.probes.patching import Patches
from greenlane.settings import Settings

__all__ = ["join", "measured", "refusal", "shown", "start", "stop"]

#: Module -> its C functions that are seen, by the rules of `_native.gang_see`. Not every version has each.
_SEEN: Final[Mapping[str, Mapping[str, str]]] = {
    "posix": {
        "sched_getaffinity": "asked",
        "sched_setaffinity": "chosen",
        "posix_spawn": "freely",
        "posix_spawnp": "freely",
        "system": "freely",
    },
    "_posixsubprocess": {"fork_exec": "freely"},
    "_thread": {"start_new_thread": "freely", "start_new": "freely", "start_joinable_thread": "freely"},
    "_ctypes": {"dlopen": "freely"},
}

_WAITS: Final = "too few threads have run a job"
_why = _WAITS


def start(settings: Settings) -> None:
    """Let threads that run jobs from now on keep to one core, if `cores` says so and it can help. Idempotent.

    Takes some 0.2 ms. What a hand-over costs is measured by our thread, with the first job, unless it is known.
    """
    global _why
    refused = refusal(settings.cores)
    _why = refused or _WAITS
    if not refused:
        _patches.install()
        _native.gang_start(_cores(), settings.cores == "one")


def stop(why: str) -> None:
    """Let every thread use all cores again, and put everything back. Idempotent. Waits some ms for our thread's end."""
    global _why
    _why = why
    _native.gang_stop()
    _native.gang_put_back()
    _patches.uninstall()


def join() -> None:
    """Let the calling thread be one of them: it hands requests to those that run jobs."""
    _native.gang_join()


def measured() -> tuple[int, int, bool] | None:
    """Give what a hand-over costs on one core and on two (ns), and whether one core pays; None: there are no two.

    Measured once a process, which takes some 70 ms without the GIL; forked children know it.
    """
    return _native.gang_measure(_cores())


def shown() -> dict[str, object]:
    """Give the field `gang` of a control socket's answer."""
    core, why, cost = _native.gang_shown()
    return {
        "core": core,
        "why": "" if core is not None else why or _why,
        "one_core_us": round(cost[0] / 1000, 1) if cost else None,
        "two_cores_us": round(cost[1] / 1000, 1) if cost else None,
    }


def refusal(cores: str) -> str:
    """Say why there is never one; "" = there may be one."""
    if cores == "all":
        return "cores = all"
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return "there is no GIL to hand on"
    if len(os.sched_getaffinity(0)) == 1:
        return "one core to use"
    return "a CPU quota" if has_quota() else ""


def _cores() -> list[int]:
    """Give those of the process, in the order in which equal ones are preferred: workers begin with different ones."""
    cores = sorted(os.sched_getaffinity(0))
    # Other containers' workers have a namespace of their own.
    first = (os.getpid() + os.stat("/proc/self/ns/pid").st_ino) % len(cores)
    return cores[first:] + cores[:first]


def _place(name: str, patches: Patches, module: ModuleType) -> None:
    for function, rule in _SEEN[name].items():
        with contextlib.suppress(AttributeError, ValueError):  # not in this version; somebody has replaced it
            _native.gang_see(getattr(module, function), rule)


def _freely(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    def loads(*args: Any) -> Any:
        return original(*args) if silent else _native.gang_freely(original, *args)

    return loads


def _imports(patches: Patches, module: ModuleType) -> None:
    # A library that is loaded counts the cores, and starts threads.
    for name in ("create_module", "exec_module"):
        patches.replace(module.ExtensionFileLoader, name, _freely)


_patches: Final = Patches(
    {**{name: partial(_place, name) for name in _SEEN}, "_frozen_importlib_external": _imports},
)
