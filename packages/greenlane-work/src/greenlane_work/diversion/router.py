"""A Celery router that diverts a share of a queue's orders.

    app.conf.task_routes = [Router("orders", by="kwargs.order", tasks=["pos.send_order"])]

An order whose key is not found stays on the old side, and is counted. What a task publishes to itself (a retry) stays
on the side that it runs on.
"""

from __future__ import annotations

import fnmatch
import logging
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

from greenlane.errors import SettingsError
from greenlane_work.diversion.opening import watch
from greenlane_work.diversion.share import checked_name
from greenlane_work.keys import KeyFunction, key_function

__all__ = ["Router"]

_log = logging.getLogger("greenlane.diversion")


class Router:
    """For `task_routes`, before other routes of the same tasks."""

    def __init__(self, flow: str, *, by: str, tasks: Sequence[str] = (), at: str = "") -> None:
        """Nothing is read before the first order.

        Args:
            flow: the queue whose orders are diverted.
            by: what is hashed, as `task_key` names it: `kwargs.order`, `kwargs.merchant`, `args.0`, `header.NAME`,
                `module:function`.
            tasks: globs of the tasks that go to `flow` without naming a queue (as `task_routes` or the default say);
                tasks that name it are diverted whatever stands here.
            at: where the share lies; "" = the setting `diversion`.

        Raises:
            SettingsError: `by` is no key.
            DiversionError: `flow` is no queue's name.
        """
        self.flow = checked_name("flow", flow)
        key = key_function("by", by)
        if key is None:
            rule = "kwargs.NAME, args.NUMBER, header.NAME or module:function"
            raise SettingsError("by", by, rule, "name where the order's id is")
        self._key: KeyFunction = key
        self._tasks = (tasks,) if isinstance(tasks, str) else tuple(tasks)
        self._at = at
        #: Orders that had no key, and stayed on the old side.
        self.keyless = 0

    def __call__(
        self,
        name: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        options: MutableMapping[str, Any],
        task: Any = None,
        **_: Any,
    ) -> dict[str, Any] | None:
        """Give the route of one order: None = as it would go without this router."""
        if not self._covers(name, options) or _is_again(name):
            return None
        found = watch(self.flow, self._at)
        if found is None or not (share := found.share).share_frac:
            return None
        key = self._key(name, args or (), kwargs or {}, options.get("headers") or {})
        if not key:
            self._has_no_key(name)
            return None
        queue = share.queue(key)
        if queue == self.flow:
            return None
        # Celery lets what the caller said win over the router; here the caller said "orders", which this is about.
        for told in ("queue", "exchange", "routing_key"):
            options.pop(told, None)
        return {"queue": queue}

    def _covers(self, name: str, options: Mapping[str, Any]) -> bool:
        queue = options.get("queue")
        if queue is not None:
            return bool(getattr(queue, "name", queue) == self.flow)
        if options.get("exchange") or options.get("routing_key"):
            return False
        return any(fnmatch.fnmatchcase(name, glob) for glob in self._tasks)

    def _has_no_key(self, name: str) -> None:
        self.keyless += 1
        if self.keyless == 1:
            _log.warning("task %s has no key to divert it by: such orders stay in %s", name, self.flow)


def _is_again(name: str) -> bool:
    """Whether the task that runs here now publishes itself. Celery does not tell a router that it routes a retry."""
    celery: Any = sys.modules.get("celery")
    # A proxy of the task that runs on this thread or greenlet; false when there is none.
    running: Any = celery.current_task if celery is not None else None
    return bool(running and running.name == name)
