"""Packed records without an object for each: native code writes the MGETs and reads the replies, Python moves bytes.

As packed.py, whose cluster knowledge it uses; the difference is 1.5 ms of CPU for 3,000 items (keys, replies, objects).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final

from feed import native
from feed.service.job import Job, said

from .packed import PackedItems

_CONNECT_S: Final = 1.0
# So many questions may wait for answers: a server that hangs shall not fill our memory.
_MOST_WAITING: Final = 1_000


class FetchedItems(PackedItems):
    """A client of the cluster whose answers only native code looks into: give them to `native.rank`."""

    def __init__(self, ports: Sequence[int]) -> None:
        super().__init__(ports)
        self._wires: dict[int, _Wire] = {}
        self._making = asyncio.Lock()

    def close(self) -> None:
        """Ends the connections."""
        super().close()
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

    async def _replies(self, port: int, command: bytes, count: int) -> native.Replies:
        """Of one shard; asked once more if its restart has left the connection dead."""
        try:
            return await (await self._wire(port)).asked(command, count)
        except ConnectionError:
            return await (await self._wire(port)).asked(command, count)

    def _missing(self, job: Job, port: int, error: BaseException, count: int) -> None:
        if "MOVED" in str(error):
            # The next request asks anew who has what.
            self._port_of = []
        job.degraded(
            "records", f"shard {self._name(port)}: {said(error)}", f"{count} items are shown unranked, at the end"
        )

    async def _wire(self, port: int) -> _Wire:
        wire = self._wires.get(port)
        if wire is not None and not wire.ended:
            return wire
        async with self._making:
            wire = self._wires.get(port)
            if wire is None or wire.ended:
                loop = asyncio.get_running_loop()
                async with asyncio.timeout(_CONNECT_S):
                    _, wire = await loop.create_connection(lambda: _Wire(port), "127.0.0.1", port)
                self._wires[port] = wire
            return wire


class _Wire(asyncio.Protocol):
    """A connection's bytes: written without waiting, answered in order."""

    def __init__(self, port: int) -> None:
        self.ended = False
        self._port = port
        self._transport: asyncio.Transport
        self._waiting: deque[tuple[asyncio.Future[native.Replies], native.Replies]] = deque()
        self._heard_s = 0.0

    async def asked(self, command: bytes, count: int) -> native.Replies:
        """The replies to a command with so many values. Cancel it at will: other questions are not disturbed."""
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
                # Not a word since: whoever comes next shall not stand behind this.
                self.end(ConnectionError(f"asking port {self._port}: it hangs"))
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
