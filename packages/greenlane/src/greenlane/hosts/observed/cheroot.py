"""cheroot observed (CherryPy's server)."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from greenlane.hosts.observed.wsgi import observed
from greenlane.probes.patching import Patches, Place

__all__ = ["install", "uninstall"]


def install() -> None:
    """Place the observer in cheroot when it is imported. Idempotent."""
    _patches.install()


def uninstall() -> None:
    """Put it back. Idempotent."""
    _patches.uninstall()


def _wsgi(patches: Patches, module: ModuleType) -> None:
    def make(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
        def __init__(self: Any, bind_addr: Any, wsgi_app: Any, *args: Any, **kwargs: Any) -> None:
            original(self, bind_addr, wsgi_app if silent else observed(wsgi_app, "cheroot"), *args, **kwargs)

        return __init__

    patches.replace(module.Server, "__init__", make)


_PLAN: Final[dict[str, Place]] = {"cheroot.wsgi": _wsgi}

_patches: Final = Patches(_PLAN)
