"""Records in Redis: for the workers of many machines.

A record is replaced where it is still what it was when it was read (compare and set, in a script of three lines); an
order that somebody else changed meanwhile is read and decided again. Leases are keys that expire by themselves.

Redis may evict keys unless it is set up not to, so its policy is checked when a connection is made. It is
refused where it writes no file (`appendonly no`) or may evict keys (`maxmemory-policy`), unless the URL says
`?may_forget=1`. With `appendfsync everysec` a machine that loses power forgets about a second; with `always` nothing.
A replica that is promoted may lack the last writes: Redis answers before it has copied them.

One server, or what stands for one (Sentinel's address, a proxy); not Redis Cluster.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from greenlane.errors import StoreError, StoreRefused, StoreUnavailable
from greenlane_work.drivers import redis_client, redis_for, without_password
from greenlane_work.store.backend import Backend, Decide, Leaseholder, Retention, Rows, Table, Tidied, readable
from greenlane_work.store.record import Record, State

__all__ = ["Redis"]

_TIMEOUT_S: Final = 3.0
#: How often an order that others keep changing is read again. More than workers that could be at one order.
_ROUNDS: Final = 50
_REPLACE: Final = """
local there = redis.call('GET', KEYS[1])
if (there and redis.sha1hex(there) or '') ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
"""
#: How errors begin that pass by themselves: full, a failover, starting, a disk that it cannot write to.
_LATER: Final = ("OOM", "READONLY", "LOADING", "MISCONF", "MASTERDOWN", "BUSY", "TRYAGAIN", "CLUSTERDOWN")


class Redis(Backend):
    """A `Backend` in a Redis, by redis-py."""

    #: Its sockets are Python's, so they are green where those are.
    blocks = False

    def __init__(self, url: str, retention: Retention, *, prefix: str = "greenlane:", may_forget: bool = False) -> None:
        """Nothing is opened yet. Raises SettingsError where redis-py is not installed, or cannot read the URL.

        Args:
            url: `redis://user:password@host:port/database`, or rediss, unix.
            retention: how long records are kept.
            prefix: of all its keys.
            may_forget: use it although it may forget orders; then they are called again.
        """
        self._redis = redis_for("task_store", url)
        self.place = without_password(url)
        self._url = url
        self._retention = retention
        self._prefix = prefix
        self._may_forget = may_forget

    def _exchange(self, table: Table, keys: list[str], decided: Decide, owner: Leaseholder, renew: bool) -> None:
        """See `Backend`. Cost: two round trips, whatever the batch holds, and further ones for what others change."""
        with self._client("write to the store") as client:
            if renew:
                client.set(self._owner(owner.name), b"1", px=max(int(owner.lease_s * 1000), 1))
            for _ in range(_ROUNDS):
                if not keys:
                    return
                raw: Rows = dict(zip(keys, client.mget([self._name(table, key) for key in keys]), strict=True))
                keys = self._replace(client, table, raw, decided(raw, lambda names: self._left_s(client, names)), owner)
        rule = "orders and limits that others leave alone"
        raise StoreUnavailable("write to the store", name="store", value=self.place, rule=rule)

    def _replace(
        self, client: Any, table: Table, raw: Rows, new: dict[str, tuple[str, bytes]], owner: Leaseholder
    ) -> list[str]:
        """Write what is as it was when it was read; gives the keys of the rest."""
        pipeline = client.pipeline(transaction=False)
        for key, (state, record) in new.items():
            before = raw[key]
            sha = hashlib.sha1(before).hexdigest() if before is not None else ""
            keep_s = self._retention.seconds(State(state)) if table is Table.ORDERS else owner.lease_s * 10
            pipeline.eval(_REPLACE, 1, self._name(table, key), sha, record or b"{}", max(int(keep_s * 1000), 1))
        return [key for key, replaced in zip(new, pipeline.execute() if new else (), strict=True) if not replaced]

    def leave(self, owner: Leaseholder) -> None:
        """End a lease; see `Backend`."""
        with self._client("leave the store") as client:
            client.delete(self._owner(owner.name))

    def find(self, state: State | None, most: int) -> Iterator[tuple[str, Record]]:
        """Give records in no order; see `Backend`. Cost: reads all of them where few are in that state."""
        with self._client("read the store") as client:
            order = self._name(Table.ORDERS, "")
            literal = re.sub(r"([][*?^\\])", r"\\\1", order)
            keys = client.scan_iter(match=f"{literal}*", count=1000)
            while most > 0:
                some = [key for _, key in zip(range(1000), keys, strict=False)]
                if not some:
                    return
                rows = zip((key.decode()[len(order) :] for key in some), client.mget(some), strict=True)
                for key, record in readable(rows):
                    if (state is None or record.state is state) and most > 0:
                        most -= 1
                        yield key, record

    def tidy(self) -> Tidied:
        """Nothing is to do: keys expire by themselves."""
        return Tidied(0, False)

    def _raw(self, key: str) -> bytes | None:
        with self._client("read the store") as client:
            raw: bytes | None = client.get(self._name(Table.ORDERS, key))
        return raw

    def _left_s(self, client: Any, owners: Iterable[str]) -> dict[str, float]:
        """Seconds that these owners' leases have left."""
        names = [*owners]
        pipeline = client.pipeline(transaction=False)
        for name in names:
            pipeline.pttl(self._owner(name))
        return {name: max(left_ms, 0) / 1000 for name, left_ms in zip(names, pipeline.execute(), strict=True)}

    def _name(self, table: Table, key: str) -> str:
        return f"{self._prefix}{table.value[:-1]}:{key}"

    def _owner(self, name: str) -> str:
        return f"{self._prefix}owner:{name}"

    @contextlib.contextmanager
    def _client(self, attempted: str) -> Iterator[Any]:
        try:
            if self._opened is None:
                self._opened = self._connected()
            yield self._opened
        except self._redis.RedisError as error:
            self.close()
            raise _error(attempted, self.place, error) from error

    def _connected(self) -> Any:
        client = redis_client(self._url, _TIMEOUT_S, single_connection_client=True)
        try:
            client.ping()
            if not self._may_forget:
                self._keeps(client)
        except BaseException:
            client.close()
            raise
        return client

    def _keeps(self, client: Any) -> None:
        """Refuse a server that forgets. One that does not say (managed, restricted) is taken at its word."""
        try:
            said = {**client.config_get("appendonly"), **client.config_get("maxmemory-policy")}
        except self._redis.ResponseError:
            return
        for name, rule in (("appendonly", "yes"), ("maxmemory-policy", "noeviction")):
            if said.get(name, rule) != rule:
                hint = f"`CONFIG SET {name} {rule}` and its file, or ?may_forget=1 where orders may be called again"
                raise StoreRefused(
                    "open the store",
                    name=name,
                    value=said[name],
                    rule=f"{rule!r}: orders must not be forgotten",
                    hint=hint,
                )


def _error(attempted: str, place: str, error: Any) -> StoreError:
    said, name = " ".join(str(error).split()), type(error).__name__
    gone = name in ("ConnectionError", "TimeoutError", "BusyLoadingError", "ReadOnlyError", "OutOfMemoryError")
    later = (gone or said.startswith(_LATER)) and "Authentication" not in said
    kind = StoreUnavailable if later else StoreRefused
    hint = "see whether the server runs and has room" if later else "look at user, password and rights (ACL)"
    return kind(attempted, name="store", value=place, rule=f"a Redis that serves ({said})", hint=hint)
