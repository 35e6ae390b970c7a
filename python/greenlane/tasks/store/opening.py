"""A store by its URL."""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable
from typing import Final

from greenlane.errors import SettingsError
from greenlane.tasks.store.backend import Backend, Retention
from greenlane.tasks.store.sqlite import SQLite
from greenlane.tasks.store.store import LEASE_S, PATIENCE_S, Store

__all__ = ["open_store"]

RULE: Final = "sqlite:///relative/file, sqlite:////absolute/file, postgresql://… or redis://…"


def open_store(
    url: str,
    *,
    owner: str = "",
    lease_s: float = LEASE_S,
    patience_s: float = PATIENCE_S,
    retention: Retention | None = None,
) -> Store:
    """Give the store of this URL; it is opened at its first use, or by `Store.check`.

    Args:
        url: `sqlite:///relative/file`, `sqlite:////absolute/file` (with `?max_mb=`), `postgresql://…`, `redis://…`.
        owner: this process's name in the history; "" = host and process id.
        lease_s: how long others wait for an order of this process after the last sign of it.
        patience_s: how long `begin` waits for a store that cannot be asked.
        retention: how long records are kept; None = 7 days, 90 in doubt.

    Raises:
        SettingsError: no such URL.
    """
    return Store(_maker(url), owner=owner, lease_s=lease_s, patience_s=patience_s, retention=retention)


def _maker(url: str) -> Callable[[], Backend]:
    parts = urllib.parse.urlsplit(url)
    maker = _MAKERS.get(parts.scheme)
    if maker is None:
        raise SettingsError("task_store", _without_password(url), RULE, 'write task_store = "sqlite:///orders.db"')
    return maker(url, parts)


def _sqlite(url: str, parts: urllib.parse.SplitResult) -> Callable[[], Backend]:
    path = urllib.parse.unquote(parts.path[1:])
    options = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
    most = options.pop("max_mb", "0")
    if parts.netloc or not path:
        raise SettingsError("task_store", url, RULE, "three slashes before a relative path, four before a whole one")
    if options or not _is_size(most):
        raise SettingsError("task_store", url, "no option but max_mb, a number of at least 1", "leave the others out")
    return lambda: SQLite(path, max_mb=float(most))


def _is_size(text: str) -> bool:
    try:
        return float(text) == 0 or 1 <= float(text) < 1e9
    except ValueError:
        return False


def _without_password(url: str) -> str:
    return urllib.parse.urlsplit(url)._replace(netloc="…").geturl() if "@" in url else url


_MAKERS: Final = {"sqlite": _sqlite}
