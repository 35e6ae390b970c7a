"""The consumer's bootstep: between Celery's consumer and our flow.

Celery makes its consumer after the pool and asks the app for further steps then; so a pool alone can bring this one
along, under `-P custom` as under `greenlane celery`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Final
from weakref import WeakKeyDictionary

from celery import bootsteps, signals
from celery.exceptions import InvalidTaskError, NotRegistered
from celery.utils.quorum_queues import detect_quorum_queues
from celery.worker.control import Panel
from kombu.common import ignore_errors

from greenlane_work.order import Ended
from greenlane_work.worker import pauses, probes, unsafe_settings
from greenlane_work.worker.adapter import forgotten, revoked_elsewhere
from greenlane_work.worker.delivery import Line
from greenlane_work.worker.flow import OrderFlow
from greenlane_work.worker.publisher import Publisher
from greenlane_work.worker.queues import QUEUE, Broker, Queues, major_version
from greenlane_work.worker.receiving import loop_of, read_many, written_together
from greenlane_work.worker.shutdown import Shutdown
from greenlane_work.worker.threads import ThreadOwner

__all__ = ["Strategies", "step_of"]

#: Celery's default, and ours in its place: after two of them the broker gives a frozen worker's orders to others.
_CELERYS_HEARTBEAT_S: Final = 120
_HEARTBEAT_S: Final = 10
#: Received beyond those that run where a prefetch multiplier of 0 sets no bound.
_AHEAD_MOST: Final = 1_000

_log = logging.getLogger("greenlane.work")


def step_of(
    flow: OrderFlow, ending: Shutdown, refusing: Callable[[], AbstractContextManager[None]]
) -> type[bootsteps.StartStopStep]:
    """Give the step that feeds a flow, as Celery wants it: a class. GreenlaneErrors are raised within `refusing`."""

    class Orders(bootsteps.StartStopStep):  # type: ignore[misc]
        requires: ClassVar[tuple[str, ...]] = ("celery.worker.consumer.tasks:Tasks",)
        name = "greenlane.Orders"

        def __init__(self, c: Any, **kwargs: Any) -> None:
            super().__init__(c, **kwargs)
            with refusing():
                _take_over(c, flow, ending)

        def start(self, c: Any) -> None:
            # What worked once is worth coming back to; a channel error before that (a queue of another kind) stays one.
            c.app.conf.broker_channel_error_retry = True
            flow.line.errors = c.connection_errors + c.channel_errors
            flow.effects.queues = _queues(c, flow)
            flow.effects.results.app = c.app
            flow.effects.queues.watch(lambda: tuple(c.app.amqp.queues.consume_from))
            flow.connected(c.task_consumer.channel)
            flow.effects.put_back()
            # Not kombu's property, which would connect again.
            flow.owner.together = lambda: written_together(getattr(c.connection, "_connection", None))

        def register_with_event_loop(self, c: Any, hub: Any) -> None:
            if isinstance(flow.owner, ThreadOwner):
                hub.add_reader(flow.owner.fileno(), flow.owner.run)
            read_many(c.connection.connection, hub)

        def stop(self, c: Any) -> None:
            if c.blueprint.state == bootsteps.RUN:
                flow.disconnected()
                return
            if c.task_consumer and c.connection:
                # First stop receiving, then return what was not begun: the other way round they come again.
                ignore_errors(c, c.task_consumer.cancel)
            ending.given_back = flow.give_all_back()

        def shutdown(self, c: Any) -> None:
            leases = flow.line.leases
            if leases is not None and leases.cut_off:
                leases.leave(_safe(c.app.connection_for_read(), flow.line))

    return Orders


class Strategies:
    """A consumer as Celery's strategy of a task sees it, except orders that must not begin yet (`eta`, `countdown`).

    Celery holds each of those in a timer of its own and raises the prefetch count by one for it: without bound, unknown
    to counts of parked orders, and on a channel that RabbitMQ closes after 30 minutes. Here they are parked as
    between two attempts, and what has no room or has long to wait goes back to the broker meanwhile.

    Args:
        consumer: Celery's; asked for everything else.
        receive: takes a request and when it may begin, monotonic ns; False = it was not kept here.
    """

    def __init__(self, consumer: Any, receive: Callable[[Any, int], bool]) -> None:
        self._consumer = consumer
        self._receive = receive
        # When the next order of a rate limit may begin, monotonic s; a limit that is changed has a bucket of its own.
        self._turns: WeakKeyDictionary[Any, float] = WeakKeyDictionary()
        # A strategy calls `timer.call_at` and, before it, `qos.increment_eventually`.
        self.timer = self
        self.qos = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)

    def increment_eventually(self, *_arguments: Any) -> None:
        """An order that waits is one of those that the prefetch count has room for."""

    def call_at(self, eta_s: float, call: Callable[..., Any], arguments: tuple[Any, ...], priority: int = 0) -> None:
        """Celery's timer, on its clock, monotonic seconds: for orders with a time, and maybe a rate limit as well."""
        if call == self._consumer.apply_eta_task:
            self._receive(arguments[0], int(eta_s * 1e9))
        else:
            self._limit_task(*arguments[:2], not_before_s=eta_s)

    def _limit_task(self, request: Any, bucket: Any, *_tokens: int, not_before_s: float = 0.0) -> None:
        """Give an order of a task with a rate limit the limit's next turn.

        Celery keeps those in a queue of its own, where nobody counts them. An order that has no room until its turn
        goes back to the broker, and its turn to the next one.
        """
        now_s = time.monotonic()
        turn_s = max(now_s, not_before_s, self._turns.get(bucket, 0.0))
        if self._receive(request, int(turn_s * 1e9) if turn_s > now_s else 0):
            self._turns[bucket] = turn_s + 1 / bucket.fill_rate


def _take_over(c: Any, flow: OrderFlow, ending: Shutdown) -> None:
    settings = flow.settings
    unsafe_settings.check_options(c.controller)
    flow.intake.consumer = c
    Panel.data["scheduled"] = Panel.data["dump_schedule"] = lambda _state, **_options: flow.scheduled()
    results = flow.effects.results
    Panel.data["revoke"], Panel.data["terminate"] = results.revoke, results.terminate
    Panel.data[pauses.COMMAND] = flow.pauses.command
    Panel.data[probes.COMMAND] = flow.probes.command
    ending.controller = c.controller
    c.on_task_request = flow.receive
    # It grows with what waits for its key or its time, see `Intake`. Quorum queues let it stay as it is: more is
    # received there than may wait, and what is over goes back, so that it keeps no others from being received.
    flow.intake.ahead = settings.task_slots * (c.prefetch_multiplier - 1) if c.prefetch_multiplier else _AHEAD_MOST
    if settings.task_key and _quorum(c.app):
        flow.intake.ahead = settings.parked_most + max(16, settings.task_slots)
    c.initial_prefetch_count = min(65_535, settings.task_slots + flow.intake.ahead)
    if c.amqheartbeat == _CELERYS_HEARTBEAT_S:
        c.amqheartbeat = _HEARTBEAT_S
    c.app.conf.worker_enable_prefetch_count_reduction = False
    for name, reason in (
        ("on_decode_error", "its body cannot be decoded"),
        ("on_unknown_message", "it is no message of Celery's"),
        ("on_invalid_task", "it is no valid task"),
    ):
        setattr(c, name, _burying(c, flow, reason))
    c.on_unknown_task = _unknown(c, flow)
    c.create_task_handler = _guarded(c, flow, c.create_task_handler)
    update = c.update_strategies
    strategies = Strategies(c, flow.receive)

    def update_strategies() -> None:
        for name, task in c.app.tasks.items():
            revoked_elsewhere(task, flow.discarded, results.stopped)
            if not name.startswith("celery."):
                flow.execution.wrap(task)
        update()
        for name, task in c.app.tasks.items():
            c.strategies[name] = task.start_strategy(c.app, strategies)

    c.update_strategies = update_strategies
    c.connection_for_read = _connecting(c, flow.line)
    if c.hub is None:
        c.loop = loop_of(flow.owner)


def _quorum(app: Any) -> bool:
    found, _ = detect_quorum_queues(app, app.connection_for_read().transport.driver_type)
    return bool(found and app.conf.worker_detect_quorum_queues)


def _connecting(c: Any, line: Line) -> Any:
    def connection_for_read(heartbeat: Any = None) -> Any:
        return c.ensure_connected(_safe(c.app.connection_for_read(heartbeat=heartbeat), line))

    return connection_for_read


def _safe(connection: Any, line: Line | None = None) -> Any:
    """Let it take orders safely, where the broker is Redis. None = it takes none."""
    if connection.get_transport_cls().driver_type == "redis":
        from greenlane_work.worker.redis_leases import Leases  # Redis' own client is not always there
        from greenlane_work.worker.redis_take import take_safely

        if line is not None and line.leases is None:
            line.leases = Leases()
        take_safely(connection, None if line is None else line.leases)
    return connection


def _guarded(c: Any, flow: OrderFlow, create: Any) -> Any:
    """Celery lets some malformed messages (no id, a body that is no list) end the worker, and then the next one."""

    def create_task_handler(*arguments: Any, **options: Any) -> Any:
        received = create(*arguments, **options)

        def on_task_received(message: Any) -> Any:
            try:
                if flow.postpone(message, c.strategies):
                    return None
                done = received(message)
                if flow.taken is not None and isinstance(flow.taken.state, Ended):
                    forgotten(flow.taken)  # Celery has put it into its tables again since
                return done
            except (*c.connection_errors, *c.channel_errors):
                raise
            except Exception as error:
                if flow.taken is not None and flow.taken.delivery.message is message:
                    # It is an order by now, unacknowledged. To end the worker would hand it to the next one.
                    _log.exception("a bug of Greenlane: an order was received and could not be begun")
                    return None
                flow.bury_message(message, f"it cannot be read: {flow.execution.said(error)}", error)
                return None

        return on_task_received

    return create_task_handler


def _burying(c: Any, flow: OrderFlow, reason: str) -> Any:
    """What Celery would throw away: to the dead letters. Celery calls these with (body, message[, error])."""

    def bury(*arguments: Any) -> None:
        message = next(each for each in arguments if hasattr(each, "delivery_info"))
        error = next((each for each in arguments if isinstance(each, BaseException)), None)
        said = reason if error is None else f"{reason}: {flow.execution.said(error)}"
        flow.bury_message(message, said, error or InvalidTaskError(reason))
        signals.task_rejected.send(sender=c, message=message, exc=error)

    return bury


def _unknown(c: Any, flow: OrderFlow) -> Any:
    def unknown(body: Any, message: Any, error: Any) -> None:
        name, task_id = message.headers.get("task"), message.headers.get("id")
        flow.return_message(message, f"no task {name!r} is registered here", NotRegistered(name))
        signals.task_unknown.send(sender=c, message=message, exc=error, name=name, id=task_id)

    return unknown


def _queues(c: Any, flow: OrderFlow) -> Queues:
    app, settings = c.app, flow.settings
    kind = c.connection.transport.driver_type
    broker = Broker(kind) if kind in ("amqp", "redis") else Broker.OTHER
    rabbitmq = broker is Broker.RABBITMQ

    def connect() -> Any:
        options = {**(app.conf.broker_transport_options or {})}
        if rabbitmq:
            options["confirm_publish"] = False  # the publisher asks for them itself, for many messages at once
        return _safe(app.connection_for_write(transport_options=options))

    def queue_of(message: Any) -> str:
        info = message.delivery_info or {}
        tags = {tag: name for name, tag in getattr(c.task_consumer, "_active_tags", {}).items()}
        name = tags.get(info.get("consumer_tag"))
        name = name or message.headers.get(QUEUE)
        if name:
            return str(name)
        for name, queue in app.amqp.queues.consume_from.items():
            if queue.routing_key == info.get("routing_key"):
                return str(name)
        return str(info.get("routing_key") or app.conf.task_default_queue)

    if flow.effects.queues is not None:
        return flow.effects.queues.at(queue_of)
    publisher = Publisher(connect, confirms=rabbitmq)
    version = major_version(c.connection)
    return Queues(publisher, return_s=settings.task_return_s, broker=broker, queue_of=queue_of, version=version)
