"""Which master of the cluster has which bucket of packed records: the keys of a bucket share a hash slot."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any, Final

import hiredis

from .slots import BUCKETS, packed_key, slot

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
    raise ConnectionError(f"asking where items lie: ports={list(ports)}, expected one that knows who has each slot")


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
