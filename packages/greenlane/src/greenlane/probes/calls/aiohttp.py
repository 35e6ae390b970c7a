"""Calls over aiohttp's client: until the body is read, or the response is released.

`ClientSession._request` comes back with the headers; `read` (and with it `text` and `json`) waits for the body. A
response whose body is not read that way, but streamed or left, ended with its headers. One that is neither read nor
released nor closed is not written down.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import Any

from greenlane.probes.calls import span
from greenlane.probes.calls.http import own_ns
from greenlane.probes.calls.naming import PORTS, http_operation, seconds, upstream
from greenlane.probes.patching import Patches

__all__ = ["place"]

#: The attribute of a response that holds its call, and when its headers were there: (call, (now, ready)).
_CALL = "_greenlane_call"


def place(patches: Patches, module: ModuleType) -> None:
    """Place the spans in `aiohttp.client`."""
    patches.replace(module.ClientSession, "_request", _request)
    response = module.ClientResponse
    patches.replace(response, "read", _read)
    for name in ("release", "close"):
        patches.replace(response, name, _leave)


def _describe(self: Any, method: str, url: Any, *, timeout: Any = None, **_kwargs: Any) -> span.Call:
    url = self._build_url(url)
    given = timeout if hasattr(timeout, "total") else self.timeout
    whole_s = seconds(timeout, given.total)
    port = url.explicit_port or PORTS.get(url.scheme)
    what = http_operation(method, url.path)
    return span.Call(upstream(url.host, port), what, whole_s or seconds(given.sock_read), whole_s is not None)


def _request(original: Callable[..., Awaitable[Any]], silent: list[bool]) -> Callable[..., Any]:
    async def _request(*args: Any, **kwargs: Any) -> Any:
        one = None if silent else span.begin(_describe, *args, **kwargs)
        if one is None:
            return await original(*args, **kwargs)
        span.within(one)
        try:
            response = await original(*args, **kwargs)
        except BaseException as error:
            one.fail(error)
            raise
        # The task may call others before it reads this one's body: they are calls of their own.
        span.within(None)
        one.own_ns = own_ns(response)
        response.__dict__[_CALL] = one, one.passed()
        return response

    return _request


def _read(original: Callable[..., Awaitable[Any]], silent: list[bool]) -> Callable[..., Any]:
    async def read(self: Any) -> Any:
        one, _headers = self.__dict__.pop(_CALL, (None, None))
        try:
            body = await original(self)
        except BaseException as error:
            if one is not None:
                one.fail(error)
            raise
        if one is not None:
            one.end(span.OK)
        return body

    return read


def _leave(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    def left(self: Any) -> Any:
        one, headers = self.__dict__.pop(_CALL, (None, None))
        if one is not None:
            one.end_at(*headers, span.OK)
        return original(self)

    return left
