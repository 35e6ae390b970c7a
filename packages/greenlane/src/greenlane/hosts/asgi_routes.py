"""The route of an ASGI request, as the framework left it in the scope."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from greenlane.probes.routes import method_of, mount, no_route

__all__ = ["route_of"]

Scope = MutableMapping[str, Any]


def route_of(scope: Scope) -> str | None:
    """Name the route as the framework left it in `scope`: Starlette, FastAPI, Litestar; None = another one.

    Mounts are named by the path that they matched: a parameter by its name, another segment that is no word is `*`.
    """
    mounted = _find_mounted(scope)
    path = scope.get("path_template") or _starlette_path(scope, mounted)
    if path is None:
        if "router" not in scope:
            return None
        path = no_route(mounted)
    return f"{method_of(scope.get('method', ''))} {path or '/'}"


def _find_mounted(scope: Scope) -> str:
    """Name the mounts below the outermost application; "" = there are none."""
    root = scope.get("root_path", "")
    path = root[len(scope.get("app_root_path", root)) :]
    return mount(path, {str(value): f"{{{name}}}" for name, value in scope.get("path_params", {}).items()})


def _starlette_path(scope: Scope, mounted: str) -> str | None:
    told = getattr(scope.get("fastapi.telemetry"), "route", None)
    if isinstance(told, str) and told:
        return told
    route = scope.get("route")
    effective = scope.get("fastapi")
    context = effective.get("effective_route_context") if isinstance(effective, dict) else None
    path = getattr(context, "path_format", None) or getattr(route, "path_format", None)
    if not isinstance(path, str):
        return None
    if mounted and hasattr(route, "routes"):
        # A mount whose application is not Starlette's: its own path is part of `mounted`.
        path = "/{path}"
    return mounted + path
