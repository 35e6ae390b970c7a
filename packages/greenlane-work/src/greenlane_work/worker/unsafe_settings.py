"""Settings that lose orders or repeat them, refused before the first order is taken, each by name.

`task_allow` names those to accept nevertheless.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from greenlane.errors import HostError

__all__ = ["ALLOWED", "check", "check_children", "check_login", "check_options"]

#: What `task_allow` may name.
ALLOWED: Final = ("early-ack", "no-confirms", "transient", "broker", "per-child")

_DO: Final = "start the worker"
#: Brokers of kombu that give a message back when its worker dies.
_SAFE: Final = ("amqp", "amqps", "pyamqp", "redis", "rediss", "sentinel", "sqs", "librabbitmq")
#: What brokers say to a wrong login.
_LOGIN: Final = (
    "AccessRefused",
    "NOAUTH",
    "WRONGPASS",
    "invalid username-password",
    "NotAllowed",
    "AuthenticationError",
)
_KNOCK_S: Final = 4.0
_AMQP: Final = ("amqp", "amqps", "pyamqp")
_REDIS: Final = ("redis", "rediss", "sentinel")
#: The default of Celery's Redis transport, in seconds.
_VISIBILITY_S: Final = 3600


def check_login(app: Any) -> None:
    """Knock at the broker once. One that is not there yet is waited for later; one that refuses us never changes that.

    Raises:
        HostError: user, password or virtual host are refused.
    """
    connection = app.connection_for_read(connect_timeout=_KNOCK_S)
    try:
        connection.connect()
    except Exception as error:
        if any(word in f"{type(error).__name__} {error}" for word in _LOGIN):
            raise HostError(
                "connect to the broker",
                name="broker_url",
                value=connection.as_uri(),
                rule=f"a user, password and virtual host that it knows ({str(error)[:200]})",
                hint="correct broker_url; the orders stay where they are",
            ) from None
    finally:
        connection.release()


def check_options(worker: Any) -> None:
    """Look at the options that Celery's worker was started with, however they were spelt.

    Raises:
        HostError: one that this pool cannot do.
    """
    if worker.autoscale:
        hint = "use task_slots: threads are started on demand"
        raise _refused("autoscale", ",".join(map(str, worker.autoscale)), "a fixed number of places", hint)
    if worker.app.conf.worker_disable_prefetch:
        rule = "False: it would stop the intake as soon as one upstream's orders are parked"
        hint = "--prefetch-multiplier 1 receives no more than the slots can begin"
        raise _refused("worker_disable_prefetch", True, rule, hint)


def check_children(options: Mapping[str, Any], allowed: Collection[str]) -> None:
    """Check options about processes, which this pool does not have.

    Args:
        options: of Celery's pool.
        allowed: names out of `ALLOWED`.

    Raises:
        HostError: a worker of one process would have to be started again.
    """
    for name, option in (("max_tasks_per_child", "maxtasksperchild"), ("max_memory_per_child", "max_memory_per_child")):
        if options.get(option) and "per-child" not in allowed:
            hint = "leave it out, or --task-allow per-child and let a supervisor start the worker again"
            rule = "none: orders run in one process, which nothing replaces"
            raise _refused(f"worker_{name}", options[option], rule, hint)


def check(app: Any, allowed: Collection[str], *, longest_s: float, deliveries: int = 0) -> None:
    """Look at a Celery app's settings, its tasks and queues.

    Args:
        app: the Celery app, with its tasks imported.
        allowed: names out of `ALLOWED`.
        longest_s: how long an order may stay unacknowledged here: parked, run, and given time at the end.
        deliveries: after this many a message goes to the dead letters; the broker must not drop it before.

    Raises:
        HostError: the first of them.
    """
    for code, error in _found(app, longest_s, deliveries):
        if code not in allowed:
            raise error


def _found(app: Any, longest_s: float, deliveries: int) -> Iterator[tuple[str, HostError]]:
    conf = app.conf
    transport = app.connection_for_read().transport_cls or "amqp"
    transport = transport if isinstance(transport, str) else "amqp"
    options = conf.broker_transport_options or {}
    yield from _acks(app)
    yield from _publishing(conf, transport, options)
    for queue in app.amqp.queues.consume_from.values():
        yield from _queue(queue)
        yield from _dropping(queue, deliveries)
    yield from _giving_back(app, transport, options, longest_s)
    name = "worker_cancel_long_running_tasks_on_connection_loss"
    if getattr(conf, name):
        hint = "leave it out; what ended meanwhile is acknowledged when it is delivered again"
        yield "", _refused(name, True, "False: calls that are cut off with a connection are all made again", hint)


def _publishing(conf: Any, transport: str, options: Mapping[str, Any]) -> Iterator[tuple[str, HostError]]:
    confirms = options.get("confirm_publish")
    if transport in _AMQP and not confirms:
        rule = "True: without publisher confirms a retry or the next task of a chain can be lost"
        hint = "app.conf.broker_transport_options = {'confirm_publish': True}"
        yield "no-confirms", _refused("broker_transport_options['confirm_publish']", confirms, rule, hint)
    mode = conf.task_default_delivery_mode
    if str(mode) in ("1", "transient"):
        rule = "2 or 'persistent': a restart of the broker forgets what is transient"
        hint = "leave it out: persistent is Celery's default"
        yield "transient", _refused("task_default_delivery_mode", mode, rule, hint)


def _giving_back(
    app: Any, transport: str, options: Mapping[str, Any], longest_s: float
) -> Iterator[tuple[str, HostError]]:
    if transport not in _SAFE:
        rule = "RabbitMQ or Redis: this one does not give back what a killed worker had taken"
        hint = 'for a demonstration: task_allow = ["broker"] in greenlane.toml, or --task-allow broker'
        yield "broker", _refused("broker_url", app.connection_for_read().as_uri(), rule, hint)
    visible_s = options.get("visibility_timeout", _VISIBILITY_S)
    if transport in _REDIS and float(visible_s) < longest_s:
        rule = (
            f"at least {longest_s:g} s, the longest that an order stays here (2 × task_parked_most_s +"
            " task_hard_limit_s, or task_soft_limit_s + task_grace_s, + task_shutdown_s): Redis gives it to others"
            " before"
        )
        hint = f"app.conf.broker_transport_options = {{'visibility_timeout': {int(longest_s) + 60}}}"
        yield "", _refused("broker_transport_options['visibility_timeout']", visible_s, rule, hint)


def _acks(app: Any) -> Iterator[tuple[str, HostError]]:
    early = sorted(name for name, task in app.tasks.items() if not name.startswith("celery.") and not task.acks_late)
    if not early:
        return
    rule = "True: a worker that dies loses what it acknowledged before it was done"
    if app.conf.task_acks_late:
        yield "early-ack", _refused(f"{early[0]}.acks_late", False, rule, "leave acks_late out of @app.task")
    else:
        hint = 'app.conf.task_acks_late = True; or task_allow = ["early-ack"] in greenlane.toml where loss is wanted'
        yield "early-ack", _refused("task_acks_late", False, rule, hint)


def _queue(queue: Any) -> Iterator[tuple[str, HostError]]:
    for name, wrong in (("no_ack", True), ("durable", False), ("auto_delete", True), ("exclusive", True)):
        if bool(getattr(queue, name, not wrong)) is wrong:
            code = "early-ack" if name == "no_ack" else "transient"
            hint = f"declare kombu.Queue({queue.name!r}) without {name}={wrong}"
            yield code, _refused(f"queue {queue.name}: {name}", wrong, f"{not wrong}: orders in it can be lost", hint)


def _dropping(queue: Any, deliveries: int) -> Iterator[tuple[str, HostError]]:
    """A quorum queue that drops what was delivered often, sooner than the worker makes a dead letter of it."""
    arguments = getattr(queue, "queue_arguments", None) or {}
    limit = arguments.get("x-delivery-limit")
    if isinstance(limit, int) and 0 <= limit <= deliveries and "x-dead-letter-exchange" not in arguments:
        rule = f"more than task_deliveries = {deliveries}: RabbitMQ drops orders before the worker can bury them"
        hint = f"a greater x-delivery-limit, or task_deliveries = {max(1, limit - 4)} in greenlane.toml"
        yield "", _refused(f"queue {queue.name}: x-delivery-limit", limit, rule, hint)


def _refused(name: str, value: object, rule: str, hint: str) -> HostError:
    return HostError(_DO, name=name, value=value, rule=rule, hint=hint)
