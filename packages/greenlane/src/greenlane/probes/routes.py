"""Route names from the framework's own rule: `GET /bikes/<id>`, never the raw URL.

| framework | where | name of an unmatched request |
|---|---|---|
| Flask | before `before_request` functions and the view | `GET (no route)` |
| Django | when the handler resolves the URL, after the middlewares' request part | `GET (no route)` |
| Bottle | after the `before_request` hooks | `GET (no route)` |
| Falcon | when the responder is looked up | `GET (no route)` |
| Pyramid | when the routes mapper answers; traversal has no routes | `GET (no route)` |
| Tornado | when a rule's path matches | `GET (no route)` |

The rule and the method bound the number of names: a method that HTTP does not know is `OTHER`, whatever a client sends.
The path of a mount (`SCRIPT_NAME`, `root_path`) stands before the rule: `GET /shop/bikes/<id>`, `GET /shop/(no route)`.
Where no framework says the route, `shape` names the request by its method and first path segment.

Pins: a view function, or the class behind it, with the attribute `__greenlane_weight__` (`"heavy"` or `"light"`, set by
`@greenlane.heavy` and `@greenlane.light`) pins its route by one `phase.pin`, before the route's first `phase.name`.

Cost: 0.7 us a request on Flask, 0.45 on Django, `phase.name` included; 0.05-0.13 us on a thread without a job.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Final

from greenlane import phase
from greenlane._native import Recorder
from greenlane.job import WEIGHT_MARK
from greenlane.probes.patching import Patches, Place

__all__ = ["absent", "install", "method_of", "mount", "named_below", "no_route", "note_handler", "shape", "uninstall"]

NO_ROUTE: Final = "(no route)"

#: A path's first segment names it when it looks like a word; anything else may be somebody's number.
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z_-]{0,31}")
#: Any other method is "OTHER": it comes from the client, and every name takes a place in the table of routes.
#: These are the registry's (IANA, HTTP methods), then those of caches, UPnP and Icecast.
_METHODS: Final = frozenset(
    (
        "GET HEAD POST PUT PATCH DELETE OPTIONS TRACE CONNECT QUERY "
        "ACL BASELINE-CONTROL BIND CHECKIN CHECKOUT COPY LABEL LINK LOCK MERGE MKACTIVITY MKCALENDAR MKCOL "
        "MKREDIRECTREF MKWORKSPACE MOVE ORDERPATCH PRI PROPFIND PROPPATCH REBIND REPORT SEARCH UNBIND UNCHECKOUT "
        "UNLINK UNLOCK UPDATE UPDATEREDIRECTREF VERSION-CONTROL "
        "BAN PURGE REFRESH M-SEARCH NOTIFY SUBSCRIBE UNSUBSCRIBE SOURCE"
    ).split()
)
#: Paths whose name is remembered. Arbitrary: others are named again, at about 1 us.
_REMEMBERED_PATHS: Final = 1024
#: Likewise of a mount's path, whose segments may be numbered.
_MOUNT_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
#: Mounts beyond these are `/*`: their path may come from a client. Arbitrary.
_MOST_MOUNTS: Final = 64
_mounts: Final[set[str]] = set()
_recorder: Final = Recorder()
#: Open jobs of ASGI applications -> whether a framework below has named the job: a mount does not rename it.
named_below: Final[dict[int, bool]] = {}
# Routes that were asked for a pin; bounded by the application's rules times the methods above.
_asked: Final[set[str]] = set()
#: Routes whose functions the recording knows. At most 1,024: a name may come from a client.
_handlers: Final[set[str]] = set()
_MOST_HANDLERS: Final = 1024


def install() -> None:
    """Place the probes in the frameworks that are imported, and in the others when they are. Idempotent."""
    _patches.install()


def uninstall() -> None:
    """Put the frameworks back as they were. Idempotent."""
    _patches.uninstall()
    _asked.clear()
    _handlers.clear()


def absent() -> tuple[str, ...]:
    """Names that the imported frameworks' versions do not have although the probes ask for them."""
    return _patches.absent()


@functools.lru_cache(_REMEMBERED_PATHS)
def shape(method: str, path: str) -> str:
    """Name a request: `GET /bikes/*`.

    A deeper path ends in `/*`, so it never collides with a framework's name for the bare segment.
    """
    first, slash, _rest = path.lstrip("/").partition("/")
    method = method_of(method)
    word = first if not first or _WORD.fullmatch(first) else "*"
    return f"{method} /{word}/*" if slash else f"{method} /{word}"


def method_of(method: str) -> str:
    """Give the method as names have it."""
    return method if method in _METHODS else "OTHER"


def mount(path: str, parameters: Mapping[str, str] | None = None) -> str:
    """Name the path of a mount: `/shop`, `/shops/*`; "" = it is none.

    Args:
        path: as the application was reached.
        parameters: names of segments by their text, such as {"12": "{tenant}"}.
    """
    names = parameters or {}
    texts = (names.get(word) or (word if _MOUNT_WORD.fullmatch(word) else "*") for word in path.split("/") if word)
    words = "".join(f"/{text}" for text in texts)
    if len(_mounts) < _MOST_MOUNTS:
        _mounts.add(words)
    return words if not words or words in _mounts else "/*"


def no_route(mounted: str) -> str:
    """Name what has no route, below a mount that `mount` has named."""
    return f"{mounted}/{NO_ROUTE}" if mounted else NO_ROUTE


def _tell(method: str, rule: str | None, view: object, mounted: str = "") -> None:
    """Name the job that runs here. `mounted`: the path of the application's mount, as the framework has it."""
    mounted = mount(mounted)
    route = f"{method_of(method)} {mounted + rule if rule else no_route(mounted)}"
    if route not in _asked:
        _asked.add(route)
        _pin(route, view)
        note_handler(route, view)
    if named_below and (job := _recorder.job()) in named_below:
        named_below[job] = True
    phase.name(route)


def note_handler(route: str, function: object) -> None:
    """Let a recording know which function of the application answers a route; once."""
    if function is not None and route not in _handlers and _recorder.recording() and len(_handlers) < _MOST_HANDLERS:
        _handlers.add(route)
        _recorder.handler(route, function)


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
                view = rule and self.view_functions.get(rule.endpoint)
                _tell(request.method, rule and rule.rule, view, request.environ.get("SCRIPT_NAME", ""))
            return original(self, *context)

        return full_dispatch_request

    patches.replace(module.Flask, "full_dispatch_request", make)


def _django(patches: Patches, module: ModuleType) -> None:
    def make(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
        def resolve_request(self: Any, request: Any) -> Any:
            if silent or not phase.active():
                return original(self, request)
            mounted = request.META.get("SCRIPT_NAME", "")
            try:
                match = original(self, request)
            except Exception:
                _tell(request.method, None, None, mounted)
                raise
            _tell(request.method, f"/{match.route}", match.func, mounted)
            return match

        return resolve_request

    patches.replace(module.BaseHandler, "resolve_request", make)


def _bottle(patches: Patches, module: ModuleType) -> None:
    def make(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
        def match(self: Any, environ: Any) -> Any:
            if silent or not phase.active():
                return original(self, environ)
            method, mounted = environ["REQUEST_METHOD"], environ.get("SCRIPT_NAME", "")
            try:
                found = original(self, environ)
            except Exception:
                _tell(method, None, None, mounted)
                raise
            route = found[0]
            _tell(method, route.rule, route.callback, mounted)
            return found

        return match

    patches.replace(module.Router, "match", make)


def _falcon(patches: Patches, module: ModuleType) -> None:
    def make(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
        def _get_responder(self: Any, req: Any) -> Any:
            found = original(self, req)
            if not silent and phase.active():
                responder, _, resource, template = found
                view = responder if hasattr(responder, WEIGHT_MARK) else resource
                _tell(req.method, template, view, req.root_path)
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
                rule = None if route is None else f"/{route.pattern.lstrip('/')}"
                _tell(request.method, rule, None, request.environ.get("SCRIPT_NAME", ""))
            return found

        return __call__

    patches.replace(module.RoutesMapper, "__call__", make)


def _tornado_rule(patches: Patches, module: ModuleType) -> None:
    def make(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
        def match(self: Any, request: Any) -> Any:
            found = original(self, request)
            # Of nested routers the innermost rule, which has the whole path, is asked last.
            if found is not None and not silent and phase.active():
                _tell(request.method, self.regex.pattern.removeprefix("^").removesuffix("$"), None)
            return found

        return match

    patches.replace(module.PathMatches, "match", make)


def _tornado_application(patches: Patches, module: ModuleType) -> None:
    def make(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
        def get_handler_delegate(self: Any, request: Any, target_class: Any, *more: Any, **named: Any) -> Any:
            if not silent and target_class in (module.ErrorHandler, self.settings.get("default_handler_class")):
                _tell(request.method, None, None)
            return original(self, request, target_class, *more, **named)

        return get_handler_delegate

    patches.replace(module.Application, "get_handler_delegate", make)


_PLAN: Final[dict[str, Place]] = {
    "flask.app": _flask,
    "django.core.handlers.base": _django,
    "bottle": _bottle,
    "falcon.app": _falcon,
    "pyramid.urldispatch": _pyramid,
    "tornado.routing": _tornado_rule,
    "tornado.web": _tornado_application,
}

_patches: Final = Patches(_PLAN)
