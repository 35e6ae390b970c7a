"""What a task publishes when its call is over, where the broker does not take it: `self.retry`, and what follows."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from amqp.exceptions import MessageNacked
from celery import Celery
from celery.exceptions import Ignore, Reject, Retry
from kombu.exceptions import EncodeError, OperationalError
from redis.exceptions import MasterDownError, OutOfMemoryError, ReadOnlyError, ResponseError

from greenlane_work.order import Done, Order, Run, running
from greenlane_work.settings import WorkSettings
from greenlane_work.store import State, Store, open_store
from greenlane_work.worker.adapter import Unpublished, followers_wait, wait_for_the_broker
from greenlane_work.worker.execution import Execution
from greenlane_work.worker.outcomes import Again
from greenlane_work.worker.retries import Retrying
from greenlane_work.worker.totals import Totals


class Task:
    """A task whose `retry` meets these errors, one a call, and then publishes."""

    app = Celery("own_retry", broker="amqp://", set_as_current=False)

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls: list[tuple[object, ...]] = []
        self.slept: list[float] = []
        wait_for_the_broker(self, self.slept.append)

    def retry(self, *arguments: object) -> None:
        self.calls.append(arguments)
        if self.errors:
            raise Reject(self.errors.pop(0), requeue=False)
        raise Retry()


@pytest.fixture
def run() -> Iterator[Run]:
    made = Run(Order(1, id="a", key="k", name="t", size=0))
    token = running.set(made)
    yield made
    running.reset(token)


def ordered(task: Any, run: Run, store: Store | None = None) -> Execution:
    """Let the task run as this run's order."""
    order = run.order
    settings = WorkSettings(task_key="args.0")
    retrying = Retrying(settings, Totals(), stored=store is not None)
    execution = Execution(store, retrying, settings, lambda _order, _error: None, Totals())
    execution.wrap(task)
    task.push_request(id=order.id, called_directly=False, is_eager=False)
    order.name, order.identity = task.name, (task.name, order.id, 0, 0)
    order.request = SimpleNamespace(id=order.id, task=task)
    return execution


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[Store, Store]]:
    """The worker's, and another one's on the same file."""
    url = f"sqlite:///{tmp_path}/orders.db"
    store, other = open_store(url), open_store(url)
    yield store, other
    store.close()
    other.close()


@pytest.mark.usefixtures("run")
def test_it_is_published_when_the_broker_is_back() -> None:
    away = [OperationalError("gone"), BrokenPipeError(errno.EPIPE, "gone"), MessageNacked(), TimeoutError()]
    busy = [ResponseError("BUSY a script runs"), ResponseError("Command # 1 (SET) of pipeline caused error: MISCONF")]
    task = Task(*away, *busy, MasterDownError("its link is down"), ReadOnlyError("a replica"), OutOfMemoryError())
    with pytest.raises(Retry):
        task.retry("again")
    assert task.calls == [("again",)] * 10
    assert len(task.slept) == 9


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize("error", [EncodeError("no JSON"), ResponseError("WRONGTYPE no list, BUSY or not")])
def test_what_can_never_be_published_is_a_failure_of_the_task(error: Exception) -> None:
    task = Task(error)
    with pytest.raises(Unpublished, match=r"no JSON|ResponseError"):
        task.retry()
    assert (len(task.calls), task.slept) == (1, [])


@pytest.mark.usefixtures("run")
def test_a_rejection_of_the_tasks_own_stays_one() -> None:
    task = Task()

    def reject() -> None:
        raise Reject("closed", requeue=False)

    task.retry = reject  # type: ignore[method-assign]
    wait_for_the_broker(task, task.slept.append)
    with pytest.raises(Reject, match="closed"):
        task.retry()
    assert task.slept == []


def test_outside_of_an_orders_run_celerys_way_is_kept() -> None:
    with pytest.raises(Reject):
        Task(OperationalError("gone")).retry()


class Program:
    """An app whose `send_task` meets these errors, one a call, and then publishes."""

    connection_for_write, backend = Task.app.connection_for_write, Task.app.backend

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.ids: list[str] = []
        self.slept: list[float] = []
        followers_wait(self, self.slept.append)
        followers_wait(self, self.slept.append)

    def send_task(self, name: str, task_id: str = "", **_options: object) -> str:
        self.ids.append(task_id)
        if self.errors:
            raise self.errors.pop(0)
        return name


def test_what_follows_waits_under_one_id(run: Run) -> None:
    program = Program(OperationalError("gone"), MessageNacked())
    run.over = True
    assert program.send_task("next") == "next"
    assert len(program.slept) == 2
    assert len(program.ids) == 3
    assert len(set(program.ids)) == 1
    assert program.ids[0]


def test_what_the_task_itself_publishes_does_not_wait(run: Run) -> None:
    program = Program(OperationalError("gone"))
    with pytest.raises(OperationalError):
        program.send_task("beside")
    assert (run.over, program.slept) == (False, [])


def test_the_wait_ends_where_the_run_was_given_up(run: Run) -> None:
    program = Program(*[OperationalError("gone")] * 9)
    run.over = True

    def given_up(_seconds: float) -> None:
        run.abandoned = True

    app = Program.__new__(Program)
    app.errors, app.ids = program.errors, []
    followers_wait(app, given_up)
    with pytest.raises(OperationalError):
        app.send_task("next")
    assert len(app.ids) == 2


def test_what_can_never_be_published_is_raised(run: Run) -> None:
    program = Program(EncodeError("no JSON"))
    run.over = True
    with pytest.raises(EncodeError):
        program.send_task("next")


def test_the_next_attempt_begins_when_the_result_of_this_one_is_written(run: Run, stores: tuple[Store, Store]) -> None:
    """It is published before that: the state RETRY could overwrite its result."""
    store, other = stores

    @Task.app.task(name="retried", bind=True, lazy=False)  # type: ignore[untyped-decorator]
    def retried(_task: object) -> None:
        raise Retry()

    execution = ordered(retried, run, store)
    with pytest.raises(Retry):
        retried.run()
    # Celery's tracer writes it now.
    assert other.begin("retried/a").state is State.RUNNING
    told = Event()
    assert execution.ledger is not None
    assert execution.ledger.tell(run, lambda error: told.set() if error is None else None)
    assert told.wait(20)
    assert other.begin("retried/a").state is State.UNKNOWN


@pytest.mark.parametrize("raises", [False, True])
def test_a_run_that_was_given_up_tells_the_store_itself(run: Run, stores: tuple[Store, Store], raises: bool) -> None:
    store, other = stores

    @Task.app.task(name=f"late-{raises}", lazy=False)  # type: ignore[untyped-decorator]
    def late() -> str:
        run.abandoned = True  # the hard limit
        if raises:
            raise KeyError
        return "done"

    ordered(late, run, store)
    with pytest.raises(Ignore):  # Celery writes nothing down, publishes nothing, and does not try again
        late.run()
    assert (run.untold, run.raised, run.over) == (None, None, False)
    assert store.close(20)
    assert other.begin(f"late-{raises}/a").state is (State.UNKNOWN if raises else State.DONE)


def test_a_run_that_was_given_up_while_it_asked_makes_no_call(run: Run) -> None:
    def ask() -> None:
        run.abandoned = True  # the hard limit

    @Task.app.task(name="asks", lazy=False, ask=ask)  # type: ignore[untyped-decorator]
    def asks() -> None:
        raise AssertionError("it is called")

    ordered(asks, run)
    run.order.in_doubt = True
    with pytest.raises(Ignore):
        asks.run()


def test_a_task_of_a_run_that_was_given_up_publishes_no_next_attempt(run: Run) -> None:
    task = Task()
    run.abandoned = True
    with pytest.raises(Ignore):
        task.retry("again")
    assert task.calls == []


def test_a_call_that_the_upstream_knows_is_kept_for_what_follows_it(run: Run) -> None:
    """If that cannot be published, only that is tried again: the order is not buried."""
    asked: list[str] = []

    def ask(name: str) -> str:
        asked.append(name)
        return "it was sent"

    @Task.app.task(name="mail", ask=ask, lazy=False)  # type: ignore[untyped-decorator]
    def mail(name: str) -> str:
        raise AssertionError(f"{name} is not called again")

    ordered(mail, run)
    run.order.in_doubt = True
    assert mail.run("x") == "it was sent"
    assert run.done == Done("it was sent")
    assert mail.run("x") == "it was sent"
    assert asked == ["x"]


def test_an_order_that_met_its_soft_limit_before_it_had_a_thread_is_not_called_and_begins_again(run: Run) -> None:
    """The exception had no thread to be raised in: the call would have no limit."""

    @Task.app.task(name="waited", lazy=False)  # type: ignore[untyped-decorator]
    def waited() -> None:
        raise AssertionError("it is called")

    ordered(waited, run)
    run.late_unbegun = True
    with pytest.raises(Again) as again:
        waited.run()
    assert (again.value.counted, run.order.attempts) == (False, 0)
