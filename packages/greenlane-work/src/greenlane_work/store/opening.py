"""A store by its URL. A backend is imported when a URL names it."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Final

from greenlane.errors import SettingsError
from greenlane_work.drivers import without_password
from greenlane_work.settings import WorkSettings
from greenlane_work.store.backend import Backend, Retention
from greenlane_work.store.store import LEASE_S, PATIENCE_S, RESULT_BYTES, Store

__all__ = ["open_store", "store_of"]

Make = Callable[[], Backend]

RULE: Final = "sqlite:///relative/file, sqlite:////absolute/file, postgresql://… or redis://…"


def open_store(
    url: str,
    *,
    owner: str = "",
    lease_s: float = LEASE_S,
    patience_s: float = PATIENCE_S,
    retention: Retention | None = None,
    result_bytes: int = RESULT_BYTES,
) -> Store:
    """Give the store of this URL; it is opened at its first use, or by `Store.check`.

    Args:
        url: `sqlite:///relative/file`, `sqlite:////absolute/file` (with `?max_mb=`), `postgresql://…`, `redis://…`.
        owner: this process's name in the history; "" = host and process id.
        lease_s: how long others wait for an order of this process after the last sign of it.
        patience_s: how long `begin` waits for a store that cannot be asked.
        retention: how long records are kept; None = 7 days, 90 in doubt.
        result_bytes: a longer result is not kept.

    Raises:
        SettingsError: no such URL.
    """
    make = _maker(url, retention or Retention())
    return Store(make, owner=owner, lease_s=lease_s, patience_s=patience_s, result_bytes=result_bytes)


def store_of(settings: WorkSettings) -> Store:
    """Give the store that the setting `task_store` names. Raises SettingsError."""
    keep_s = settings.task_store_keep_s
    retention = Retention(keep_s, max(keep_s, Retention.unsettled_s))
    result_bytes = int(settings.task_result_kb * 1024)
    return open_store(
        settings.task_store, lease_s=settings.task_store_lease_s, retention=retention, result_bytes=result_bytes
    )


def _maker(url: str, retention: Retention) -> Make:
    scheme, slashes, _ = url.partition("://")
    maker = _MAKERS.get(scheme) if slashes else None
    if maker is None:
        raise _wrong(url, RULE, 'write task_store = "sqlite:///orders.db"')
    return maker(url, retention)


def _sqlite(url: str, retention: Retention) -> Make:
    address, options, others = _split(url, ("max_mb",))
    host, slash, path = address.removeprefix("sqlite://").partition("/")
    path = urllib.parse.unquote(path)
    if host or not slash or not path or "\0" in path:
        raise _wrong(url, RULE, "three slashes before a relative path, four before a whole one")
    if others:
        raise _wrong(url, "no option but max_mb", f"leave {min(others)} out")
    if not re.fullmatch(r"[0-9]{1,9}", options.get("max_mb", "0")):
        raise _wrong(url, "max_mb as a whole number of MB", "leave it out: as the disk allows")
    from greenlane_work.store.sqlite import SQLite

    return lambda: SQLite(path, retention, max_mb=int(options.get("max_mb", "0")))


def _postgres(url: str, retention: Retention) -> Make:
    from greenlane_work.store.postgres import Postgres

    return lambda: Postgres(url, retention)


def _redis(url: str, retention: Retention) -> Make:
    address, ours, theirs = _split(url, ("prefix", "may_forget"))
    if ours.get("may_forget", "0") not in ("0", "1"):
        raise _wrong(url, "may_forget=1 or nothing", "leave it out: orders must not be forgotten")
    from greenlane_work.store.redis import Redis

    may_forget = ours.get("may_forget") == "1"
    server = f"{address}?{urllib.parse.urlencode(theirs)}" if theirs else address
    return lambda: Redis(server, retention, prefix=ours.get("prefix", "greenlane:"), may_forget=may_forget)


def _split(url: str, ours: tuple[str, ...]) -> tuple[str, dict[str, str], dict[str, str]]:
    """The URL's address, our options in it, and all others.

    Not urllib's split: put together again, `unix:///socket` would lack two slashes.
    """
    address, _, query = url.partition("?")
    given = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
    theirs = {name: value for name, value in given.items() if name not in ours}
    return address, {name: given[name] for name in ours if name in given}, theirs


def _wrong(url: str, rule: str, hint: str) -> SettingsError:
    return SettingsError("task_store", without_password(url), rule, hint)


_MAKERS: Final[Mapping[str, Callable[[str, Retention], Make]]] = {
    "sqlite": _sqlite,
    "postgresql": _postgres,
    "postgres": _postgres,
    "redis": _redis,
    "rediss": _redis,
    "unix": _redis,
}
