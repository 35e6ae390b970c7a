"""Messages published over kombu, Celery's tasks among them: calls of the broker, with the moment as headers.

The headers (`greenlane.probes.enqueued`) make the time in the queue visible to a consumer. They are written while
recording only; consumers that know nothing of them hand them to the task's `request` like any other.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

from greenlane.probes import enqueued
from greenlane.probes.calls import span
from greenlane.probes.calls.naming import operation, origin, seconds, upstream
from greenlane.probes.patching import Patches

__all__ = ["place_celery", "place_kombu"]


def place_celery(patches: Patches, module: ModuleType) -> None:
    """Place the span in `celery.app.base`: a task that is sent, by its name."""
    patches.replace(module.Celery, "send_task", span.call(_send_task))


def place_kombu(patches: Patches, module: ModuleType) -> None:
    """Place the span and the headers in `kombu.messaging`."""
    patches.replace(module.Producer, "publish", _publish)


def _send_task(self: Any, name: str, *_args: Any, **options: Any) -> span.Call:
    url = self.conf.broker_write_url or self.conf.broker_url
    if isinstance(url, list | tuple):
        url = url[0]
    where = origin(url.partition(";")[0])[0] if url else upstream("localhost", 5672)
    return span.Call(where, operation(f"PUBLISH {name}"), seconds(options.get("timeout")))


def _publish(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    sent = span.call(_describe)(original, silent)

    @functools.wraps(original)
    def publish(self: Any, body: Any, *args: Any, **kwargs: Any) -> Any:
        # `headers` is the tenth parameter; a call with ten by position is left alone.
        if silent or len(args) > 8 or not span.recording():
            return sent(self, body, *args, **kwargs)
        kwargs["headers"] = enqueued.published(kwargs.get("headers") or {})
        return sent(self, body, *args, **kwargs)

    return publish


def _describe(self: Any, _body: Any, routing_key: Any = None, *_args: Any, **kwargs: Any) -> span.Call:
    connection = self.__connection__
    exchange = kwargs.get("exchange")
    name = routing_key or getattr(exchange, "name", exchange) or self.routing_key or self.exchange.name
    what = operation(f"PUBLISH {name}".rstrip())
    if connection is None:
        return span.Call("(broker)", what, seconds(kwargs.get("timeout")))
    where = upstream(connection.hostname, connection.port or connection.get_transport_cls().default_port)
    return span.Call(where, what, seconds(kwargs.get("timeout")))
