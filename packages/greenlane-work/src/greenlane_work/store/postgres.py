"""Records in PostgreSQL: for the workers of many machines.

A batch is one transaction of two round trips. It locks the orders that it names, in the order of their keys, so that
workers never wait for each other in a circle. Leases run on the server's clock. `synchronous_commit` is raised to `on`
where it is `off`: what was said to be recorded has to be.

A worker that is stopped in the middle of a transaction would hold its orders' locks: the server ends such a session
after 5 s. Nothing needs a session beyond its transaction, so a pooler (PgBouncer) may stand in between.
"""

from __future__ import annotations

import contextlib
import time
import urllib.parse
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Any, Final

from greenlane.errors import StoreError, StoreRefused, StoreUnavailable
from greenlane_work.drivers import psycopg_for, without_password
from greenlane_work.store.backend import Leaseholder, OneConnection, Retention, Tidied, changed, found, owners, readable
from greenlane_work.store.record import Record, State
from greenlane_work.store.rules import Found, Operation, Outcomes, decide
from greenlane_work.store.shared import Ask, Share, shared_out, workers_in

__all__ = ["Postgres"]

_FORMAT: Final = 1
#: Any number that no other program is likely to take for its own lock: "glorders" in ASCII.
_LOCK: Final = 0x676C6F7264657273
_MOST_FORGOTTEN: Final = 1000
_SCHEMA: Final = (
    "CREATE TABLE IF NOT EXISTS greenlane_format (format int NOT NULL)",
    'CREATE TABLE IF NOT EXISTS greenlane_orders (key text COLLATE "C" PRIMARY KEY, state text NOT NULL,'
    " changed timestamptz NOT NULL, record bytea NOT NULL)",
    "CREATE INDEX IF NOT EXISTS greenlane_orders_by_state ON greenlane_orders (state, changed)",
    "CREATE TABLE IF NOT EXISTS greenlane_owners (name text PRIMARY KEY, until timestamptz NOT NULL)",
    f"INSERT INTO greenlane_format SELECT {_FORMAT} WHERE NOT EXISTS (SELECT FROM greenlane_format)",
)
_RULES: Final = (
    "SELECT set_config('statement_timeout', '5s', true), set_config('lock_timeout', '2s', true),"
    " set_config('idle_in_transaction_session_timeout', '5s', true), set_config('synchronous_commit',"
    " CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END,"
    " true)"
)
_RENEW: Final = (
    "INSERT INTO greenlane_owners VALUES (%s, clock_timestamp() + %s * interval '1 second')"
    " ON CONFLICT (name) DO UPDATE SET until = excluded.until"
)
# A row to lock, for orders that have none: others that begin them wait for our commit.
_PLACES: Final = (
    "INSERT INTO greenlane_orders SELECT key, 'new', clock_timestamp(), '' FROM unnest(%s::text[]) AS given (key)"
    " ON CONFLICT (key) DO NOTHING"
)
_READ: Final = "SELECT key, record FROM greenlane_orders WHERE key = ANY (%s) ORDER BY key FOR UPDATE"
_LEFT: Final = (
    "SELECT name, extract(epoch FROM until - clock_timestamp())::float8 FROM greenlane_owners WHERE name = ANY (%s)"
)
_WRITE: Final = (
    "UPDATE greenlane_orders AS o SET state = n.state, changed = clock_timestamp(), record = n.record"
    " FROM unnest(%s::text[], %s::text[], %s::bytea[]) AS n (key, state, record) WHERE o.key = n.key"
)
_EMPTY: Final = "DELETE FROM greenlane_orders WHERE key = ANY (%s) AND record = ''"
# Limits that workers share: a row for each key of which somebody wants or has calls.
_LIMITS: Final = 'CREATE TABLE IF NOT EXISTS greenlane_limits (key text COLLATE "C" PRIMARY KEY, record text NOT NULL)'
# It locks rows that are there, too: none can be taken away before it is read.
_LIMIT_PLACES: Final = (
    "INSERT INTO greenlane_limits SELECT key, '' FROM unnest(%s::text[]) AS given (key)"
    " ON CONFLICT (key) DO UPDATE SET record = '' WHERE false"
)
_LIMIT_READ: Final = "SELECT key, record FROM greenlane_limits WHERE key = ANY (%s)"
_LIMIT_WRITE: Final = (
    "UPDATE greenlane_limits AS o SET record = n.record FROM unnest(%s::text[], %s::text[]) AS n (key, record)"
    " WHERE o.key = n.key"
)
_LIMIT_EMPTY: Final = "DELETE FROM greenlane_limits WHERE key = ANY (%s) AND record = ''"
_FORGET: Final = (
    "DELETE FROM greenlane_orders WHERE key IN (SELECT key FROM greenlane_orders WHERE state = %s"
    " AND changed < clock_timestamp() - %s * interval '1 second' LIMIT %s FOR UPDATE SKIP LOCKED)"
)
#: SQLSTATEs, or how they begin, that do not pass by themselves: authorization, catalogue names, privileges.
_REFUSED: Final = ("28", "3D", "3F", "42")
#: A connection that is refused has no SQLSTATE in libpq: these words stand in its message.
_REFUSALS: Final = (
    "authentication failed",
    "does not exist",
    "no pg_hba.conf entry",
    "permission denied",
    "no password",
)


class Postgres(OneConnection):
    """A `Backend` in a PostgreSQL database, by psycopg 3."""

    def __init__(self, url: str, retention: Retention) -> None:
        """Nothing is opened yet. Raises SettingsError where psycopg is not installed, or cannot read the URL.

        Args:
            url: `postgresql://user:password@host/database`, with libpq's options.
            retention: how long records are kept.
        """
        self._psycopg = psycopg_for("task_store", url)
        self.place = without_password(url)
        # psycopg waits in C, unless it was imported in a process whose `select` is green.
        self.blocks = self._psycopg.waiting.wait is getattr(self._psycopg.waiting, "wait_c", None)
        self._url = _with_defaults(url)
        self._retention = retention
        # The table of limits is there.
        self._shares = False

    def apply(self, operations: Sequence[Operation], owner: Leaseholder, renew: bool) -> Outcomes:
        """Apply a batch; see `Backend`. Cost: two round trips and one commit, whatever the batch holds."""
        keys = sorted({operation.key for operation in operations})
        with self._transaction("write to the store", pipelined=True) as connection:
            connection.execute(_RULES)
            if renew:
                connection.execute(_RENEW, (owner.name, owner.lease_s))
            if not keys:
                return []
            connection.execute(_PLACES, (keys,))
            read = connection.execute(_READ, (keys,)).fetchall()
            before = {key: found(key, raw, self.place) for key, raw in read}
            if len(before) < len(keys):  # forgotten between the two statements, after its time: nothing is locked
                rule = "orders that are not being forgotten"
                raise StoreUnavailable("write to the store", name="store", value=self.place, rule=rule)
            records: dict[str, Found] = dict(before)
            left = self._left_s(connection, owners(before, owner.name))
            left[owner.name] = owner.lease_s
            outcomes = decide(operations, records, time.time(), lambda name: left.get(name, 0.0))
            written = list(changed(before, records))
            if written:
                connection.execute(_WRITE, [list(column) for column in zip(*written, strict=True)])
            if any(record is None for record in records.values()):
                connection.execute(_EMPTY, (keys,))
        return outcomes

    def share(self, asked: Sequence[Ask], owner: Leaseholder, renew: bool) -> list[Share]:
        """Give shares of limits; see `Backend`. Cost: a few round trips and one commit."""
        keys = sorted(ask.key for ask in asked)
        with self._transaction("share limits in the store", pipelined=True) as connection:
            connection.execute(_RULES)
            if not self._shares:
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
                connection.execute(_LIMITS)
            if renew:
                connection.execute(_RENEW, (owner.name, owner.lease_s))
            connection.execute(_LIMIT_PLACES, (keys,))
            before = dict(connection.execute(_LIMIT_READ, (keys,)).fetchall())
            left_s = self._left_s(connection, sorted(workers_in(before.values()) - {owner.name}))
            written, given = shared_out(before, asked, owner.name, lambda name: left_s.get(name, 0.0), time.time())
            new = [(key, text) for key, text in written.items() if text != before[key]]
            if new:
                connection.execute(_LIMIT_WRITE, [list(column) for column in zip(*new, strict=True)])
            if not all(written.values()):
                connection.execute(_LIMIT_EMPTY, (keys,))
        self._shares = True
        return given

    def leave(self, owner: Leaseholder) -> None:
        """End a lease; see `Backend`."""
        with self._transaction("leave the store") as connection:
            connection.execute("DELETE FROM greenlane_owners WHERE name = %s", (owner.name,))

    def find(self, state: State | None, most: int) -> Iterator[tuple[str, Record]]:
        """Give records, the latest change first; see `Backend`."""
        query = "SELECT key, record FROM greenlane_orders WHERE state = ANY (%s) ORDER BY changed DESC LIMIT %s"
        states = [state.value] if state is not None else [each.value for each in State]
        with self._transaction("read the store") as connection:
            rows = connection.execute(query, (states, most)).fetchall()
        yield from readable(rows)

    def tidy(self) -> Tidied:
        """Forget what is over its time; see `Backend`."""
        gone = 0
        with self._transaction("tidy the store") as connection:
            for state in State:
                values = (state.value, self._retention.seconds(state), _MOST_FORGOTTEN)
                gone += connection.execute(_FORGET, values).rowcount
            connection.execute("DELETE FROM greenlane_owners WHERE until < clock_timestamp() - interval '1 hour'")
        return Tidied(gone, gone >= _MOST_FORGOTTEN)

    def _raw(self, key: str) -> bytes | None:
        with self._transaction("read the store") as connection:
            row = connection.execute("SELECT record FROM greenlane_orders WHERE key = %s", (key,)).fetchone()
        return None if row is None else row[0]

    def _left_s(self, connection: Any, names: list[str]) -> dict[str, float]:
        """Seconds that these owners' leases have left."""
        return dict(connection.execute(_LEFT, (names,)).fetchall()) if names else {}

    @contextlib.contextmanager
    def _transaction(self, attempted: str, *, pipelined: bool = False) -> Iterator[Any]:
        """A block that commits. Pipelined, statements are sent when a result is wanted, and with the commit."""
        try:
            connection = self._connection()
            together = connection.pipeline() if pipelined and self._psycopg.Pipeline.is_supported() else nullcontext()
            with together, connection.transaction():
                yield connection
        except self._psycopg.Error as error:
            self.close()
            raise _error(attempted, self.place, error) from error

    def _connection(self) -> Any:
        if self._opened is None or self._opened.closed:
            connection = self._psycopg.connect(self._url, autocommit=True, prepare_threshold=None)
            try:
                self._set_up(connection)
            except BaseException:
                connection.close()
                raise
            self._opened = connection
        return self._opened

    def _set_up(self, connection: Any) -> None:
        encoding = connection.info.parameter_status("server_encoding")
        if encoding != "UTF8":  # it would refuse names of orders, and with one of them the batch that it is in
            hint = "CREATE DATABASE orders ENCODING 'UTF8' TEMPLATE template0"
            raise StoreRefused("open the store", name="server_encoding", value=encoding, rule="'UTF8'", hint=hint)
        exists = connection.execute("SELECT to_regclass('greenlane_owners') IS NOT NULL").fetchone()[0]
        if not exists:
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
                for statement in _SCHEMA:
                    connection.execute(statement)
        there = connection.execute("SELECT max(format) FROM greenlane_format").fetchone()[0]
        if there != _FORMAT:
            rule = f"format {_FORMAT}, which this release reads"
            hint = "use the release that made it, or another database"
            raise StoreRefused("open the store", name="greenlane_format", value=there, rule=rule, hint=hint)


def _with_defaults(url: str) -> str:
    """The URL with time limits, where it has none of its own: a server that is gone must not be waited for long."""
    # By hand: urllib takes one of the slashes of `postgresql:///database` away.
    address, _, given = url.partition("?")
    ours = {
        "connect_timeout": "3",
        "tcp_user_timeout": "5000",
        "application_name": "greenlane",
        "client_encoding": "utf8",
    }
    options = {**ours, **dict(urllib.parse.parse_qsl(given, keep_blank_values=True))}
    return f"{address}?{urllib.parse.urlencode(options, quote_via=urllib.parse.quote)}"


def _error(attempted: str, place: str, error: Any) -> StoreError:
    code, said = error.sqlstate or "", " ".join(str(error).split())
    refused = code.startswith(_REFUSED) or (not code and any(words in said for words in _REFUSALS))
    kind = StoreRefused if refused else StoreUnavailable
    hint = "look at user, password and privileges" if refused else "see whether the server runs and has room"
    return kind(attempted, name="store", value=place, rule=f"a PostgreSQL that serves ({said})", hint=hint)
