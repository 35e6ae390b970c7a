"""Pools of connections that are exhausted: which threads wait for one, and where those are that have one.

The pools' own counters are read, of SQLAlchemy, psycopg_pool, redis-py and urllib3. A pool is found by a thread that
waits for it: where nobody waits nothing is looked at.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any, Final

from greenlane.troubles.stacks import outward
from greenlane.troubles.thread_pools import Standing
from greenlane.troubles.trouble import Trouble

__all__ = ["exhausted_pools"]

#: How deep below the pool's own function a thread waits.
_DEPTH: Final = 12
#: Function -> (its file, library, how many connections the pool has). The function's `self` is the pool.
_POOLS: Final[Mapping[str, tuple[str, str, Callable[[Any], int]]]] = {
    "_do_get": ("sqlalchemy/pool/impl.py", "SQLAlchemy", lambda pool: pool.checkedout()),
    "_getconn_unchecked": ("psycopg_pool/pool.py", "psycopg_pool", lambda pool: pool.get_stats()["pool_size"]),
    "get_connection": ("redis/connection.py", "redis", lambda pool: pool.max_connections),
    "_get_conn": ("urllib3/connectionpool.py", "urllib3", lambda pool: pool.pool.maxsize),
}
_NONE: Final = ("", "", len)


def exhausted_pools(threads: Sequence[Standing]) -> Iterator[Trouble]:
    """Pools for whose connections threads wait."""
    waiting: dict[int, tuple[Any, str, Callable[[Any], int], list[Standing]]] = {}
    busy = []
    for each in threads:
        found = _find_awaited(each.frame)
        if found is not None:
            pool, library, size = found
            waiting.setdefault(id(pool), (pool, library, size, []))[3].append(each)
        # The main thread of a server waits for connections of clients.
        elif each.thread is not threading.main_thread() and not each.is_idle:
            busy.append(each)
    for number, (pool, library, size, its) in waiting.items():
        holders = Counter(each.place for each in busy).most_common(1)
        held = f"held by {holders[0][0]} in {holders[0][1]} threads" if holders else "no thread that runs has one"
        count = f"{len(its)} threads wait" if len(its) > 1 else "a thread waits"
        text = f"pool of {size(pool)} connections ({library}) exhausted: {count} for {{for_s}}; {held}"
        yield Trouble(("connections", number), text)


def _find_awaited(frame: FrameType) -> tuple[Any, str, Callable[[Any], int]] | None:
    if not frame.f_code.co_filename.endswith(("/threading.py", "/queue.py")):
        return None
    for each in outward(frame, _DEPTH):
        file, library, size = _POOLS.get(each.f_code.co_name, _NONE)
        if file and each.f_code.co_filename.endswith(file):
            return each.f_locals.get("self"), library, size
    return None
