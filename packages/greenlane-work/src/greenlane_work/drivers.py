"""The libraries that speak to servers: imported when a URL needs them; an error names the extra to install."""

from __future__ import annotations

import importlib
import re
import urllib.parse
from typing import Any

from greenlane.errors import SettingsError

__all__ = ["psycopg_for", "redis_client", "redis_for", "without_password"]


def redis_for(setting: str, url: str) -> Any:
    """Give redis-py for a URL that it can read. Raises SettingsError; connects to nothing."""
    redis = _driver(setting, "redis", "redis")
    try:
        parts = urllib.parse.urlsplit(url)
        readable = parts.scheme == "unix" or re.fullmatch("/?[0-9]*", parts.path)
        redis.ConnectionPool.from_url(url).make_connection()
    except (ValueError, TypeError, redis.RedisError):
        readable = None
    if not readable:
        rule = "redis://:PASSWORD@HOST:PORT/NUMBER or unix:///SOCKET?db=NUMBER, with options of redis-py"
        raise _unreadable(setting, url, rule)
    return redis


def redis_client(url: str, timeout_s: float, **options: Any) -> Any:
    """Give a client that answers or fails within its time: it tries nothing again by itself. Connects to nothing."""
    from redis import Redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    return Redis.from_url(
        url,
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        retry=Retry(NoBackoff(), 0),
        protocol=2,
        **options,
    )


def psycopg_for(setting: str, url: str) -> Any:
    """Give psycopg for a URL that it can read. Raises SettingsError; connects to nothing."""
    psycopg = _driver(setting, "psycopg", "postgres")
    try:
        said = psycopg.conninfo.conninfo_to_dict(url)
        readable = re.fullmatch("[0-9,]*", str(said.get("port") or ""))
    except psycopg.Error:
        readable = None
    if not readable:
        raise _unreadable(setting, url, "postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with options of libpq")
    return psycopg


def without_password(url: str) -> str:
    """The URL as it may be printed: without password and options.

    Also of one that is written wrongly: a password with `/`, `?`, `#` or `@` in it, which has to be escaped.
    """
    scheme, slashes, rest = url.rpartition("://") if url.count("://") == 1 else ("", "", url)
    before, at, host = rest.rpartition("@") if not rest.startswith("/") else ("", "", rest)
    user = re.match("[^:/?#@]*", before)[0] if slashes else ""  # type: ignore[index]
    return scheme + slashes + (f"{user}@" if user and at else "") + re.split("[?#]", host)[0]


def _unreadable(setting: str, url: str, rule: str) -> SettingsError:
    # What the driver says may hold a piece of the password.
    hint = "write % and two digits for odd characters of a password"
    return SettingsError(setting, without_password(url), rule, hint)


def _driver(setting: str, module: str, extra: str) -> Any:
    """Import it for a setting. Raises SettingsError that says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        from greenlane.cli.extra import install

        rule = f"a server whose driver is installed ({error})"
        raise SettingsError(setting, extra, rule, install(extra)) from None
