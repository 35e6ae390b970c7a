"""Packed records without an object for each: native code writes the MGETs and reads the replies, Python moves bytes.

Keys of a bucket share a slot, so 3,000 items are 48 MGETs on 3 sockets. Keys and replies as Python objects would cost
1.5 ms of CPU more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from feed import native
from feed.service.job import Job, said

from .buckets import located
from .wire import Wire, connected


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
            # The next request asks anew who has what.
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
