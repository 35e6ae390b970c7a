"""The worker without Celery, on one asyncio loop: `python -m pos.asyncio_worker --queue orders --slots 200`.

It reads Celery's messages, treats an order as `pos.worker` does, and has no limit per merchant. The connection to the
broker is read and written on the loop. An order that failed keeps its slot until its next attempt.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import signal
from collections.abc import Sequence
from functools import cache
from http import HTTPStatus
from typing import Any, Final

import aiohttp
from kombu import Consumer, Queue

from .calls import CallError, Failed, Refused, Unknown
from .journal import Event, Journal
from .merchants.names import ASK, PLACE
from .queueing import application
from .surroundings import Surroundings
from .worker import RETRIES, prepared, unwanted

# As `pos.worker` waits and asks.
_FIRST_S, _MOST_S = 0.5, 30.0
_ASK_S: Final = 5.0
_READ_S: Final = 0.001


class Merchants:
    """The merchants as a loop sees them; what goes wrong is said as `pos.calls` says it."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))

    async def close(self) -> None:
        """Ends its connections."""
        await self._session.close()

    async def place(self, merchant: str, order: str) -> None:
        """The merchant gets the order, by one call, or by three (menu, order, confirmation)."""
        around = self._around
        if merchant in around.over_grpc:
            await self._rpc(merchant, PLACE, order, around.call_s)
            return
        of = {"of": str(around.calls)} if around.calls > 1 else {}
        if of and await self._http(merchant, "GET", "/menu", of, Failed) >= HTTPStatus.BAD_REQUEST:
            raise Failed("the menu was refused")
        status = await self._http(merchant, "POST", f"/orders/{order}", of, Unknown)
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise Unknown(f"status {status}")
        if status >= HTTPStatus.BAD_REQUEST:
            raise Refused(f"status {status}")
        confirm = f"/orders/{order}/confirm"
        if of and await self._http(merchant, "POST", confirm, of, Unknown) >= HTTPStatus.BAD_REQUEST:
            raise Unknown("the confirmation was refused")

    async def has(self, merchant: str, order: str) -> bool | None:
        """Whether the merchant has carried the order out; None = it does not tell."""
        if merchant in self._around.over_grpc:
            known: bool | None = (await self._rpc(merchant, ASK, order, _ASK_S))["known"]
            return known
        status = await self._http(merchant, "GET", f"/orders/{order}", {}, Unknown)
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR and status != HTTPStatus.NOT_IMPLEMENTED:
            raise Unknown(f"asking: status {status}")
        return {HTTPStatus.OK: True, HTTPStatus.NOT_FOUND: False}.get(HTTPStatus(status))

    async def _http(
        self, merchant: str, method: str, path: str, query: dict[str, str], error: type[CallError]
    ) -> int:  # fmt: skip
        order = path.split("/")[2] if path.startswith("/orders/") else ""
        placing = method == "POST" and order
        try:
            async with self._session.request(
                method, f"{self._around.merchants[merchant]}{path}", params=query,
                json={"order": order} if placing else None, headers={"Idempotency-Key": order} if placing else None,
                timeout=aiohttp.ClientTimeout(total=self._around.call_s),
            ) as answer:  # fmt: skip
                await answer.read()
                return answer.status
        except aiohttp.ClientConnectorError as cause:
            raise Failed(f"no connection: {cause}") from cause
        except (aiohttp.ClientError, TimeoutError) as cause:
            raise error(f"{type(cause).__name__}: {cause}") from cause

    async def _rpc(self, merchant: str, method: str, order: str, seconds: float) -> dict[str, Any]:
        import grpc

        call = _channel(self._around.over_grpc[merchant]).unary_unary(
            method, request_serializer=lambda asked: json.dumps(asked).encode(), response_deserializer=json.loads
        )
        try:
            answer: dict[str, Any] = await call({"order": order}, timeout=seconds)
        except grpc.RpcError as error:
            refused = error.code() is grpc.StatusCode.UNAVAILABLE and "onnection refused" in str(error.details())
            raise (Failed if refused else Unknown)(f"{error.code().name}: {error.details()}") from error
        return answer


@cache
def _channel(address: str) -> Any:
    import grpc

    return grpc.aio.insecure_channel(address)


class Worker:
    """Takes orders from a queue, as many at once as it has slots."""

    def __init__(self, around: Surroundings, queue: str, slots: int) -> None:
        self._around = around
        self._journal = Journal(around.journal)
        self._queue, self._slots = queue, slots
        self._running: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Until SIGTERM; then what runs has some seconds."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        loop.add_signal_handler(signal.SIGTERM, ended.set)
        self._merchants = Merchants(self._around)
        connection = application(self._around).connection_for_read()
        channel = connection.default_channel
        channel.basic_qos(0, self._slots, False)
        consumer = Consumer(channel, [Queue(self._queue)], on_message=self._received, auto_declare=False)
        consumer.consume()

        def read() -> None:
            with contextlib.suppress(TimeoutError):
                connection.drain_events(timeout=_READ_S)

        socket = connection.connection.sock
        loop.add_reader(socket, read)
        await ended.wait()
        consumer.cancel()
        loop.remove_reader(socket)
        if self._running:
            await asyncio.wait(self._running, timeout=5)
        await self._merchants.close()
        connection.close()

    def _received(self, message: Any) -> None:
        task = asyncio.ensure_future(self._order(message))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _order(self, message: Any) -> None:
        _, given, *_ = message.decode()
        order, merchant = given["order"], given["merchant"]
        doubtful = bool(message.delivery_info.get("redelivered"))
        for attempt in range(RETRIES + 1):
            self._journal.tell(Event.BEGAN, order, merchant)
            try:
                await self._sent(order, merchant, doubtful, given.get("until", 0.0))
            except CallError as error:
                doubtful = True
                event = Event.FAILED if attempt < RETRIES else Event.DEAD
                self._journal.tell(event, order, merchant, str(error))
                if event is Event.DEAD:
                    message.reject()
                    return
                await asyncio.sleep(random.uniform(0, min(_MOST_S, _FIRST_S * 2**attempt)))
            else:
                message.ack()
                return

    async def _sent(self, order: str, merchant: str, doubtful: bool, until: float) -> None:
        prepared(order, self._around.work_ms)
        if doubtful and await self._merchants.has(merchant, order):
            self._journal.tell(Event.DONE, order, merchant, "the merchant had it")
            return
        if (event := unwanted(order, until)) is not None:
            self._journal.tell(event, order, merchant)
            return
        self._journal.tell(Event.CALLED, order, merchant)
        try:
            await self._merchants.place(merchant, order)
        except Refused as error:
            self._journal.tell(Event.REFUSED, order, merchant, str(error))
        else:
            self._journal.tell(Event.DONE, order, merchant)


def main(argv: Sequence[str] | None = None) -> None:
    """Works until it is ended."""
    parser = argparse.ArgumentParser(prog="python -m pos.asyncio_worker", description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--queue", required=True)
    parser.add_argument("--slots", type=int, default=200)
    given = parser.parse_args(argv)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(Worker(Surroundings.here(), given.queue, given.slots).run())


if __name__ == "__main__":
    main()
