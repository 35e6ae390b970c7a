"""Calls to merchants, over HTTP or gRPC, by the blocking clients that most services have.

What a call that did not go well means is said by what it raises:

    Refused    the merchant does not want this order: it is no use to try again
    Failed     surely not carried out: nobody was reached
    Unknown    nobody knows: the merchant may have carried it out
"""

from __future__ import annotations

import json
import threading
from functools import cache
from http import HTTPStatus
from typing import Any, Final

import urllib3
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError

from .merchants.names import ASK, PLACE
from .surroundings import Surroundings

# Connections to a merchant that are kept: more than any worker has slots.
_CONNECTIONS: Final = 512
_CONNECT_S: Final = 3.0
_ASK_S: Final = 5.0


class CallError(Exception):
    """A call that did not go well."""


class Refused(CallError):
    """The merchant does not want this order."""


class Failed(CallError):
    """The order was surely not carried out."""


class Unknown(CallError):
    """Nobody knows whether the order was carried out."""


class Merchants:
    """The merchants as a worker's process sees them. May be used from several threads, green or not.

    Args:
        around: where they are; its `call_s` is how long an answer is waited for.
    """

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        # Not by `requests`: its session takes a fifth of all the CPU that an order costs beside its own work.
        self._pools = {
            name: urllib3.connection_from_url(url, maxsize=_CONNECTIONS, timeout=_timeout(around.call_s), retries=False)
            for name, url in around.merchants.items()
        }
        self._lock = threading.Lock()
        self._channels: dict[str, Any] = {}

    def place(self, merchant: str, order: str) -> None:
        """The merchant gets the order: one call, or a look at its menu, the order, and its confirmation.

        Blocks until it has answered all.

        Raises:
            Refused, Failed, Unknown: as the module says.
        """
        if merchant in self._around.over_grpc:
            self._rpc(merchant, PLACE, order, self._around.call_s)
            return
        of = f"?of={self._around.calls}" if self._around.calls > 1 else ""
        if of:
            self._part(merchant, "GET", f"/menu{of}", Failed)
        try:
            answer = self._pools[merchant].request(
                "POST", f"/orders/{order}{of}", json={"order": order}, headers={"Idempotency-Key": order}
            )
        except (ConnectTimeoutError, NewConnectionError) as error:
            raise Failed(f"no connection: {error}") from error
        except HTTPError as error:
            raise Unknown(f"{type(error).__name__}: {error}") from error
        if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise Unknown(f"status {answer.status}")
        if answer.status >= HTTPStatus.BAD_REQUEST:
            raise Refused(f"status {answer.status}")
        if of:
            self._part(merchant, "POST", f"/orders/{order}/confirm{of}", Unknown)

    def _part(self, merchant: str, method: str, path: str, error: type[CallError]) -> None:
        """A call before or after the order itself; whatever goes wrong with it is this error."""
        try:
            answer = self._pools[merchant].request(method, path)
        except HTTPError as cause:
            raise error(f"{path}: {type(cause).__name__}: {cause}") from cause
        if answer.status >= HTTPStatus.BAD_REQUEST:
            raise error(f"{path}: status {answer.status}")

    def has(self, merchant: str, order: str) -> bool | None:
        """Whether the merchant has carried the order out; None = it does not tell.

        Raises:
            Failed, Unknown: nobody was reached, or there was no answer.
        """
        if merchant in self._around.over_grpc:
            known: bool | None = self._rpc(merchant, ASK, order, _ASK_S)["known"]
            return known
        try:
            status = self._pools[merchant].request("GET", f"/orders/{order}", timeout=_timeout(_ASK_S)).status
        except HTTPError as error:
            raise Unknown(f"asking: {type(error).__name__}: {error}") from error
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR and status != HTTPStatus.NOT_IMPLEMENTED:
            raise Unknown(f"asking: status {status}")
        return {HTTPStatus.OK: True, HTTPStatus.NOT_FOUND: False}.get(HTTPStatus(status))

    def _rpc(self, merchant: str, method: str, order: str, seconds: float) -> dict[str, Any]:
        grpc = _grpc()
        try:
            answer: dict[str, Any] = self._channel(merchant).unary_unary(
                method, request_serializer=lambda asked: json.dumps(asked).encode(), response_deserializer=json.loads
            )({"order": order}, timeout=seconds)
        except grpc.RpcError as error:
            # Where nobody listens gRPC says the same as where a connection was lost.
            refused = error.code() is grpc.StatusCode.UNAVAILABLE and "onnection refused" in str(error.details())
            raise (Failed if refused else Unknown)(f"{error.code().name}: {error.details()}") from error
        return answer

    def _channel(self, merchant: str) -> Any:
        # Made at the first call, in the process that calls: a channel does not survive a fork.
        with self._lock:
            channel = self._channels.get(merchant)
            if channel is None:
                channel = self._channels[merchant] = _grpc().insecure_channel(self._around.over_grpc[merchant])
            return channel


def _timeout(answer_s: float) -> urllib3.Timeout:
    return urllib3.Timeout(connect=_CONNECT_S, read=answer_s)


@cache
def _grpc() -> Any:
    """The library, told of gevent where sockets are gevent's: else its waits would stop every green thread."""
    import grpc

    try:
        from gevent.monkey import is_module_patched
    except ImportError:
        return grpc
    if is_module_patched("socket"):
        from grpc.experimental import gevent

        gevent.init_gevent()
    return grpc
