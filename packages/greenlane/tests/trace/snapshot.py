"""Everything of a process that Greenlane might change, and the difference of two such looks.

Loaded into the process under test before anything of Greenlane, so it imports none of our code but the native look at
the objects' slots, which is optional. Objects are compared by identity and kept alive, so no address is used again.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import atexit
import contextlib
import ctypes
import fcntl
import functools
import gc
import logging
import os
import re
import signal
import sys
import threading
import types
import warnings
from collections import Counter

OURS = ("greenlane", "greenlane_work", "greenlane_serve", "greenlane_tools")
_TESTS = ("tests", "greenlane_testing", "__main__", "__mp_main__", "_trace_snapshot", "sitecustomize")
_WORD = ctypes.sizeof(ctypes.c_void_p)
_HEAD = object.__basicsize__
# libuv keeps their addresses in a table of its own, and uvloop puts others there.
_ALLOCATORS = ("malloc", "calloc", "realloc", "free")
# Of a PyTypeObject, in words after its PyVarObject head: the slots that a patch in C would change.
_TYPE_SLOTS = {"dealloc": 4, "repr": 9, "hash": 13, "call": 14, "str": 15, "getattro": 16, "setattro": 17, "iter": 25}
_TYPE_SLOTS |= {"iternext": 26, "methods": 27, "descr_get": 32, "descr_set": 33, "init": 35, "alloc": 36, "new": 37}
_PLAIN = (int, float, complex, str, bytes, bool, type(None), tuple, frozenset)
# Attributes that Python itself writes.
_LIVE = frozenset(
    {"__builtins__", "__warningregistry__", "__annotations__", "__abstractmethods__", "_abc_impl", "__cached__"}
)
# Caches of the current second: whether they change between two looks is chance.
_SECONDS = frozenset(
    {"attribute aiohttp.helpers._cached_current_datetime", "attribute aiohttp.helpers._cached_formatted_datetime"}
)

#: Hooks that Python gives no list of; appended to by `note_hooks`.
_noted: dict[str, list[object]] = {"fork hook": [], "audit hook": [], "exit hook": []}


def note_hooks():
    """From now on count hooks that cannot be asked for. Call it first of all."""

    def noting(module, name, kind):
        register = getattr(module, name)

        def noted(*arguments, **named):
            _noted[kind] += [each for each in (*arguments, *named.values()) if callable(each)]
            return register(*arguments, **named)

        setattr(module, name, noted)

    noting(os, "register_at_fork", "fork hook")
    noting(atexit, "register", "exit hook")
    noting(sys, "addaudithook", "audit hook")
    unregister = atexit.unregister

    def forget(function):
        _noted["exit hook"][:] = [each for each in _noted["exit hook"] if each != function]
        unregister(function)

    atexit.unregister = forget


@functools.cache
def slots():
    """Give the native look at the objects' slots; None: it is not built. Loaded by then, it is no change."""
    try:
        from greenlane_testing import _native
    except ImportError:
        return None
    return _native.slots


def look(slots=None):
    """Name -> what is there now.

    Args:
        slots: `greenlane_testing._native.slots`; None = the loaded objects are not looked at.
    """
    gc.collect()
    found = {}
    seen = set()
    for name, module in sorted(sys.modules.items()):
        if isinstance(module, types.ModuleType) and not _is_ours(name):
            found[f"module {name}"] = True
            _look_at(name, vars(module), found, seen)
    found.update(_process())
    found.update(_interpreter())
    if slots is not None:
        for owner, function, _, holds in slots():
            if function in _ALLOCATORS:
                continue
            found[f"slot {owner}:{function} {_}"] = holds
    return found


def difference(before, after):
    """Name -> (before, after) in words, of what differs: the outermost name of what has changed."""
    modules = {name[7:] for name in after if name.startswith("module ") and name not in before}
    changed = {}
    for name in (before.keys() | after.keys()) - _SECONDS:
        was, now = before.get(name, _ABSENT), after.get(name, _ABSENT)
        if was is now or (type(was) is type(now) and isinstance(was, (*_PLAIN, dict, list)) and _equal(was, now)):
            continue
        if was is _ABSENT and (isinstance(now, types.ModuleType) or _is_of_new_module(name, modules)):
            continue
        changed[name] = (_said(was), _said(now))
    paths = {name.partition(" ")[2].partition(":")[0] for name in changed if name.startswith("attribute ")}
    return {_title(name): said for name, said in sorted(changed.items()) if not _is_within(name, paths)}


def _is_within(name, paths):
    """Whether a name of code is below another one that has changed, or says again that it has."""
    kind, _, path = name.partition(" ")
    if kind not in ("attribute", "code", "native"):
        return False
    path = path.partition(":")[0]
    if kind != "attribute" and path in paths:
        return True
    parts = path.split(".")
    return any(".".join(parts[:length]) in paths for length in range(1, len(parts)))


def of_ours(found):
    """Names of what is made by our code, or leads into our native modules: also in modules that came later."""
    folders = tuple(
        os.path.dirname(path) + os.sep
        for path in (getattr(sys.modules.get(name), "__file__", None) for name in OURS)
        if path
    )
    ranges = _native_ranges()
    names = []
    for name, value in found.items():
        if isinstance(value, int) and name.startswith(("slot ", "native ")):
            own = name.startswith("slot _native")
            if not own and any(start <= value < end for start, end in ranges):
                names.append(_title(name))
        elif name.startswith("code ") and value.co_filename.startswith(folders or ("?",)):
            names.append(name.replace("code ", "attribute "))
        elif name.startswith("code ") and _CALLS in value.co_varnames:
            names.append(name)
        elif name.startswith("attribute ") and str(type(value).__module__).partition(".")[0] in OURS:
            names.append(name)
    return sorted(set(names))


#: Of `greenlane.probes.bodies`: a function's code that leads to us has this variable.
_CALLS = "greenlane_calls"
_ABSENT = object()


def _is_ours(name):
    return name.partition(".")[0] in (*OURS, *_TESTS)


def _is_of_new_module(name, modules):
    kind, _, path = name.partition(" ")
    if kind in ("slot", "module"):
        return True
    parts = path.partition(":")[0].split(".") if kind in ("attribute", "code", "native") else []
    return any(".".join(parts[:length]) in modules for length in range(1, len(parts)))


def _title(name):
    """A slot by its function's name alone; the rest as it is."""
    return f"slot {name.rpartition(' ')[0].rpartition(':')[2]}" if name.startswith("slot ") else name


def _equal(was, now):
    try:
        return bool(was == now)
    except Exception:
        return False


def _said(value):
    if value is _ABSENT:
        return "absent"
    if isinstance(value, types.FunctionType):
        return f"function {value.__qualname__} of {value.__code__.co_filename}:{value.__code__.co_firstlineno}"
    text = repr(value) if isinstance(value, (*_PLAIN, dict, list)) else object.__repr__(value)
    return text[:300]


def _look_at(path, names, found, seen):
    for name, value in list(names.items()):
        if name in _LIVE:
            continue
        here = f"{path}.{name}"
        found[f"attribute {here}"] = value
        function = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
        if isinstance(function, types.FunctionType):
            found[f"code {here}"] = function.__code__
        elif _kind_of(function) in _NATIVE:
            found.update(_native(here, function))
        elif isinstance(value, type) and id(value) not in seen:
            seen.add(id(value))
            module = type.__dict__["__module__"].__get__(value)
            home = f"{module}.{value.__qualname__}" if isinstance(module, str) else here
            if not _is_ours(home):
                for slot, index in _TYPE_SLOTS.items():
                    found[f"native {home}:tp_{slot}"] = _word(id(value) + _HEAD + _WORD * index)
                _look_at(home, vars(value), found, seen)


_NATIVE = {
    "builtin_function_or_method": (0, 4),  # PyCFunctionObject: m_ml, vectorcall
    "cython_function_or_method": (0, 4),  # likewise; one type a version of Cython
    "method_descriptor": (3, 4),  # PyMethodDescrObject: d_method, vectorcall
}


def _kind_of(function):
    return type(function).__name__


def _native(here, function):
    table, vectorcall = _NATIVE[_kind_of(function)]
    definition = _word(id(function) + _HEAD + _WORD * table)
    yield f"native {here}:definition", definition
    yield f"native {here}:ml_meth", _word(definition + _WORD)
    yield f"native {here}:vectorcall", _word(id(function) + _HEAD + _WORD * vectorcall)


def _word(address):
    return ctypes.c_size_t.from_address(address).value


def _native_ranges():
    """Where our native modules are."""
    ranges = []
    ours = {getattr(sys.modules.get(f"{name}._native"), "__file__", None) for name in OURS} - {None}
    with open("/proc/self/maps") as maps:
        for line in maps:
            fields = line.split(None, 5)
            if len(fields) == 6 and fields[5].strip() in ours:
                start, _, end = fields[0].partition("-")
                ranges.append((int(start, 16), int(end, 16)))
    return ranges


def _process():
    descriptors = Counter()
    # What tells other workers that threads of this one keep to a core: whether they do yet is chance.
    with open("/proc/net/unix") as unix:
        claims = {f"socket:[{line.split()[6]}]" for line in unix if "@greenlane-core-" in line}
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            target = os.readlink(f"/proc/self/fd/{number}")
            # Open for the moment of reading them, by the recorder as it looks for listeners: chance, too.
            if target in claims or re.match(r"/proc/.*/net/", target):
                continue
            what = re.sub(r"[0-9a-f-]*[0-9][0-9a-f-]*", "N", target.rpartition("/")[2])
            what = "a temporary file" if what.startswith(("wgunicorn", "greenlan")) else what
            closed = bool(fcntl.fcntl(int(number), fcntl.F_GETFD) & fcntl.FD_CLOEXEC)
            descriptors[f"{what}{'' if closed else ', inherited by children'}"] += 1
    for what, number in descriptors.items():
        yield f"descriptor {what}", number
    threads, masks = Counter(), Counter()
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):
            text = open(f"/proc/self/task/{task}/status").read()
            fields = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
            threads[fields["Name"]] += 1
            masks[fields["Name"], fields["SigBlk"]] += 1
            if int(task) == os.getpid():
                # Without the two that glibc itself takes at the first thread.
                masks_ = (int(fields[name], 16) & ~0x180000000 for name in ("SigBlk", "SigIgn", "SigCgt"))
                yield "signals main thread", tuple(masks_)
    for name, number in threads.items():
        yield f"native thread {name}", number
    for (name, mask), number in masks.items():
        yield f"signal mask {name} {mask}", number
    for name, number in Counter(re.sub("[0-9]+", "N", thread.name) for thread in threading.enumerate()).items():
        yield f"Python thread {name}", number
    for number in signal.valid_signals():
        with contextlib.suppress(ValueError, OSError):
            yield f"handler {number}", signal.getsignal(number)
    for name, value in os.environ.items():
        yield f"environment {name}", value
    timers = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
    yield "timers", tuple(signal.getitimer(each)[0] > 0 for each in timers)
    yield "process", (os.getpgrp(), os.getsid(0), os.getcwd(), os.getpriority(os.PRIO_PROCESS, 0))
    umask = os.umask(0o22)
    os.umask(umask)
    yield "umask", umask


def _name_of(function):
    owner = getattr(function, "__module__", None) or type(getattr(function, "__self__", None)).__name__
    return f"{owner}.{function.__qualname__}"


def _interpreter():
    yield "gc", (gc.isenabled(), gc.get_threshold())
    yield "switch interval", sys.getswitchinterval()
    yield "recursion limit", sys.getrecursionlimit()
    yield "trace", sys.gettrace()
    yield "profile", sys.getprofile()
    yield "threads' trace", getattr(threading, "_trace_hook", None)
    yield "threads' profile", getattr(threading, "_profile_hook", None)
    for kind, hooks in _noted.items():
        for name, number in Counter(map(_name_of, hooks)).items():
            yield f"{kind} {name}", number
    for name, values in (
        ("gc.callbacks", gc.callbacks),
        ("sys.meta_path", sys.meta_path),
        ("sys.path_hooks", sys.path_hooks),
        ("sys.path", sys.path),
        ("warnings.filters", warnings.filters),
    ):
        yield name, list(values)
    monitoring = getattr(sys, "monitoring", None)
    for tool in range(6) if monitoring else ():
        yield f"monitoring tool {tool}", monitoring.get_tool(tool)
        if monitoring.get_tool(tool):
            yield f"monitoring events {tool}", monitoring.get_events(tool)
    loggers = {"root": logging.root, **logging.root.manager.loggerDict}
    for name, logger in loggers.items():
        handlers = getattr(logger, "handlers", None)
        if handlers is not None and not _is_ours(name):
            yield f"logger {name}", (list(map(id, handlers)), list(map(id, logger.filters)), logger.level)
