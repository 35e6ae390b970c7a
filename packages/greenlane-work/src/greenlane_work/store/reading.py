"""From stored bytes to records and back, for every backend."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from greenlane.errors import StoreRefused
from greenlane_work.store.record import Record, State, Unreadable, decoded, encoded
from greenlane_work.store.rules import Found

__all__ = ["changed", "found", "owners", "readable"]


def found(key: str, raw: bytes | None, place: str) -> Found:
    """The record of these bytes; None of none, an error of bytes that are no record."""
    if not raw:
        return None
    try:
        return decoded(raw)
    except Unreadable as error:
        hint = f"look at its upstream for what became of it, then delete its record from {place}"
        return StoreRefused("read an order's record", name="key", value=key, rule=f"a record ({error})", hint=hint)


def readable(rows: Iterable[tuple[str, bytes]]) -> Iterator[tuple[str, Record]]:
    """Keys and records of rows, without those that cannot be read."""
    for key, raw in rows:
        record = found(key, raw, "")
        if isinstance(record, Record):
            yield key, record


def changed(before: Mapping[str, Found], after: Mapping[str, Found]) -> Iterator[tuple[str, str, bytes]]:
    """Key, state and bytes of the records that differ."""
    for key, record in after.items():
        if isinstance(record, Record) and record is not before[key]:
            yield key, record.state.value, encoded(record)


def owners(records: Mapping[str, Found], but: str) -> list[str]:
    """Owners of the orders that run, other than `but`."""
    running = (
        record.attempts[-1].owner
        for record in records.values()
        if isinstance(record, Record) and record.state is State.RUNNING
    )
    return sorted({name for name in running if name != but})
