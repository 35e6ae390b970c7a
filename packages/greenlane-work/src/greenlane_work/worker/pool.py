"""Celery's pool: it puts a worker's parts together. This one runs orders in threads; `green` has the other one."""

from __future__ import annotations

import dataclasses
import gc
import logging
import os
import random
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
from celery import signals
from celery.concurrency.base import BasePool

from greenlane._native import Upstreams, gang_join
from greenlane.errors import GreenlaneError, HostError
from greenlane.settings import load
from greenlane.threads.unpatched import threads_are_green
from greenlane.wiring import process
from greenlane_work.keys import KeyFunction, key_function, order_function
from greenlane_work.limits import UpstreamRule, shared_limits
from greenlane_work.settings import WorkSettings
from greenlane_work.worker import unsafe_settings
from greenlane_work.worker.consumer import step_of
from greenlane_work.worker.flow import OrderFlow
from greenlane_work.worker.jobs import PermittedJobs, RecordedJobs
from greenlane_work.worker.owner import Owner
from greenlane_work.worker.runs import Runner, Serve
from greenlane_work.worker.shutdown import Shutdown
from greenlane_work.worker.status import Status
from greenlane_work.worker.threads import ThreadOwner, ThreadRunner

if TYPE_CHECKING:
    from greenlane_work.store import Store

__all__ = ["Pool", "use"]

_log = logging.getLogger("greenlane.work")

_settings: WorkSettings | None = None


def use(settings: WorkSettings) -> None:
    """Let pools made from now on have these settings; without it they read greenlane.toml and the environment."""
    global _settings
    _settings = settings


class Pool(BasePool):  # type: ignore[misc]
    """Orders in threads."""

    signal_safe = False
    is_green = False
    task_join_will_block = True

    def __init__(self, limit: int | None = None, app: Any = None, **options: Any) -> None:
        super().__init__(limit, app=app, **options)
        with _without_traceback():
            self._set_up(limit, app, options)

    def _set_up(self, limit: int | None, app: Any, options: dict[str, Any]) -> None:
        settings = _limits(_slots(_settings or load(kind=WorkSettings), limit, app), options)
        self.limit = settings.task_slots
        self._check_threads()
        unsafe_settings.check_children(options, settings.task_allow)
        unsafe_settings.check_login(app)
        unsafe_settings.check(
            app,
            settings.task_allow,
            longest_s=_longest_s(settings),
            deliveries=settings.task_deliveries,
        )
        shared = shared_limits(settings)
        owner = self._owner()
        self.ending = Shutdown(owner, settings.task_shutdown_s)
        self.flow = OrderFlow(
            settings,
            owner,
            key_of=key_function("task_key", settings.task_key),
            orders_of=_orders_of(settings),
            upstreams=_upstreams(settings),
            providers=_providers(settings),
            make_runner=self._runner,
            store=_store(settings),
            shared=shared,
            jobs=self._jobs(settings),
        )
        status = Status(self.flow, "green" if self.is_green else "threads")
        process.add_counters(status.counters)
        if settings.control_dir:
            from greenlane.wiring import control_endpoint

            control_endpoint.serve(settings.control_dir, "tasks", status)
        if settings.task_metrics:
            from greenlane_work.worker.metrics_server import MetricsServer

            self._metrics = MetricsServer(settings.task_metrics, status.text)
        app.steps["consumer"].add(step_of(self.flow, self.ending, _without_traceback))

    def on_start(self) -> None:
        """Threads are started on demand; from here on signals are ours."""
        self.ending.listen()
        # The one process that there is: programs connect here to what no fork may inherit.
        signals.worker_process_init.send(sender=self._hostname)
        if not self.is_green:
            gang_join()  # It hands out orders.
        # The app and its modules stay: the collector need not look at them again for every some hundred orders.
        gc.collect()
        gc.freeze()

    def on_stop(self) -> None:
        """Wait for what runs, bounded."""
        self.ending.wait(self.flow, getattr(self.flow.intake.consumer, "connection", None))
        self.flow.close()
        code = self.ending.exit_code
        signals.worker_process_shutdown.send(sender=self._hostname, pid=os.getpid(), exitcode=code)

    on_terminate = on_stop

    def on_apply(self, *_arguments: Any, **_options: Any) -> Any:
        """Never: orders come by the consumer's step."""
        raise AssertionError("an order came by the pool and not by the consumer's step")

    def terminate_job(self, number: int, signal: Any = None) -> None:
        """Celery's `revoke --terminate`: as at the soft limit."""
        self.flow.stop_order(number)

    def grow(self, n: int = 1) -> None:
        """Refuse Celery's remote commands `pool_grow` and `pool_shrink`."""
        raise HostError(
            "change the number of places",
            name="task_slots",
            value=self.limit,
            rule="the number that the worker was started with",
            hint="start another worker, or this one with another --concurrency",
        )

    shrink = grow

    @property
    def _hostname(self) -> str:
        return str(getattr(self.flow.intake.consumer, "hostname", ""))

    @property
    def num_processes(self) -> int:
        """Places for orders."""
        return int(self.limit)

    def _owner(self) -> Owner:
        return ThreadOwner()

    def _runner(self, serve: Serve) -> Runner:
        return ThreadRunner(self.limit, serve)

    def _jobs(self, settings: WorkSettings) -> RecordedJobs:
        """A job for each run, with permits for its CPU work."""
        return PermittedJobs(settings)

    def _check_threads(self) -> None:
        if threads_are_green():
            raise HostError(
                "start the worker",
                name="pool",
                value="greenlane_work.celery:Pool",
                rule="threads of the operating system; gevent has replaced them in this process",
                hint="use greenlane_work.celery:GreenPool, or take monkey.patch_all() out",
            )


@contextmanager
def _without_traceback() -> Iterator[None]:
    """What is refused ends the command with its message: `celery worker` prints those of click, and knows no others."""
    try:
        yield
    except GreenlaneError as error:
        # `greenlane celery` prints it itself.
        if _settings is not None or click.get_current_context(silent=True) is None:
            raise
        refused = click.ClickException(str(error))
        setattr(refused, "exit_code", error.exit_code)  # noqa: B010 - declared as the class's
        raise refused from None


def _slots(settings: WorkSettings, limit: int | None, app: Any) -> WorkSettings:
    """`-c` and worker_concurrency count where greenlane's own setting says nothing."""
    said = any(word.startswith(("-c", "--concurrency")) for word in sys.argv[1:]) or app.conf.worker_concurrency
    if "task_slots" in settings.origins or not said or not limit:
        return settings
    return dataclasses.replace(settings, task_slots=limit)


def _limits(settings: WorkSettings, options: Mapping[str, Any]) -> WorkSettings:
    """`--time-limit`, `--soft-time-limit` and their settings count where greenlane's own say nothing."""
    hard_s, soft_s = options.get("timeout"), options.get("soft_timeout")
    if hard_s and "task_hard_limit_s" not in settings.origins:
        settings = dataclasses.replace(settings, task_hard_limit_s=float(hard_s))
    if soft_s and "task_soft_limit_s" not in settings.origins:
        settings = dataclasses.replace(settings, task_soft_limit_s=float(soft_s))
    return settings


def _upstreams(settings: WorkSettings) -> Upstreams:
    # Each worker its own: they are not to probe an upstream all in the same second.
    seed = random.getrandbits(63) | 1
    upstreams = Upstreams(settings.task_slots, dataclasses.replace(UpstreamRule.of(settings), seed=seed))
    for key, rule in UpstreamRule.of_keys(settings).items():
        upstreams.set(key, time.monotonic_ns(), dataclasses.replace(rule, seed=seed))
    return upstreams


def _providers(settings: WorkSettings) -> Upstreams | None:
    rule = UpstreamRule.of_providers(settings)
    if rule is None:
        return None
    return Upstreams(rule.limit, dataclasses.replace(rule, seed=random.getrandbits(63) | 1))


def _orders_of(settings: WorkSettings) -> dict[str, KeyFunction]:
    functions = {task: order_function(spec) for task, spec in settings.task_order.items()}
    return {task: function for task, function in functions.items() if function is not None}


def _longest_s(settings: WorkSettings) -> float:
    # Parked, between two attempts too, and run. As much again for its result, and for what has no limit: a task without
    # one, and a store that does not answer.
    soft_s = settings.task_soft_limit_s
    hard_s = settings.task_hard_limit_s or (soft_s + settings.task_grace_s if soft_s else 0.0)
    return 2 * settings.task_parked_most_s + hard_s + settings.task_shutdown_s


def _store(settings: WorkSettings) -> Store | None:
    """Open the store that the settings name; None = none, and nothing of it is imported."""
    if not settings.task_store:
        return None
    from greenlane_work.store.opening import store_of

    store = store_of(settings)
    store.check()
    return store
