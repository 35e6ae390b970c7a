"""Records in PostgreSQL: for the workers of many machines.

A batch is one transaction of two round trips. It locks the orders that it names, in the order of their keys, so that
workers never wait for each other in a circle. Leases run on the server's clock. `synchronous_commit` is raised to `on`
where it is `off`: what was said to be recorded has to be.

A worker that is stopped in the middle of a transaction would hold its orders' locks: the server ends such a session
after 5 s. Nothing needs a session beyond its transaction, so a pooler (PgBouncer) may stand in between.
"""

from __future__ import annotations

import contextlib
import urllib.parse
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any, Final

from greenlane.errors import StoreError, StoreRefused, StoreUnavailable
from greenlane_work.drivers import psycopg_for, without_password
from greenlane_work.store.backend import Backend, Decide, Leaseholder, Retention, Rows, Table, Tidied, readable
from greenlane_work.store.record import Record, State

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
    # Of which somebody wants or has calls.
    'CREATE TABLE IF NOT EXISTS greenlane_limits (key text COLLATE "C" PRIMARY KEY, record text NOT NULL)',
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
# A row to lock, for what has none: others that want it wait for our commit. It locks rows that are there, too.
_PLACES: Final = {
    Table.ORDERS: "INSERT INTO greenlane_orders SELECT key, 'new', clock_timestamp(), '' FROM unnest(%s::text[])"
    " AS given (key) ON CONFLICT (key) DO UPDATE SET record = '' WHERE false",
    Table.LIMITS: "INSERT INTO greenlane_limits SELECT key, '' FROM unnest(%s::text[])"
    " AS given (key) ON CONFLICT (key) DO UPDATE SET record = '' WHERE false",
}
_LEFT: Final = (
    "SELECT name, extract(epoch FROM until - clock_timestamp())::float8 FROM greenlane_owners WHERE name = ANY (%s)"
)
_WRITE: Final = {
    Table.ORDERS: "UPDATE greenlane_orders AS o SET state = n.state, changed = clock_timestamp(), record = n.record"
    " FROM unnest(%s::text[], %s::text[], %s::bytea[]) AS n (key, state, record) WHERE o.key = n.key",
    Table.LIMITS: "UPDATE greenlane_limits AS o SET record = n.record"
    " FROM unnest(%s::text[], %s::text[], %s::text[]) AS n (key, state, record) WHERE o.key = n.key",
}
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


class Postgres(Backend):
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

    def _exchange(self, table: Table, keys: list[str], decided: Decide, owner: Leaseholder, renew: bool) -> None:
        """See `Backend`. Cost: two round trips and one commit, whatever the batch holds."""
        name = f"greenlane_{table.value}"
        with self._transaction("write to the store", pipelined=True) as connection:
            connection.execute(_RULES)
            if renew:
                connection.execute(_RENEW, (owner.name, owner.lease_s))
            if not keys:
                return
            connection.execute(_PLACES[table], (sorted(keys),))
            read = connection.execute(f"SELECT key, record FROM {name} WHERE key = ANY (%s)", (keys,)).fetchall()
            raw: Rows = {key: record.encode() if isinstance(record, str) else bytes(record) for key, record in read}
            new = decided(raw, lambda names: self._left_s(connection, list(names)))
            if new:
                rows = [
                    (key, state, record if table is Table.ORDERS else record.decode())
                    for key, (state, record) in new.items()
                ]
                connection.execute(_WRITE[table], [list(column) for column in zip(*rows, strict=True)])
            if not all(new[key][1] if key in new else before for key, before in raw.items()):
                connection.execute(f"DELETE FROM {name} WHERE key = ANY (%s) AND record = ''", (keys,))

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
        exists = connection.execute("SELECT to_regclass('greenlane_limits') IS NOT NULL").fetchone()[0]
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
