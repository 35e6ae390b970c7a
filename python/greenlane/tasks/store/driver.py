"""The libraries that speak to servers: asked for when a store of theirs is, with the extra that installs them."""

from __future__ import annotations

import importlib
import urllib.parse
from typing import Any

from greenlane.errors import SettingsError

__all__ = ["driver", "without_password"]


def driver(module: str, extra: str) -> Any:
    """Import it. Raises SettingsError that says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        hint = f"pip install 'greenlane[{extra}]'"
        raise SettingsError("task_store", extra, f"a store whose driver is installed ({error})", hint) from None


def without_password(url: str) -> str:
    """The URL as it may be printed: without password and options."""
    parts = urllib.parse.urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    user = f"{parts.username}@" if parts.username else ""
    return parts._replace(netloc=user + host, query="").geturl()
