"""Call a function once a module has been imported: what the program has not imported is not imported for it.

One finder is in `sys.meta_path` while a module is awaited, and in no other time. The module that it finds has the
loader that it would have had: ours steps aside before the module's own code runs.
"""

from __future__ import annotations

import _imp
import contextlib
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Final, TypeAlias

from greenlane.threads.unpatched import sleep

__all__ = ["forget", "take_out", "when_imported"]

Call: TypeAlias = Callable[[ModuleType], object]

# How often a removal is tried while other threads import. Arbitrary: a finder that stays finds nothing.
_TRIES: Final = 20

#: Changed under the import lock, which is reentrant: an import within a finder's search may meet us.
_awaited: dict[str, list[Call]] = {}


def when_imported(name: str, call: Call) -> None:
    """Call `call(module)` when the module is next imported, on the thread that does it; at once if it is there.

    `call` must not raise: it runs in an import of the program.
    """
    module = sys.modules.get(name)
    if module is not None:
        call(module)
        return
    with _importing():
        _awaited.setdefault(name, []).append(call)
        if _finder not in sys.meta_path:
            sys.meta_path.insert(0, _finder)


def forget(name: str, call: Call) -> None:
    """Take a call back that has not been made. Idempotent."""
    with _importing():
        calls = _awaited.get(name, [])
        calls[:] = [known for known in calls if known != call]
        if not calls:
            _awaited.pop(name, None)
    _leave(_TRIES)


class _Finder:
    """Finds what the finders behind it find."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in _awaited:
            return None
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = None if finder is self or find is None else find(name, path, target)
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader)
                return spec
        return None


class _Loader:
    """In the place of a loader until its module's code is run."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def exec_module(self, module: ModuleType) -> None:
        spec: Any = module.__spec__
        for owner, name in ((spec, "loader"), (module, "__loader__")):
            if getattr(owner, name, None) is self:
                setattr(owner, name, self._loader)
        self._loader.exec_module(module)
        with _importing():
            calls = _awaited.pop(spec.name, [])
        _leave(1)
        for call in calls:
            call(module)


_finder: Final[Any] = _Finder()


def _leave(tries: int) -> None:
    if not _awaited:
        take_out(_finder, tries, unless=lambda: bool(_awaited))


def take_out(finder: Any, tries: int = _TRIES, *, unless: Callable[[], bool] = lambda: False) -> None:
    """Take a finder out of `sys.meta_path`, or leave it there after some tries. Idempotent.

    Not while a thread walks the list of finders: it would pass over the one behind this one. Each of its steps takes
    the import lock, so none is made while we look.
    """
    for left in reversed(range(tries)):
        with _importing():
            if unless() or finder not in sys.meta_path:
                return
            at = sys.meta_path.index(finder)
            del sys.meta_path[at]
            if not _is_searching():
                return
            sys.meta_path.insert(at, finder)
        if left:
            sleep(0.001)


def _is_searching() -> bool:
    searching: Any = sys.modules["_frozen_importlib"]._find_spec.__code__
    for found in sys._current_frames().values():
        frame: Any = found
        while frame is not None:
            if frame.f_code is searching:
                return True
            frame = frame.f_back
    return False


@contextlib.contextmanager
def _importing() -> Iterator[None]:
    _imp.acquire_lock()
    try:
        yield
    finally:
        _imp.release_lock()
