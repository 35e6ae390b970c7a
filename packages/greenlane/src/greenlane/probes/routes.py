"""Route names from the framework's own rule: `GET /bikes/<id>`, never the raw URL.

| framework | where | name of an unmatched request |
|---|---|---|
| Flask | before `before_request` functions and the view | `GET (no route)` |
| Django | when the handler resolves the URL, after the middlewares' request part | `GET (no route)` |
| Bottle | after the `before_request` hooks | `GET (no route)` |
| Falcon | when the responder is looked up | `GET (no route)` |
| Pyramid | when the routes mapper answers; traversal has no routes | `GET (no route)` |

The rule and the method bound the number of names: a method that HTTP does not know is `OTHER`, whatever a client sends.
Where no framework says the route, `shape` names the request by its method and first path segment.

Pins: a view function, or the class behind it, with the attribute `__greenlane_weight__` (`"heavy"` or `"light"`, set by
`@greenlane.heavy` and `@greenlane.light`) pins its route by one `phase.pin`, before the route's first `phase.name`.

Cost: 0.7 us a request on Flask, 0.45 on Django, `phase.name` included; 0.05-0.13 us on a thread without a job.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from greenlane import phase
from greenlane.job import WEIGHT_MARK
from greenlane.probes.patching import Patches, Place

__all__ = ["absent", "install", "shape", "uninstall"]

NO_ROUTE: Final = "(no route)"

#: A path's first segment names it when it looks like a word; anything else may be somebody's number.
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z_-]{0,31}")
#: Any other method is "OTHER": it comes from the client, and every name takes a place in the table of routes.
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"})
#: Paths whose name is remembered. Arbitrary: others are named again, at about 1 us.
_REMEMBERED_PATHS: Final = 1024
# Routes that were asked for a pin; bounded by the application's rules times the methods above.
_asked: Final[set[str]] = set()


def install() -> None:
    """Place the probes in the frameworks that are imported, and in the others when they are. Idempotent."""
    _patches.install()


def uninstall() -> None:
    """Put the frameworks back as they were. Idempotent."""
    _patches.uninstall()
    _asked.clear()


def absent() -> tuple[str, ...]:
    """Names that the imported frameworks' versions do not have although the probes ask for them."""
    return _patches.absent()


@functools.lru_cache(_REMEMBERED_PATHS)
def shape(method: str, path: str) -> str:
    """Name a request: `GET /bikes/*`.

    A deeper path ends in `/*`, so it never collides with a framework's name for the bare segment.
    """
    first, slash, _rest = path.lstrip("/").partition("/")
    method = method if method in _METHODS else "OTHER"
    word = first if not first or _WORD.fullmatch(first) else "*"
    return f"{method} /{word}/*" if slash else f"{method} /{word}"


def _tell(method: str, rule: str | None, view: object) -> None:
    if method not in _METHODS:
        method = "OTHER"
    route = f"{method} {rule or NO_ROUTE}"
    if route not in _asked:
        _asked.add(route)
        _pin(route, view)
    phase.name(route)


def _pin(route: str, view: object) -> None:
    # Flask and Django keep a view class at `view_class`, Django REST framework at `cls`.
    for marked in (view, getattr(view, "view_class", None), getattr(view, "cls", None)):
        weight = getattr(marked, WEIGHT_MARK, None)
        if weight is not None:
            phase.pin(route, weight)
            return


def _flask(patches: Patches, module: ModuleType) -> None:
    proxy = module.request

    def make(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
        # From 3.2 on Flask hands its context over.
        def full_dispatch_request(self: Any, *context: Any) -> Any:
            if not silent and phase.active():
                request = context[0].request if context else proxy._get_current_object()
                rule = request.url_rule
                if rule is None:
                    _tell(request.method, None, None)
                else:
                    _tell(request.method, rule.rule, self.view_functions.get(rule.endpoint))
            return original(self, *context)

        return full_dispatch_request

    patches.replace(module.Flask, "full_dispatch_request", make)


def _django(patches: Patches, module: ModuleType) -> None:
    def make(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
        def resolve_request(self: Any, request: Any) -> Any:
            if silent or not phase.active():
                return original(self, request)
            try:
                match = original(self, request)
            except Exception:
                _tell(request.method, None, None)
                raise
            _tell(request.method, f"/{match.route}", match.func)
            return match

        return resolve_request

    patches.replace(module.BaseHandler, "resolve_request", make)


def _bottle(patches: Patches, module: ModuleType) -> None:
    def make(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
        def match(self: Any, environ: Any) -> Any:
            if silent or not phase.active():
                return original(self, environ)
            method = environ["REQUEST_METHOD"]
            try:
                found = original(self, environ)
            except Exception:
                _tell(method, None, None)
                raise
            route = found[0]
            _tell(method, route.rule, route.callback)
            return found

        return match

    patches.replace(module.Router, "match", make)


def _falcon(patches: Patches, module: ModuleType) -> None:
    def make(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
        def _get_responder(self: Any, req: Any) -> Any:
            found = original(self, req)
            if not silent and phase.active():
                responder, _, resource, template = found
                _tell(req.method, template, responder if hasattr(responder, WEIGHT_MARK) else resource)
            return found

        return _get_responder

    patches.replace(module.App, "_get_responder", make)


def _pyramid(patches: Patches, module: ModuleType) -> None:
    def make(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
        def __call__(self: Any, request: Any) -> Any:
            found = original(self, request)
            if not silent and phase.active():
                route = found["route"]
                # The view is found later, by traversal; only its route factory could carry a mark.
                _tell(request.method, None if route is None else f"/{route.pattern.lstrip('/')}", None)
            return found

        return __call__

    patches.replace(module.RoutesMapper, "__call__", make)


_PLAN: Final[dict[str, Place]] = {
    "flask.app": _flask,
    "django.core.handlers.base": _django,
    "bottle": _bottle,
    "falcon.app": _falcon,
    "pyramid.urldispatch": _pyramid,
}

_patches: Final = Patches(_PLAN)
