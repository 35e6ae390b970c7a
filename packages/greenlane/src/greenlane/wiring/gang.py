"""Threads that run jobs keep to one core while that pays, so that the GIL is handed on where it was released (`cores`).

Which core, and whether any, is decided in `crates/permits/src/gang` (docs/design/0030-one-core.md). Here is what nobody
else may notice: threads and programs that such a thread starts use all cores, and who counts them is told all.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Final

from greenlane import _native
from greenlane.policy.cores import cpu_quota
from greenlane.probes.patching import Patches
from greenlane.settings import Settings

__all__ = ["cores", "refusal", "shown", "start", "stop"]

#: Module -> its C functions, by the rules of `_native.gang_see`. Not every version has each.
_SEEN: Final[Mapping[str, Mapping[str, str]]] = {
    "posix": dict.fromkeys(("posix_spawn", "posix_spawnp", "system", "execv", "execve"), "starts")
    | {"sched_getaffinity": "asks", "sched_setaffinity": "chooses"},
    "_posixsubprocess": {"fork_exec": "starts"},
    "_thread": dict.fromkeys(("start_new_thread", "start_new", "start_joinable_thread"), "starts"),
}

_why = ""


def start(settings: Settings, mode: str) -> None:
    """Let threads that run jobs keep to one core, if `cores` says so and it can help, or end that. Idempotent."""
    global _why
    _why = refusal(settings) or ("" if mode == "on" else f"mode {mode}")
    if _why:
        _patches.uninstall()
        _native.gang_stop(watch=True)
    else:
        _patches.install()
        cache = Path(settings.control_dir, "hand-over") if settings.control_dir else None
        _native.gang_start(cores(), settings.cores == "one", cache)


def stop() -> None:
    """Let every thread use all cores again, and put everything back. Idempotent. Waits some ms for our thread's end."""
    global _why
    _why = "mode off"
    _patches.uninstall()
    _native.gang_stop()


def shown() -> dict[str, object]:
    """Give the field `gang` of a control socket's answer."""
    core, why = _native.gang_shown()
    cost = _native.hand_over(None, [])
    return {
        "core": core,
        "why": "" if core is not None else _why or why or "too few threads have run a job",
        "one_core_us": round(cost[0] / 1000, 1) if cost else None,
        "two_cores_us": round(cost[1] / 1000, 1) if cost else None,
    }


def refusal(settings: Settings) -> str:
    """Say why there is never one; "" = there may be one."""
    if settings.cores == "all":
        return "cores = all"
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return "there is no GIL to hand on"
    if len(os.sched_getaffinity(0)) == 1:
        return "one core to use"
    return "a CPU quota under two cores" if cpu_quota() < 2 else ""


def cores() -> list[int]:
    """Give those of the process, in the order in which equal ones are preferred: workers begin with different ones."""
    all_cores = sorted(os.sched_getaffinity(0))
    # Other containers' workers have a namespace of their own.
    first = (os.getpid() + os.stat("/proc/self/ns/pid").st_ino) % len(all_cores)
    return all_cores[first:] + all_cores[:first]


def _place(name: str, _patches: Patches, module: ModuleType) -> None:
    for function, rule in _SEEN[name].items():
        with contextlib.suppress(AttributeError, ValueError):  # not in this version; it is seen by the recorder
            _native.gang_see(getattr(module, function), rule)


_patches: Final = Patches({name: partial(_place, name) for name in _SEEN})
