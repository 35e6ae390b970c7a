"""Calls over urllib3, requests and http.client.

`http.client` has no function that is one call: it begins in `putrequest` and ends in `getresponse`, or where sending
fails. Its body is read by the caller, whenever that is, and does not count.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from greenlane.probes.calls import span
from greenlane.probes.calls.naming import http_operation, origin, seconds, upstream
from greenlane.probes.calls.own_clock import own_ns
from greenlane.probes.calls.pools import place_urllib3 as place_urllib3_pool
from greenlane.probes.patching import Patches

__all__ = ["place_http_client", "place_requests", "place_urllib3"]

#: The attribute of a connection that holds its call.
_CALL = "_greenlane_call"


def place_requests(patches: Patches, module: ModuleType) -> None:
    """Place the span in `requests`."""
    patches.replace(module.Session, "send", span.call(_requests, own_ns))


def place_urllib3(patches: Patches, module: ModuleType) -> None:
    """Place the span in `urllib3`, and its pool's waits."""
    patches.replace(module.HTTPConnectionPool, "urlopen", span.call(_urllib3, own_ns))
    place_urllib3_pool(patches, module)


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
    return span.Call(upstream(self.host, self.port), http_operation(method, path), timeout_s)


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
    name, path = origin(url) if "://" in url else (upstream(self.host, self.port), url)
    return span.Call(name, http_operation(method, path), seconds(self.timeout))


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
