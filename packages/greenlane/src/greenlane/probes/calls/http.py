"""Calls over urllib3, requests, http.client and httpx, and how long a call took by the upstream's own clock.

`http.client` has no function that is one call: it begins in `putrequest` and ends in `getresponse`, or where sending
fails. Its body is read by the caller, whenever that is, and does not count.

The upstream's own clock, as the reply's headers say it:

| header | is |
|---|---|
| `server-timing: …, total;dur=110.2` | the metric `total`, ms (W3C, Server Timing); other metrics are parts of it |
| `x-envoy-upstream-service-time: 110` | ms, by the Envoy in front of the upstream |

In this order: the clock nearer to the work wins. Neither says when it began; the report draws it in the middle
of the time on the wire. Cost: 1.5 us a reply without either, 2.5 us with one; most of it is the header dictionaries'.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from greenlane.probes.calls import pools, span
from greenlane.probes.calls.naming import PORTS, http_operation, origin, seconds, upstream
from greenlane.probes.patching import Patches

__all__ = ["own_ns", "place_http_client", "place_httpx", "place_requests", "place_urllib3"]

#: The attribute of a connection that holds its call.
_CALL = "_greenlane_call"
#: Quoted descriptions may hold commas, and whatever else.
_DESCRIPTION: Final = re.compile(r';\s*desc\s*=\s*"(?:\\.|[^"\\])*"', re.IGNORECASE)
_TOTAL: Final = re.compile(r'(?:^|,)\s*total\s*(?:;[^,]*?)?;\s*dur\s*=\s*"?(\d+(?:\.\d+)?)', re.IGNORECASE)
#: Calls whose names are remembered. Arbitrary: others are named again, at some us.
_REMEMBERED_CALLS: Final = 1024
#: A longer one is no clock, or not of this call: a day.
_LONGEST_MS: Final = 86_400_000.0


def own_ns(reply: Any) -> int:
    """Of a reply with `headers`; 0 = it does not say, or nothing above 0."""
    try:
        headers = reply.headers
        timing = headers.get("server-timing")
        found = _TOTAL.search(_DESCRIPTION.sub("", timing)) if timing else None
        told = found[1] if found else headers.get("x-envoy-upstream-service-time")
        took_ms = float(told) if told else 0.0
    except Exception:  # a reply of another kind, or a number that is none: nothing of the application's is at stake
        return 0
    return round(took_ms * 1e6) if math.isfinite(took_ms) and 0 < took_ms <= _LONGEST_MS else 0


def place_requests(patches: Patches, module: ModuleType) -> None:
    """Place the span in `requests`."""
    patches.replace(module.Session, "send", span.call(_requests, own_ns))


def place_urllib3(patches: Patches, module: ModuleType) -> None:
    """Place the span in `urllib3.connectionpool`, and the probes of its pool."""
    patches.replace(module.HTTPConnectionPool, "urlopen", span.call(_urllib3, own_ns))
    pools.place_urllib3(patches, module)


def place_http_client(patches: Patches, module: ModuleType) -> None:
    """Place the spans in `http.client`."""
    patches.replace(module.HTTPConnection, "putrequest", _putrequest)
    patches.replace(module.HTTPConnection, "endheaders", _endheaders)
    patches.replace(module.HTTPConnection, "getresponse", _getresponse)


def _requests(self: Any, request: Any, *_args: Any, timeout: Any = None, **_kwargs: Any) -> span.Call:
    name, path = origin(request.url)
    return span.Call(name, http_operation(request.method, path), _timeout_s(timeout))


def _urllib3(self: Any, method: Any, url: str, *_args: Any, timeout: Any = None, **_kwargs: Any) -> span.Call:
    path = origin(url)[1] if "://" in url else url
    # Not given: the pool's own. (The default is a mark, neither a number nor a Timeout.)
    timeout_s = _timeout_s(timeout) or _timeout_s(self.timeout)
    return _called(method, path.partition("?")[0], self.host, self.port, timeout_s)


@functools.lru_cache(_REMEMBERED_CALLS)
def _called(method: object, path: str, host: str | None, port: Any, timeout_s: float | None) -> span.Call:
    return span.Call(upstream(host, port), http_operation(method, path), timeout_s)


def _timeout_s(timeout: Any) -> float | None:
    if isinstance(timeout, tuple):
        return seconds(timeout[-1])
    return seconds(timeout, getattr(timeout, "total", None), getattr(timeout, "_read", None))


def _putrequest(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    def putrequest(self: Any, method: str, url: str, *args: Any, **kwargs: Any) -> Any:
        one = None if silent else span.begin(_http_client, self, method, url)
        if one is not None or _CALL in self.__dict__:
            self.__dict__[_CALL] = one
        return original(self, method, url, *args, **kwargs)

    return putrequest


def _http_client(self: Any, method: str, url: str) -> span.Call:
    if "://" in url:
        name, path = origin(url)
        return span.Call(name, http_operation(method, path), seconds(self.timeout))
    return _called(method, url.partition("?")[0], self.host, self.port, seconds(self.timeout))


def _endheaders(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    def endheaders(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(self, *args, **kwargs)
        except BaseException as error:
            _failed(self, error)
            raise

    return endheaders


def _getresponse(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    def getresponse(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            answer = original(self, *args, **kwargs)
        except BaseException as error:
            _failed(self, error)
            raise
        one = self.__dict__.pop(_CALL, None)
        if one is not None:
            one.own_ns = own_ns(answer)
            one.end(span.OK)
        return answer

    return getresponse


def _failed(self: Any, error: BaseException) -> None:
    one = self.__dict__.pop(_CALL, None)
    if one is not None:
        one.fail(error)


# --- httpx ------------------------------------------------------------------------------------------------------------


def place_httpx(patches: Patches, module: ModuleType) -> None:
    """Place the spans in `httpx`."""
    patches.replace(module.Client, "send", span.call(_httpx, own_ns))
    patches.replace(module.AsyncClient, "send", span.awaited(_httpx, own_ns))


def _httpx(self: Any, request: Any, **_kwargs: Any) -> span.Call:
    url = request.url
    timeout_s = seconds(request.extensions.get("timeout", {}).get("read"))
    port = url.port or PORTS.get(url.scheme)
    return _called(request.method, url.path, url.host, port, timeout_s)
