"""Records in an SQLite file: nothing to run, for the worker processes of one machine.

Write-ahead log, `synchronous = FULL`: what `apply` has written survives a kill at any instant and a loss of power. The
processes of a machine may share the file (never over a network file system, where SQLite's locks do not hold); they
take turns, see `Turns`.

Owners are known by their process as well as by their lease: one that was killed is seen to be gone at once. Leases run
on the clock of the boot, so a clock that is set does not end them, and a restart of the machine ends all of them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from greenlane.errors import StoreError, StoreRefused, StoreUnavailable
from greenlane.threads.unpatched import in_forked_child
from greenlane_work.store.backend import Backend, Decide, Leaseholder, Retention, Rows, Table, Tidied, readable
from greenlane_work.store.process_name import ProcessName
from greenlane_work.store.record import Record, State

__all__ = ["SQLite"]

_FORMAT: Final = 1
#: "glor": tells `file` and other programs that it is ours.
_APPLICATION: Final = 0x676C6F72
#: What a write waits for another process's before it is tried again: some hundred commits of a fast disk.
_BUSY_S: Final = 0.5
#: Keys of one SELECT: SQLite before 3.32 takes at most 999 parameters.
_MOST_KEYS: Final = 500
#: Records that one tidying looks at, so that no batch waits long for it.
_MOST_SWEPT: Final = 1000
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS orders (
    key TEXT PRIMARY KEY, state TEXT NOT NULL, changed REAL NOT NULL, record BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS owners (name TEXT PRIMARY KEY, process TEXT NOT NULL, until_s REAL NOT NULL);
"""
#: Files of earlier releases have none.
_LIMITS: Final = "CREATE TABLE IF NOT EXISTS limits (key TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID"
#: Rows of one INSERT: statements of up to this many rows are kept compiled.
_MOST_ROWS: Final = 16
_WRITE: Final = {
    Table.ORDERS: "INSERT INTO orders (key, state, changed, record) VALUES {} ON CONFLICT (key) DO UPDATE "
    "SET state = excluded.state, changed = excluded.changed, record = excluded.record",
    Table.LIMITS: "INSERT INTO limits VALUES {} ON CONFLICT (key) DO UPDATE SET record = excluded.record",
}
_RENEW: Final = (
    "INSERT INTO owners (name, process, until_s) VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE "
    "SET process = excluded.process, until_s = excluded.until_s"
)
_LATER: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_SCHEMA,
    }
)
_HINTS: Final = {
    sqlite3.SQLITE_BUSY: "look with `fuser` for the process that holds a transaction open in it",
    sqlite3.SQLITE_FULL: "make room on its disk, or raise max_mb",
    sqlite3.SQLITE_IOERR: "make room on its disk, and look into dmesg for its faults",
    sqlite3.SQLITE_CANTOPEN: "make its folder, writable for this user",
    sqlite3.SQLITE_READONLY: "make file and folder writable for this user",
    sqlite3.SQLITE_CORRUPT: "stop the workers, then `sqlite3 FILE .recover | sqlite3 NEW` and put NEW in its place",
    sqlite3.SQLITE_NOTADB: "name another file, or move this one away",
}


class SQLite(Backend):
    """A `Backend` in a file."""

    blocks = True

    def __init__(self, path: str | Path, retention: Retention, *, max_mb: float = 0) -> None:
        """Nothing is opened yet.

        Args:
            path: the file; made when it is absent, its folder is not.
            retention: how long records are kept.
            max_mb: the file grows no larger; then it is full, and orders wait; 0 = as the disk allows.
        """
        self.place = str(path)
        self._retention = retention
        self._max_mb = max_mb
        self._process = ProcessName.this()
        self._turns = Turns(f"{path}-turn")
        # Tidying goes on behind this key.
        self._swept = ""
        self._opened: sqlite3.Connection | None = None
        # Which file is open, as the kernel knows it.
        self._file: tuple[int, int] | None = None

    def _exchange(self, table: Table, keys: list[str], decided: Decide, owner: Leaseholder, renew: bool) -> None:
        """See `Backend`. Cost: one transaction, one fsync where anything has changed."""
        with self._transaction("write to the store") as connection:
            if renew:
                connection.execute(_RENEW, (owner.name, self._process.text, _boot_s() + owner.lease_s))
            raw: Rows = dict.fromkeys(keys)
            for start in range(0, len(keys), _MOST_KEYS):
                some = keys[start : start + _MOST_KEYS]
                marks = ", ".join("?" * len(some))
                for key, record in connection.execute(
                    f"SELECT key, record FROM {table.value} WHERE key IN ({marks})", some
                ):
                    raw[key] = record.encode() if isinstance(record, str) else record
            new = decided(raw, lambda names: {name: self._left_s(connection, name) for name in names})
            now_s = time.time()
            if table is Table.ORDERS:
                rows: list[tuple[Any, ...]] = [(key, state, now_s, record) for key, (state, record) in new.items()]
            else:
                rows = [(key, record.decode()) for key, (_, record) in new.items() if record]
                gone = [(key,) for key, (_, record) in new.items() if not record]
                connection.executemany("DELETE FROM limits WHERE key = ?", gone)
            for start in range(0, len(rows), _MOST_ROWS):
                some_rows = rows[start : start + _MOST_ROWS]
                # One statement for many rows: each one gives the GIL away, and has to wait for it again.
                marks = ", ".join([f"({', '.join('?' * len(rows[0]))})"] * len(some_rows))
                values = [value for row in some_rows for value in row]
                connection.execute(_WRITE[table].format(marks), values)

    def leave(self, owner: Leaseholder) -> None:
        """End a lease; see `Backend`."""
        with self._transaction("leave the store") as connection:
            connection.execute("DELETE FROM owners WHERE name = ?", (owner.name,))

    def find(self, state: State | None, most: int) -> Iterator[tuple[str, Record]]:
        """Give records, the latest change first; see `Backend`."""
        where, values = ("WHERE state = ?", [state.value]) if state is not None else ("", [])
        query = f"SELECT key, record FROM orders {where} ORDER BY changed DESC LIMIT ?"
        with self._transaction("read the store") as connection:
            rows = connection.execute(query, (*values, most)).fetchall()
        yield from readable(rows)

    def tidy(self) -> Tidied:
        """Forget what is over its time among the next thousand orders; see `Backend`. Starts again after the last."""
        now_s = time.time()
        over_s = {state.value: now_s - self._retention.seconds(state) for state in State}
        with self._transaction("tidy the store") as connection:
            query = "SELECT key, state, changed FROM orders WHERE key > ? ORDER BY key LIMIT ?"
            rows = connection.execute(query, (self._swept, _MOST_SWEPT)).fetchall()
            # A state that is not ours was written by another program, and is left alone.
            gone = [(key,) for key, state, changed_s in rows if changed_s < over_s.get(state, 0.0)]
            connection.executemany("DELETE FROM orders WHERE key = ?", gone)
            connection.execute("DELETE FROM owners WHERE until_s < ?", (_boot_s(),))
        more = len(rows) == _MOST_SWEPT
        self._swept = rows[-1][0] if more else ""
        return Tidied(len(gone), more)

    def close(self) -> None:
        """Close the file; see `Backend`."""
        self._turns.close()
        super().close()

    def _raw(self, key: str) -> bytes | None:
        with self._transaction("read the store") as connection:
            row = connection.execute("SELECT record FROM orders WHERE key = ?", (key,)).fetchone()
        return None if row is None else row[0]

    def _left_s(self, connection: sqlite3.Connection, name: str) -> float:
        row = connection.execute("SELECT process, until_s FROM owners WHERE name = ?", (name,)).fetchone()
        if row is None or not ProcessName(row[0]).may_live(self._process):
            return 0.0
        return max(float(row[1]) - _boot_s(), 0.0)

    @contextlib.contextmanager
    def _transaction(self, attempted: str) -> Iterator[sqlite3.Connection]:
        try:
            with self._turns.mine():
                connection = self._connection()
                connection.execute("BEGIN IMMEDIATE")
                try:
                    yield connection
                    connection.execute("COMMIT")
                except BaseException:
                    if connection.in_transaction:  # SQLite ends some of them by itself
                        connection.execute("ROLLBACK")
                    raise
        except sqlite3.Error as error:
            said = _error(attempted, self.place, error)
            if not isinstance(error, sqlite3.OperationalError) or isinstance(said, StoreRefused):
                self.close()
            raise said from error

    def _connection(self) -> sqlite3.Connection:
        if self._opened is not None and _file(self.place) != self._file:
            # SQLite would go on writing to a file that no other process finds, and all would be done twice.
            self._opened.close()
            self._opened = None
            rule = "the one that was opened; it was moved, deleted or replaced, and is opened again"
            hint = "stop the workers before you move it: what they wrote last is in the other one"
            raise StoreUnavailable("write to the store", name="file", value=self.place, rule=rule, hint=hint)
        if self._opened is None:
            connection = sqlite3.connect(
                self.place, timeout=_BUSY_S, isolation_level=None, check_same_thread=False, cached_statements=64
            )
            try:
                self._set_up(connection)
            except BaseException:
                connection.close()
                raise
            self._opened, self._file = connection, _file(self.place)
        return self._opened

    def _set_up(self, connection: sqlite3.Connection) -> None:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        owner = connection.execute("PRAGMA application_id").fetchone()[0]
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if tables and owner != _APPLICATION:
            raise _refused(self.place, "somebody else's database", "a store of orders, or a file that is not there yet")
        if version > _FORMAT:
            raise _refused(self.place, f"format {version}", f"at most format {_FORMAT}, which this release reads")
        if self._max_mb:
            size = connection.execute("PRAGMA page_size").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {max(int(self._max_mb * 2**20 / size), 16)}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        if not tables:
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute("BEGIN IMMEDIATE")
            for statement in _SCHEMA.strip().split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {_FORMAT}")
            connection.execute("COMMIT")
        connection.execute(_LIMITS)


class Turns:
    """Turns of the processes that write to one file: a lock file, whose next process the kernel wakes. For one thread.

    SQLite itself looks again after up to 100 ms whether a lock is free, and the first to look gets it: four busy
    processes then wait up to a second for each other, and some fail. Here they wait in the kernel, without the GIL.

    It is advice: where the lock file cannot be made, SQLite's own locks still hold. A process that dies gives its turn
    up; one that is stopped in the middle of its own keeps it, as it keeps SQLite's lock.
    """

    def __init__(self, path: str) -> None:
        """Nothing is made before the first turn."""
        self._path = path
        self._fd = -1
        # A lock belongs to what was opened, which a fork shares: a child must not keep its parent's turn.
        in_forked_child(self.close)

    @contextlib.contextmanager
    def mine(self) -> Iterator[None]:
        """Wait for a turn, and end it with the block. Blocks without the GIL."""
        locked = self._lock()
        try:
            yield
        finally:
            if locked and self._fd >= 0:
                fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the lock file."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _lock(self) -> bool:
        try:
            if self._fd < 0:
                self._fd = os.open(self._path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
            fcntl.flock(self._fd, fcntl.LOCK_EX)
        except OSError:
            return False
        return True


def _file(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:  # the error is reported when it is opened again
        return None
    return found.st_dev, found.st_ino


def _boot_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _error(attempted: str, place: str, error: sqlite3.Error) -> StoreError:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    kind = StoreUnavailable if code in _LATER else StoreRefused
    hint = _HINTS.get(code, "look at the file with the `sqlite3` program")
    return kind(attempted, name="file", value=place, rule=f"one that SQLite can use ({error})", hint=hint)


def _refused(place: str, is_: str, rule: str) -> StoreRefused:
    return StoreRefused(
        "open the store", name="file", value=place, rule=f"{rule}; it is {is_}", hint="name another file"
    )
