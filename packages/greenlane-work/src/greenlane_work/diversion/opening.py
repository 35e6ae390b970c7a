"""A diversion by its URL, and the one of this process."""

from __future__ import annotations

import urllib.parse
from typing import Final

from greenlane.errors import SettingsError
from greenlane.settings import load
from greenlane_work.diversion.share import SharePlace, checked_name
from greenlane_work.diversion.watch import ShareWatch
from greenlane_work.drivers import without_password
from greenlane_work.settings import WorkSettings

__all__ = ["divert", "open_place", "watch"]

_RULE: Final = "file:///FOLDER (all producers on one machine) or redis://…"
# None = nothing is diverted: no place is named.
_watches: dict[tuple[str, str], ShareWatch | None] = {}


def divert(flow: str, key: str, *, at: str = "") -> str:
    """Give the queue for an order: `flow`, or the queue that its share is diverted to.

    For producers that publish with kombu, pika or anything else:

        channel.basic_publish(exchange="", routing_key=greenlane_work.divert("orders", order_id), body=body)

    Args:
        flow: its present queue.
        key: of the order, or of its merchant: orders with one key are diverted together.
        at: where the share is stored; "" = the setting `diversion`. If that is '', nothing is diverted.

    Cost: about 2 us. The first call reads the share, and starts a thread that follows its changes.
    """
    found = watch(flow, at)
    return flow if found is None else found.share.queue(key)


def watch(flow: str, at: str = "") -> ShareWatch | None:
    """Give this process's view of a flow; None = no place is named. Raises SettingsError."""
    if (flow, at) not in _watches:
        url = at or load(kind=WorkSettings).diversion
        # The second to open discards its own: it has read nothing yet.
        _watches.setdefault((flow, at), ShareWatch(open_place(url), checked_name("flow", flow)) if url else None)
    return _watches[flow, at]


def open_place(url: str) -> SharePlace:
    """Give the place of a URL. Raises SettingsError."""
    scheme, _, path = url.partition("://")
    if scheme == "file" and path.startswith("/") and not {"?", "#"} & set(path) and "%00" not in path:
        from greenlane_work.diversion.folder import Folder

        return Folder(urllib.parse.unquote(path))
    if scheme in ("redis", "rediss", "unix"):
        from greenlane_work.diversion.redis import RedisKeys

        return RedisKeys(url)
    hint = 'write diversion = "file:///run/greenlane/diversion"'
    raise SettingsError("diversion", without_password(url), _RULE, hint)
