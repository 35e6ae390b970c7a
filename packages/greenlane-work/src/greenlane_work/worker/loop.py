"""The consumer's loop where Celery's event loop does not run: under gevent, and for brokers without a socket to poll.

Why not Celery's own (`celery.worker.loops.synloop`, 5.7): with green threads and a broker's heartbeat it waits 100 ms
for the events' connection after each message, which holds the intake at ten orders a second; and it looks for signals
every two seconds.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any, Final

from celery import bootsteps
from celery.worker import state
from celery.worker.loops import _enable_amqheartbeats

from greenlane_work.worker.intake import read_ahead
from greenlane_work.worker.owner import Owner, ThreadOwner

__all__ = ["loop_of"]

#: Green: until a signal is seen at the latest. Threads: until an order that ended is acknowledged.
_GREEN_STEP_S: Final = 0.5
_STEP_S: Final = 0.02
#: Between two looks at the connection that events go by, for the broker's heartbeats.
_EVENTS_S: Final = 1.0


def loop_of(owner: Owner) -> Any:
    """Give a loop as Celery's consumer has one."""
    step_s = _STEP_S if isinstance(owner, ThreadOwner) else _GREEN_STEP_S

    def loop(
        c: Any, connection: Any, consumer: Any, blueprint: Any, _hub: Any, qos: Any, *rest: Any, **more: Any
    ) -> None:
        beats = [
            _enable_amqheartbeats(c.timer, each, rate=c.amqheartbeat_rate)
            for each in (connection, c.event_dispatcher and c.event_dispatcher.connection)
            if c.pool.is_green and each
        ]
        read_ahead(connection.connection)
        consumer.on_message = c.create_task_handler()
        consumer.consume()
        c.on_ready()
        looked = time.monotonic()
        while blueprint.state == bootsteps.RUN and c.connection:
            state.maybe_shutdown()
            for failed in beats:
                if failed[0] is not None:
                    raise failed[0]
            if isinstance(owner, ThreadOwner):
                owner.run()
            if qos.prev != qos.value:
                qos.update()
            c.perform_pending_operations()
            _drain(connection, blueprint, step_s)
            if time.monotonic() - looked > _EVENTS_S:
                looked = time.monotonic()
                _read_events(c)
                _restore(connection)

    return loop


def _drain(connection: Any, blueprint: Any, step_s: float) -> None:
    try:
        connection.drain_events(timeout=step_s)
    except TimeoutError:
        pass
    except OSError:
        if blueprint.state == bootsteps.RUN:
            raise


def _read_events(c: Any) -> None:
    """Let the broker's heartbeats be read on the events' connection. Never waits: its publishers read there."""
    connection = c.event_dispatcher and c.event_dispatcher.connection
    if c.pool.is_green and connection and connection.supports_heartbeats:
        with contextlib.suppress(OSError):
            connection.drain_events(timeout=0)


def _restore(connection: Any) -> None:
    """Redis: let kombu look for what killed workers had; by itself it does so only in a wait that nothing ends."""
    restore = getattr(getattr(connection.transport, "cycle", None), "maybe_restore_messages", None)
    if restore is not None:
        restore()
