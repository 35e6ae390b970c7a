"""Packed records without an object for each: native code writes the MGETs and reads the replies, Python moves bytes.

Keys of a bucket share a slot, so 3,000 items are 48 MGETs on 3 sockets. Keys and replies as Python objects would cost
1.5 ms of CPU more.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

import hiredis

from feed import native
from feed.service.job import Job, said
from feed.stores.items import BUCKETS, packed_key, slot


class FetchedItems:
    """A client of the cluster whose answers only native code looks into: give them to `native.rank`.

    Args:
        ports: of the cluster's masters, on 127.0.0.1.
    """

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = ports
        # The port that has each bucket; empty = to be asked for.
        self._port_of: list[int] = []
        self._wires: dict[int, Wire] = {}
        self._making = asyncio.Lock()

    async def start(self) -> None:
        """Asks where the buckets are.

        Raises:
            ConnectionError: no master knows.
        """
        self._port_of = await located(self._ports)

    def close(self) -> None:
        """Ends the connections."""
        for wire in self._wires.values():
            wire.end(ConnectionError("closed"))

    async def records(self, job: Job, ids: list[int], until_s: float) -> native.Fetched | None:
        """The ids' records, in their order; None when nobody knows where they lie.

        Shards that fail, or are late at `until_s`, are named in the job.
        """
        async with job.stages.running("records"):
            if not await self._located(job, until_s):
                return None
            with job.stages.computing("records"):
                ports = sorted(set(self._port_of), key=self._name)
                shards = [ports.index(port) for port in self._port_of]
                asking = native.Asking(ids, shards, len(ports))
                asked = {
                    shard: job.stages.task("records", self._replies(port, asking.command(shard), asking.count(shard)))
                    for shard, port in enumerate(ports)
                    if asking.count(shard)
                }
            if asked:
                left_s = until_s - asyncio.get_running_loop().time()
                _, late = await asyncio.wait(asked.values(), timeout=max(0.0, left_s))
                for task in late:
                    task.cancel()
                if late:
                    await asyncio.wait(late)
        replies: list[native.Replies | None] = [None] * len(ports)
        for shard, task in asked.items():
            error = TimeoutError() if task.cancelled() else task.exception()
            if error is None:
                replies[shard] = task.result()
            else:
                self._missing(job, ports[shard], error, asking.count(shard))
        return native.Fetched(asking, replies)

    async def _located(self, job: Job, until_s: float) -> bool:
        """It is known where the buckets are."""
        if self._port_of:
            return True
        try:
            async with asyncio.timeout_at(until_s):
                await self.start()
        except OSError as error:
            job.degraded("records", said(error), "no item can be ranked")
            return False
        return True

    async def _replies(self, port: int, command: bytes, count: int) -> native.Replies:
        """Of one shard; asked once more if its restart has left the connection dead."""
        try:
            return await (await self._wire(port)).asked(command, count)
        except ConnectionError:
            return await (await self._wire(port)).asked(command, count)

    def _missing(self, job: Job, port: int, error: BaseException, count: int) -> None:
        if "MOVED" in str(error):
            # The next request asks again who has what.
            self._port_of = []
        job.degraded(
            "records", f"shard {self._name(port)}: {said(error)}", f"{count} items are shown unranked, at the end"
        )

    def _name(self, port: int) -> int:
        """A shard as answers call it: its place in the site's file; one that is new has its port only."""
        return self._ports.index(port) if port in self._ports else port

    async def _wire(self, port: int) -> Wire:
        wire = self._wires.get(port)
        if wire is not None and not wire.ended:
            return wire
        async with self._making:
            wire = self._wires.get(port)
            if wire is None or wire.ended:
                wire = self._wires[port] = await connected(port)
            return wire


# --- One connection to a shard: commands are written without waiting, native code reads the replies, in order.

_CONNECT_S: Final = 1.0
# This many questions may wait for answers: a server that hangs shall not fill our memory.
_MOST_WAITING: Final = 1_000


async def connected(port: int) -> Wire:
    """A new connection to 127.0.0.1:port.

    Raises:
        OSError: nobody listens, or takes it within a second.
    """
    async with asyncio.timeout(_CONNECT_S):
        _, wire = await asyncio.get_running_loop().create_connection(lambda: Wire(port), "127.0.0.1", port)
    return wire


class Wire(asyncio.Protocol):
    """A connection's bytes: written without waiting, answered in order."""

    def __init__(self, port: int) -> None:
        self.ended = False
        self._port = port
        self._transport: asyncio.Transport
        self._waiting: deque[tuple[asyncio.Future[native.Replies], native.Replies]] = deque()
        self._heard_s = 0.0

    async def asked(self, command: bytes, count: int) -> native.Replies:
        """The replies to a command with this many values. Cancel it at will: other questions are not disturbed."""
        if len(self._waiting) >= _MOST_WAITING:
            raise ConnectionError(f"asking port {self._port}: {len(self._waiting)} questions wait for answers")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[native.Replies] = loop.create_future()
        self._waiting.append((future, native.Replies(count)))
        self._transport.write(command)
        sent_s = loop.time()
        try:
            return await future
        except asyncio.CancelledError:
            if self._heard_s < sent_s:
                # Nothing came since: later questions must not wait behind this one.
                self.end(ConnectionError(f"asking port {self._port}: no answer in time"))
            raise

    def end(self, error: Exception) -> None:
        """Closes the connection; who waits gets the error."""
        self.ended = True
        self._transport.abort()
        while self._waiting:
            future, _ = self._waiting.popleft()
            if not future.done():
                future.set_exception(error)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """From the loop."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """From the loop."""
        self._heard_s = asyncio.get_running_loop().time()
        while data and self._waiting:
            future, replies = self._waiting[0]
            try:
                rest = replies.feed(data)
            except ConnectionError as error:
                self.end(error)
                return
            if rest is None:
                return
            self._waiting.popleft()
            if not future.done():
                future.set_result(replies)
            data = data[len(data) - rest :]

    def connection_lost(self, error: Exception | None) -> None:
        """From the loop."""
        self.end(error or ConnectionResetError("Connection closed by server."))


# --- Which master of the cluster has which bucket of packed records: the keys of a bucket share a hash slot.

# One that has not said by then who has what hangs, perhaps: the next one is asked.
_WITHIN_S: Final = 0.1
_SLOTS: Final = [slot(packed_key(bucket).encode()) for bucket in range(BUCKETS)]


async def located(ports: Sequence[int]) -> list[int]:
    """The port of each bucket's master.

    Args:
        ports: of masters on 127.0.0.1; the first that knows tells.

    Raises:
        ConnectionError: none of them knows who has each slot.
    """
    for port in ports:
        with contextlib.suppress(OSError, hiredis.ReplyError):
            async with asyncio.timeout(_WITHIN_S):
                ranges = await _ranges(port)
            owners = [(low, high, int(node[1])) for low, high, node, *_ in ranges]
            found = [[port for low, high, port in owners if low <= one <= high] for one in _SLOTS]
            if all(found):
                return [masters[0] for masters in found]
    raise ConnectionError(f"asking for the cluster's slots: ports={list(ports)}, expected one that answers")


async def _ranges(port: int) -> list[Any]:
    """CLUSTER SLOTS: lowest slot, highest slot, master, replicas."""
    incoming, outgoing = await asyncio.open_connection("127.0.0.1", port)
    try:
        # hiredis' stub takes tuples of one only.
        outgoing.write(hiredis.pack_command((b"CLUSTER", b"SLOTS")))  # type: ignore[arg-type]
        reader = hiredis.Reader()
        while (answer := reader.gets()) is False:
            if not (data := await incoming.read(1 << 16)):
                raise ConnectionResetError(f"asking port {port}: the connection ended")
            reader.feed(data)
    finally:
        outgoing.close()
    if isinstance(answer, hiredis.ReplyError):
        raise answer
    found: list[Any] = answer
    return found
