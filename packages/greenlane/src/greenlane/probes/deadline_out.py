"""Deadline out: an upstream call tells its server how much time its caller has left.

Where the job, or what runs in this context of a loop, has a deadline, `x-envoy-expected-rq-timeout-ms: <remaining>`
is added to each HTTP request that does not carry the header already: `http.client` (urllib3, requests, boto3 stand on
it), `httpcore` (httpx) and aiohttp. Only when the caller has not set it. gRPC
clients state their own timeout in every call.

The least value is 1: Envoy reads 0 as "no limit", which is the opposite of "too late". Whether to call at all when the
time is over is the application's question (`greenlane.checkpoint()`).

Cost: 0.1 us a request without a deadline, about 1.5 us with one.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from greenlane import deadline
from greenlane.probes.patching import Patches, Place

__all__ = ["install", "uninstall"]

DEADLINE_HEADER: Final = "x-envoy-expected-rq-timeout-ms"
_NAME: Final = DEADLINE_HEADER.encode("ascii")


def install() -> None:
    """Send the remaining milliseconds as `DEADLINE_HEADER` with each request from now on. Idempotent."""
    _patches.install()


def uninstall() -> None:
    """Send requests as they are again. Idempotent."""
    _patches.uninstall()


def _http_client(patches: Patches, module: ModuleType) -> None:
    patches.replace(module.HTTPConnection, "endheaders", _endheaders)


def _httpcore(patches: Patches, module: ModuleType) -> None:
    patches.replace(module.ConnectionPool, "handle_request", _handle_request)
    patches.replace(module.AsyncConnectionPool, "handle_async_request", _handle_request)


def _aiohttp(patches: Patches, module: ModuleType) -> None:
    patches.replace(module.ClientSession, "_request", _request)


def _endheaders(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    def endheaders(self: Any, message_body: Any = None, *, encode_chunked: bool = False) -> Any:
        if not silent:
            remaining_ms = deadline.remaining_ms()
            # `_buffer`: the request line and the header lines so far, as bytes.
            if remaining_ms is not None and not any(map(_is_ours, getattr(self, "_buffer", ()))):
                self.putheader(DEADLINE_HEADER, str(max(remaining_ms, 1)))
        return original(self, message_body, encode_chunked=encode_chunked)

    return endheaders


def _is_ours(line: bytes) -> bool:
    return line.partition(b":")[0].lower() == _NAME


def _handle_request(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    def handle_request(self: Any, request: Any) -> Any:
        if not silent:
            remaining_ms = deadline.remaining_ms()
            if remaining_ms is not None and all(name.lower() != _NAME for name, _ in request.headers):
                value = str(max(remaining_ms, 1)).encode("ascii")
                request.headers = [*request.headers, (_NAME, value)]
        return original(self, request)

    return handle_request


def _request(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    def request(self: Any, method: str, url: Any, **options: Any) -> Any:
        remaining_ms = None if silent else deadline.remaining_ms()
        if remaining_ms is not None:
            given = options.get("headers") or ()
            pairs = list(given.items() if hasattr(given, "items") else given)
            if all(str(name).lower() != DEADLINE_HEADER for name, _ in (*pairs, *self.headers.items())):
                options["headers"] = [*pairs, (DEADLINE_HEADER, str(max(remaining_ms, 1)))]
        return original(self, method, url, **options)

    return request


_PLAN: Final[dict[str, Place]] = {"http.client": _http_client, "httpcore": _httpcore, "aiohttp.client": _aiohttp}

_patches: Final = Patches(_PLAN)
