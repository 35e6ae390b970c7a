"""Celery's view of us: two pools, one of threads, one of green threads."""

from __future__ import annotations

import dataclasses
import gc
import logging
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from celery.concurrency.base import BasePool

from greenlane import bootstrap, bootstrap_control
from greenlane._native import Upstreams
from greenlane.errors import HostError
from greenlane_work.limits import UpstreamRule
from greenlane.real import threads_are_green
from greenlane.settings import Settings, load
from greenlane_work.worker import unsafe_settings as refusals
from greenlane_work.worker.shutdown import Ending
from greenlane_work.worker.flow import Host
from greenlane_work.worker.jobs import Jobs, PermittedJobs, RecordedJobs
from greenlane_work.worker.owner import GreenOwner, Owner, ThreadOwner
from greenlane_work.worker.runners import GreenRunner, Runner, ThreadRunner
from greenlane_work.worker.runs import Runs
from greenlane_work.worker.metrics_server import Scrape
from greenlane_work.worker.status import Status
from greenlane_work.worker.consumer import step_of
from greenlane_work.worker.loop_watch import Watch
from greenlane_work.keys import key_function
from greenlane_work.order import Order

__all__ = ["GreenPool", "Pool", "use"]

_log = logging.getLogger("greenlane.work")
_settings: Settings | None = None

#: The store's thread asks for the interpreter a dozen times a commit, and at CPython's 5 ms each of them would wait
#: until an order's burst of computing is over. Only it and the hub's thread take turns here, so the turns cost little.
_GREEN_SWITCH_S: Final = 0.0005


def use(settings: Settings) -> None:
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
        settings = _slots(_settings or load(), limit, app)
        self.limit = settings.task_slots
        self._check_threads()
        refusals.check_login(app)
        refusals.check(
            app,
            settings.task_allow,
            longest_s=_longest_s(settings),
            deliveries=settings.task_deliveries,
            autoscale="--autoscale" in sys.argv,
        )
        owner = self._owner()
        self.ending = Ending(owner, settings.task_shutdown_s)
        self.host = Host(
            settings,
            owner,
            key_of=key_function("task_key", settings.task_key),
            order_of=key_function("task_order", settings.task_order),
            upstreams=_upstreams(settings),
            make_runner=self._runner,
            store=_store(settings),
            jobs=self._jobs(settings),
        )
        status = Status(self.host, "green" if self.is_green else "threads")
        bootstrap.count_besides(status.counters)
        if settings.control_dir:
            bootstrap_control.serve(settings.control_dir, "tasks", status)
        if settings.task_metrics:
            self._scrape = Scrape(settings.task_metrics, status.text)
        app.steps["consumer"].add(step_of(self.host, self.ending))

    def on_start(self) -> None:
        """Threads are started on demand; from here on signals are ours."""
        self.ending.listen()
        # The app and its modules stay: the collector need not look at them again for every some hundred orders.
        gc.collect()
        gc.freeze()

    def on_stop(self) -> None:
        """Wait for what runs, bounded."""
        self.ending.wait(self.host, getattr(self.host.consumer, "connection", None))
        self.host.close()

    on_terminate = on_stop

    def on_apply(self, *_arguments: Any, **_options: Any) -> Any:
        """Never: orders come by the consumer's step."""
        raise AssertionError("an order came by the pool and not by the consumer's step")

    def terminate_job(self, number: int, signal: Any = None) -> None:
        """Celery's `revoke --terminate`: as at the soft limit."""
        self.host.stop_order(number)

    @property
    def num_processes(self) -> int:
        """Places for orders."""
        return int(self.limit)

    def _owner(self) -> Owner:
        return ThreadOwner()

    def _runner(self, serve: Callable[[Order, int], None]) -> Runner:
        return ThreadRunner(self.limit, serve)

    def _jobs(self, settings: Settings) -> Jobs:
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


class _GreenTimer:
    """Celery's own timer for gevent, imported when Celery asks the class for it."""

    def __get__(self, _pool: object, _kind: object = None) -> Any:
        from celery.concurrency.gevent import Timer

        return Timer


class GreenPool(Pool):
    """Orders in greenlets. gevent must have patched the process before anything else was imported."""

    is_green = True
    task_join_will_block = False

    Timer = _GreenTimer()

    def on_start(self) -> None:
        """Let somebody watch that the loop turns."""
        super().on_start()
        sys.setswitchinterval(_GREEN_SWITCH_S)
        self._watch = Watch(Runs.serve.__code__)

    def on_stop(self) -> None:
        """See Pool."""
        super().on_stop()
        self._watch.stop()

    on_terminate = on_stop

    @staticmethod
    def spawn_n(function: Callable[..., object], *arguments: Any) -> Any:
        """Celery's remote control has a greenlet of its own."""
        import gevent

        return gevent.spawn(function, *arguments)

    def _owner(self) -> Owner:
        return GreenOwner()

    def _runner(self, serve: Callable[[Order, int], None]) -> Runner:
        return GreenRunner(serve)

    def _jobs(self, settings: Settings) -> Jobs:
        return RecordedJobs(settings)  # greenlets take turns on one thread anyway

    def _check_threads(self) -> None:
        if not threads_are_green():
            raise HostError(
                "start the worker",
                name="pool",
                value="greenlane_work.celery:GreenPool",
                rule="a process whose modules gevent has patched before anything else",
                hint="greenlane work --green APP does it; or gevent.monkey.patch_all() on top of the app's module",
            )


def _slots(settings: Settings, limit: int | None, app: Any) -> Settings:
    """`-c` and worker_concurrency count where greenlane's own setting says nothing."""
    said = any(word.startswith(("-c", "--concurrency")) for word in sys.argv[1:]) or app.conf.worker_concurrency
    if "task_slots" in settings.origins or not said or not limit:
        return settings
    return dataclasses.replace(settings, task_slots=limit)


def _upstreams(settings: Settings) -> Upstreams:
    upstreams = Upstreams(settings.task_slots, UpstreamRule.of(settings))
    for key, rule in UpstreamRule.of_keys(settings).items():
        upstreams.set(key, time.monotonic_ns(), rule)
    return upstreams


def _longest_s(settings: Settings) -> float:
    return (
        settings.task_parked_most_s + settings.task_hard_limit_s + settings.task_retry_most_s + settings.task_shutdown_s
    )


def _store(settings: Settings) -> Any:
    from greenlane_work.store.opening import store_of

    store = store_of(settings)
    if store is not None:
        store.check()
    return store
