"""Reads packed records as fast as Python can: keys of a bucket share a slot, 3,000 items are 48 MGETs on 3 sockets.

Bytes go from the sockets into a list of values, and nothing looks at them on the way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import hiredis

from feed.service.job import Job, said

from .slots import BUCKETS, packed_key, slot
from .wire import Connection

Values = list[bytes | None]
# One that has not said by then who has what hangs, perhaps: the next one is asked.
_LOCATED_WITHIN_S: Final = 0.1
_SLOTS: Final = [slot(packed_key(bucket).encode()) for bucket in range(BUCKETS)]


class PackedItems:
    """A client of the cluster for packed records only.

    Args:
        ports: of its masters, on 127.0.0.1; the first that answers tells which bucket is where.
    """

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = ports
        self._connections = {port: Connection(port) for port in ports}
        # The port that has each bucket; empty = to be asked for.
        self._port_of: list[int] = []

    async def start(self) -> None:
        """Asks where the buckets are.

        Raises:
            ConnectionError: no master knows who has each slot.
        """
        for port in self._ports:
            try:
                async with asyncio.timeout(_LOCATED_WITHIN_S):
                    (ranges,) = await self._connection(port).asked([(b"CLUSTER", b"SLOTS")])
            except (OSError, hiredis.ReplyError):
                continue
            owners = [(low, high, int(node[1])) for low, high, node, *_ in ranges]
            found = [[port for low, high, port in owners if low <= one <= high] for one in _SLOTS]
            if all(found):
                self._port_of = [ports[0] for ports in found]
                return
        ports = list(self._ports)
        raise ConnectionError(f"asking where items lie: ports={ports}, expected one that knows who has each slot")

    def close(self) -> None:
        """Ends the connections."""
        for connection in self._connections.values():
            connection.close()

    async def fetched(self, job: Job, ids: Sequence[int], until_s: float) -> tuple[list[int], Values]:
        """The ids, in an order of ours, and for each its record as stored; None for what is not there.

        Shards that fail, or are late at `until_s`, are named in the job; their ids have None.
        """
        async with job.stages.running("records"):
            if not await self._located(job, until_s):
                return list(ids), [None] * len(ids)
            with job.stages.computing("records"):
                mine = self._by_port(ids)
                asked = {
                    port: job.stages.task("records", self._values(port, buckets)) for port, buckets in mine.items()
                }
            if asked:
                left_s = until_s - asyncio.get_running_loop().time()
                _, late = await asyncio.wait(asked.values(), timeout=max(0.0, left_s))
                for task in late:
                    task.cancel()
                if late:
                    await asyncio.wait(late)
        with job.stages.computing("records"):
            order: list[int] = []
            values: Values = []
            for port, task in asked.items():
                of_port = [item_id for bucket in mine[port] for item_id in bucket]
                error = TimeoutError() if task.cancelled() else task.exception()
                order += of_port
                values += self._lost(job, port, error, len(of_port)) if error else task.result()
        return order, values

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

    def _by_port(self, ids: Sequence[int]) -> dict[int, list[list[int]]]:
        """The ids of each bucket that has some, by the port that has the bucket."""
        buckets: list[list[int]] = [[] for _ in range(BUCKETS)]
        for item_id in ids:
            buckets[item_id % BUCKETS].append(item_id)
        found: dict[int, list[list[int]]] = {}
        for bucket, port in zip(buckets, self._port_of, strict=True):
            if bucket:
                found.setdefault(port, []).append(bucket)
        return found

    async def _values(self, port: int, buckets: list[list[int]]) -> Values:
        """Of one shard; asked once more if its restart has left the connection dead."""
        commands = [(b"MGET", *[packed_key(item_id).encode() for item_id in bucket]) for bucket in buckets]
        try:
            answers = await self._connection(port).asked(commands)
        except ConnectionError:
            answers = await self._connection(port).asked(commands)
        return [value for answer in answers for value in answer]

    def _lost(self, job: Job, port: int, error: BaseException, count: int) -> Values:
        if isinstance(error, hiredis.ReplyError):
            # MOVED, say: the next request asks anew who has what.
            self._port_of = []
        job.degraded(
            "records", f"shard {self._name(port)}: {said(error)}", f"{count} items are shown unranked, at the end"
        )
        return [None] * count

    def _name(self, port: int) -> int:
        """A shard as answers call it: its place in the site's file; one that is new has its port only."""
        return self._ports.index(port) if port in self._ports else port

    def _connection(self, port: int) -> Connection:
        return self._connections.setdefault(port, Connection(port))
