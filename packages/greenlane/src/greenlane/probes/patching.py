"""The ledger of what a group of probes replaced in the guest process, and how it gives it back.

Rules that a guest can rely on:

- `install` twice is `install` once; `uninstall` puts back the very object that stood there, and removes an attribute
  that was only inherited before.
- A Python function is not replaced: it stays the object that it is, and only its code leads to us (`bodies`). So does a
  method that is written in C or Cython, by its method table. What is inherited or generates is replaced.
- A later patch of others is left alone: what is no longer ours when we go stays, and our wrapper, now somewhere inside
  theirs, becomes a pass-through. A later `install` wakes it again instead of wrapping a second time.
- A module that the guest has not imported is not imported by us: its probes are placed when the guest imports it. Where
  the plan names them as text, our own code of them is loaded only then, too.
- A name that this version of a library does not have is skipped and listed by `absent`; nothing is raised into an
  import of the guest. A name that only some versions have is asked for with `replace(..., optional=True)`.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import threading
from collections.abc import Callable, Mapping
from types import FunctionType, ModuleType
from typing import Any, Final, TypeAlias

from greenlane import _native
from greenlane.probes.bodies import can_wrap, unwrap, wrap
from greenlane.probes.imports import forget, when_imported
from greenlane.probes.wrapping import Make, dress

__all__ = ["Patches", "Place"]

_ABSENT: Final = object()


class _Placed:
    """Something that was replaced.

    Args:
        before: what stood in the owner's own namespace; _ABSENT when the name was inherited.
    """

    __slots__ = ("before", "name", "ours", "overlay", "owner")

    def __init__(self, owner: Any, name: str, before: object, ours: object) -> None:
        self.owner = owner
        self.name = name
        self.before = before
        self.ours = ours
        # What had patched over us when we were last uninstalled; _ABSENT while nothing has.
        self.overlay: object = _ABSENT

    @property
    def found(self) -> object:
        return vars(self.owner).get(self.name, _ABSENT)


class Patches:
    """One group of probes that is installed and uninstalled together.

    Args:
        plan: module name -> the function that places this group's probes in it, called with this ledger and the module;
            or "module:function", which is loaded when it is needed.
    """

    def __init__(self, plan: Mapping[str, Place | str]) -> None:
        self._plan = dict(plan)
        #: Read by every wrapper at its entry: empty = probing, not empty = pass straight through. A list because its
        #: truth is the cheapest shared switch there is. Written by `install` and `uninstall` only.
        self.silent: list[bool] = [True]
        self._placed: dict[tuple[int, str], _Placed] = {}
        self._buried: dict[tuple[int, str], _Placed] = {}
        # By the function's address: whose code leads to us, and what stands in it. The rest as above.
        self._led: dict[int, tuple[FunctionType, Callable[[Any], Any]]] = {}
        self._buried_code: dict[int, tuple[FunctionType, Callable[[Any], Any]]] = {}
        # Likewise methods in C, and what is called instead; those that were led before.
        self._led_methods: dict[int, tuple[Any, Any]] = {}
        self._known_methods: dict[int, tuple[Any, Any]] = {}
        self._awaited: set[str] = set()
        self._absent: list[str] = []
        # Reentrant: placing probes may import a module that this group also waits for.
        self._lock = threading.RLock()

    @property
    def installed(self) -> bool:
        """Whether the group's probes are in place."""
        return not self.silent

    def install(self) -> None:
        """Place the probes: at once in what is imported, at its import in what is not. Idempotent."""
        if not self.installed:
            for name in self._plan:
                if name in sys.modules:
                    self._load_early(name)
        with self._lock:
            if self.installed:
                return
            self.silent.clear()
            for name in self._plan:
                module = sys.modules.get(name)
                if module is not None:
                    self._place(name, module)
                else:
                    self._awaited.add(name)
        # Not under our lock: an import that holds the import lock may wait for ours.
        for name in list(self._awaited):
            when_imported(name, self._patch_import)

    def uninstall(self) -> None:
        """Put back what stood there, wherever ours still stands. Idempotent. Calls under way end as they began."""
        with self._lock:
            if not self.installed:
                return
            self.silent.append(True)
            for key, placed in reversed(self._placed.items()):
                self._put_back(key, placed)
            self._placed.clear()
            for led in self._led.values():
                if not unwrap(*led):
                    self._buried_code[id(led[0])] = led
            self._led.clear()
            for method, _ in self._led_methods.values():
                _native.stop_listening(method)
            self._led_methods.clear()
            self._absent.clear()
        while self._awaited:
            forget(self._awaited.pop(), self._patch_import)

    def absent(self) -> tuple[str, ...]:
        """Names that the plan asked for and that the imported versions do not have, such as `grpc._channel.Gone`."""
        return tuple(self._absent)

    def miss(self, what: str) -> None:
        """List `what` as absent."""
        self._absent.append(what)

    def replace(self, owner: Any, name: str, make: Make, *, optional: bool = False) -> None:
        """Let `make(original, self.silent)` do what `owner.name` did; `owner` is a module or a class.

        A function made this way carries the original's name, docstring and signature. A class is put in as it is.
        What is made for a class method takes the class first, as the original.
        """
        key = id(owner), name
        if key in self._placed:
            return
        original = getattr(owner, name, _ABSENT)
        if original is _ABSENT:
            if not optional:
                self._absent.append(f"{getattr(owner, '__module__', '')}.{owner.__name__}.{name}".lstrip("."))
            return
        buried = self._buried.pop(key, None)
        if buried is not None and buried.found in (buried.overlay, buried.ours):
            self._placed[key] = buried
            return
        own = vars(owner).get(name)
        function: Any = own.__func__ if isinstance(own, classmethod) else own
        if can_wrap(function):
            self._lead(function, make)
            return
        if own is original and isinstance(owner, type) and hasattr(type(own), "__get__"):
            self._lead_method(owner, own, make)
            return
        ours = make(original, self.silent)
        if not isinstance(ours, type):
            ours = dress(ours, original, owner)
        placed = _Placed(owner, name, vars(owner).get(name, _ABSENT), ours)
        setattr(owner, name, ours)
        self._placed[key] = placed

    def _lead(self, function: FunctionType, make: Make) -> None:
        key = id(function)
        if key in self._led:  # by another name
            return
        buried = self._buried_code.pop(key, None)
        if buried is None:
            buried = function, lambda original: make(original, self.silent)
            wrap(*buried)
        self._led[key] = buried

    def _lead_method(self, owner: type, method: Any, make: Make) -> None:
        key = id(method)
        if key in self._led_methods:  # by another name
            return
        try:
            if key not in self._known_methods:
                self._known_methods[key] = method, make(_native.unseen_method(owner, method), self.silent)
            _native.lead_to(*self._known_methods[key])
        except ValueError as error:  # another layout than is known
            self.miss(f"{owner.__module__}.{method.__qualname__}: {error}")
        else:
            self._led_methods[key] = self._known_methods[key]

    def _patch_import(self, module: ModuleType) -> None:
        if self.installed:
            self._load_early(module.__name__)
        with self._lock:
            self._awaited.discard(module.__name__)
            if self.installed:
                self._place(module.__name__, module)

    def _load_early(self, name: str) -> None:
        # Before our lock is taken: an import waits for locks that another thread may hold while it waits for ours.
        with contextlib.suppress(Exception):  # `_place` meets it again, and lists it
            self._load(name)

    def _load(self, name: str) -> Place:
        place = self._plan[name]
        if isinstance(place, str):
            ours, _, function = place.partition(":")
            place = self._plan[name] = getattr(importlib.import_module(ours), function)
        return place

    def _place(self, name: str, module: ModuleType) -> None:
        try:
            self._load(name)(self, module)
        except Exception as error:
            # This runs in an import of the guest: a library that looks different must not fail it.
            self._absent.append(f"{name}: {error!r}")

    def _put_back(self, key: tuple[int, str], placed: _Placed) -> None:
        if placed.found is not placed.ours:
            placed.overlay = placed.found
            self._buried[key] = placed
        elif placed.before is _ABSENT:
            delattr(placed.owner, placed.name)
        else:
            setattr(placed.owner, placed.name, placed.before)


Place: TypeAlias = Callable[[Patches, ModuleType], None]
