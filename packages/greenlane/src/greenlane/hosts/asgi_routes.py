"""The route of an ASGI request, as the framework left it in the scope."""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from typing import Any, Final

from greenlane.probes.routes import NO_ROUTE, shape

__all__ = ["route_of"]

Scope = MutableMapping[str, Any]

_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")


def route_of(scope: Scope) -> str | None:
    """Name the route as the framework left it in `scope`: Starlette, FastAPI, Litestar; None = another one.

    Mounts are named by the path that they matched; a segment of it that is no word is `*`.
    """
    path = scope.get("path_template") or _starlette_path(scope)
    if path is None:
        return f"{_method(scope)} {NO_ROUTE}" if "router" in scope else None
    return f"{_method(scope)} {path or '/'}"


def _starlette_path(scope: Scope) -> str | None:
    told = getattr(scope.get("fastapi.telemetry"), "route", None)
    if isinstance(told, str) and told:
        return told
    route = scope.get("route")
    effective = scope.get("fastapi")
    context = effective.get("effective_route_context") if isinstance(effective, dict) else None
    path = getattr(context, "path_format", None) or getattr(route, "path_format", None)
    if not isinstance(path, str):
        return None
    mounted = scope.get("root_path", "")[len(scope.get("app_root_path", scope.get("root_path", ""))) :]
    if mounted and hasattr(route, "routes"):
        # A mount whose application is not Starlette's: its own path is part of `mounted`.
        path = "/{path}"
    words = [word if _WORD.fullmatch(word) else "*" for word in mounted.split("/")[1:]]
    return "".join(f"/{word}" for word in words) + path


def _method(scope: Scope) -> str:
    return shape(scope.get("method", ""), "/").partition(" ")[0]
