"""A Celery app whose tasks write down what they do: what a merchant would see. Started in processes of its own."""

from __future__ import annotations

import contextlib
import datetime
import functools
import json
import os
import signal
import sys
import threading
import time
import urllib.request
from typing import Any

import amqp
import celery
import requests
from celery import Celery, chain, chord, group, signals
from celery.backends.base import DisabledBackend
from celery.exceptions import Reject, SoftTimeLimitExceeded
from celery.signals import before_task_publish, task_success
from celery.utils.dispatch import Signal
from celery.worker import state
from celery.worker.control import inspect_command
from kombu import Queue

from greenlane_work import NotSent, current

__all__ = ["app", "chain", "chord", "group"]

app = Celery("shop", broker=os.environ["BROKER"], backend=os.environ.get("RESULTS"))
# Not every app of the process's: tests load this module again for each site.
task = functools.partial(app.task, shared=False)
options: dict[str, object] = {}
if os.environ["BROKER"].startswith("amqp"):
    options = {"confirm_publish": True}
if "TRANSPORT" in os.environ:
    options |= json.loads(os.environ["TRANSPORT"])
if os.environ["BROKER"].startswith("filesystem"):
    folder = os.environ["FOLDER"]
    options = {"data_folder_in": folder, "data_folder_out": folder, "control_folder": folder, "polling_interval": 0.05}
app.conf.update(
    task_acks_late=os.environ.get("ACKS", "late") == "late",
    task_ignore_result="RESULTS" not in os.environ,
    task_track_started=True,
    task_serializer=os.environ.get("SERIALIZER", "json"),
    result_serializer=os.environ.get("SERIALIZER", "json"),
    accept_content=["json", os.environ.get("SERIALIZER", "json")],
    task_default_queue=os.environ["QUEUE"],
    broker_transport_options=options,
    broker_connection_retry_on_startup=True,
    broker_heartbeat=10,
)


def effect(*words: object) -> None:
    """One line, whole, in the merchant's book."""
    book = os.open(os.environ["BOOK"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(book, (" ".join(map(str, words)) + "\n").encode())
    os.close(book)


if "EVENTS" in os.environ or "SPANS" in os.environ:
    from tests.worker import reported

    if "EVENTS" in os.environ:
        reported.events_into(os.environ["EVENTS"])
    if "SPANS" in os.environ:
        reported.spans_into(os.environ["SPANS"])
if "BEAT" in os.environ:
    beaten = {"task": "tests.worker.shop.send", "schedule": 0.3, "args": ("beaten",)}
    app.conf.beat_schedule = {"often": beaten}
if "ARGUMENTS" in os.environ:
    app.conf.task_queues = [Queue(os.environ["QUEUE"], queue_arguments=json.loads(os.environ["ARGUMENTS"]))]

if "ACKERS" in os.environ:
    # Which thread says to the broker that a message is done with.
    said = amqp.Channel.basic_ack

    def basic_ack(channel: amqp.Channel, *arguments: object, **options: object) -> object:
        effect("acked-by", threading.get_ident() - threading.main_thread().ident)
        return said(channel, *arguments, **options)

    amqp.Channel.basic_ack = basic_ack


def effects(word: str, order: object) -> int:
    """How often a word was written of an order."""
    with open(os.environ["BOOK"]) as book:
        return sum(line.split()[:2] == [word, str(order)] for line in book)


@task
def send(order: str, merchant: str = "m", seconds: float = 0.0, not_before: float = 0.0) -> str:
    """Ordinary."""
    effect("begin" if time.time() >= not_before else "early", order)
    time.sleep(seconds)
    effect("end", order)
    return f"sent {order}"


@task
def flaky(order: str, failures: int, merchant: str = "m") -> None:
    """Fails so often; the order says how often it was begun."""
    now = current()
    assert now is not None
    effect("begin", order, now.attempt, now.id)
    if effects("begin", order) <= failures:
        raise ConnectionResetError("the merchant hung up")
    effect("end", order)


@task
def waits(order: str, gate: str, merchant: str = "m") -> None:
    """Ends when the gate, a file, is gone."""
    effect("begin", order)
    while os.path.exists(gate):
        time.sleep(0.02)
    effect("end", order)


@task
def fails_after(order: str, gate: str, merchant: str = "m") -> None:
    """Fails when the gate, a file, is gone."""
    effect("begin", order)
    while os.path.exists(gate):
        time.sleep(0.02)
    effect("failed", order)
    raise ConnectionResetError("the merchant hung up")


@task
def hang(order: str, merchant: str = "m", seconds: float = 60.0) -> None:
    """Hangs the first time."""
    effect("begin", order)
    if effects("begin", order) == 1:
        try:
            time.sleep(seconds)
        except SoftTimeLimitExceeded:
            effect("soft", order)
            raise
    effect("end", order)


@task
def stubborn(order: str, merchant: str = "m", seconds: float = 3.0) -> None:
    """Does not end at its soft limit, the first time."""
    effect("begin", order)
    until = time.monotonic() + seconds
    while effects("begin", order) == 1 and time.monotonic() < until:
        try:
            time.sleep(0.01)
        except SoftTimeLimitExceeded:
            effect("soft", order)
    effect("end", order)


@task(autoretry_for=(KeyError,), default_retry_delay=0)
def raises_late(order: str, merchant: str = "m", seconds: float = 3.0) -> str:
    """Fails the first time, long after its limits."""
    effect("begin", order)
    if effects("begin", order) == 1:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with contextlib.suppress(SoftTimeLimitExceeded):
                time.sleep(0.01)
        effect("late", order)
        raise KeyError(order)
    return f"sent {order}"


class HangsWhenDone(celery.Task):
    """Has a hook that hangs, each time."""

    def on_success(self, result: object, number: str, args: tuple[str, ...], kwargs: object) -> None:
        """Celery has written the result."""
        effect("hook", args[0])
        time.sleep(60)


@task(base=HangsWhenDone, time_limit=0.5)
def hangs_when_done(order: str, merchant: str = "m") -> None:
    """Ends, and its hook does not."""
    effect("end", order)


@task
def burn(order: str, merchant: str = "m") -> None:
    """Never yields, until it is stopped."""
    effect("begin", order)
    try:
        while effects("begin", order) == 1:
            pass
    except SoftTimeLimitExceeded:
        effect("soft", order)
        raise
    effect("end", order)


def failing_key(name: str, args: object, kwargs: dict[str, object], headers: object) -> str:
    """Reads what is not there."""
    return str(kwargs["nobody"])


def asked(order: str, reached: bool = False, merchant: str = "m") -> str | None:
    """The merchant's answer to whether it has an order."""
    effect("asked", order)
    return "has it" if effects("effect", order) else None


@task(ask=asked)
def doubt(order: str, merchant: str = "m") -> None:
    """Has its effect, and then the worker dies."""
    effect("begin", order)
    if effects("begin", order) == 1:
        effect("effect", order)
        os.kill(os.getpid(), signal.SIGKILL)
    effect("end", order)


@task(ask=asked, greenlane_retries=2)
def hung_up(order: str, reached: bool, merchant: str = "m") -> None:
    """Loses its connection the first time, before or after the merchant has it."""
    effect("begin", order)
    if effects("begin", order) == 1:
        if reached:
            effect("effect", order)
        raise ConnectionResetError("the merchant hung up")
    effect("end", order)


@task
def poison(order: str, merchant: str = "m") -> None:
    """Kills the process that runs it."""
    effect("begin", order)
    os.kill(os.getpid(), signal.SIGKILL)


@task
def unsent(order: str, merchant: str = "m", seconds: float = 0.0) -> None:
    """Knows that nothing was sent, twice."""
    effect("begin", order)
    time.sleep(seconds)
    if effects("begin", order) <= 2:
        raise NotSent("no room in the pool")
    effect("end", order)


@task(bind=True, max_retries=3)
def own_retry(self, order: str, merchant: str = "m", seconds: float = 0.0) -> None:  # type: ignore[no-untyped-def]
    """Celery's own way of trying again."""
    effect("begin", order)
    time.sleep(seconds)
    if not self.request.retries:
        raise self.retry(countdown=0)
    effect("end", order)


@task(bind=True)
def unpublished(self, order: str, merchant: str = "m") -> None:  # type: ignore[no-untyped-def]
    """Asks for a next attempt that cannot be written down."""
    effect("begin", order)
    raise self.retry(kwargs={"merchant": object()}, countdown=0)


@task
def rejected(order: str, merchant: str = "m") -> None:
    """Wants to be a dead letter."""
    effect("begin", order)
    raise Reject(ValueError("no such shop"), requeue=False)


@task(bind=True)
def rejected_at_first(self, order: str, most: int = 1, merchant: str = "m") -> int:  # type: ignore[no-untyped-def]
    """Goes back to its queue, so often; tells how often it came."""
    effect("begin", order)
    begun = effects("begin", order)
    assert self.request.delivery_info["redelivered"] == (begun > 1)
    if begun <= most:
        raise Reject(ValueError("not yet"), requeue=True)
    return begun


@task
def refuses(order: str, again_s: int, merchant: str = "m") -> None:
    """The merchant says when to come again."""
    response = requests.Response()
    response.status_code = 429
    response.headers["Retry-After"] = str(again_s)
    effect("begin", order)
    raise requests.HTTPError(response=response)


@task
def by_process(order: str, merchant: str = "m") -> None:
    """Says which process runs it."""
    effect("begin", order, os.getpid())
    time.sleep(0.1)
    effect("end", order)


@task
def rejected_late(order: str, seconds: float, merchant: str = "m") -> None:
    """Wants to be a dead letter, after a while."""
    effect("begin", order)
    time.sleep(seconds)
    raise Reject(ValueError("no such shop"), requeue=False)


@task(bind=True)
def replaced(self, order: str, merchant: str = "m", left: int = 2) -> None:  # type: ignore[no-untyped-def]
    """Replaces itself twice: the same task, under the same id."""
    effect("begin", order)
    if left:
        raise self.replace(self.s(order, merchant, left - 1))
    effect("end", order)


@task
def quits(order: str, merchant: str = "m") -> None:
    """Ends the process, as it thinks; once."""
    effect("begin", order)
    if effects("begin", order) == 1:
        sys.exit(3)
    effect("end", order)


@task
def call(order: str, url: str, merchant: str = "m") -> None:
    """Asks the merchant over HTTP, and writes down what it was told: the header that says how long it may take."""
    now = current()
    assert now is not None
    left_s = now.remaining_s()
    with urllib.request.urlopen(url, timeout=30) as answer:
        effect("end", order, answer.read().decode(), "none" if left_s is None else int(left_s * 1000))


@task
def compute(order: str, merchant: str = "m", ms: float = 10.0) -> None:
    """Nothing but CPU."""
    until = time.thread_time() + ms / 1e3
    while time.thread_time() < until:
        pass
    effect("end", order)


@task(throws=(KeyError,))
def refused(order: str, merchant: str = "m") -> None:
    """The merchant says no, which is an answer."""
    effect("begin", order)
    raise KeyError("closed today")


@task
def softened(order: str, merchant: str = "m") -> str:
    """Meets its soft limit, and then publishes."""
    effect("begin", order)
    try:
        for _ in range(100):
            time.sleep(0.1)
    except SoftTimeLimitExceeded:
        send.delay(f"{order}-next")
        return "softened"
    return "never"


@task(bind=True)
def retried_softened(self, order: str, merchant: str = "m") -> str:  # type: ignore[no-untyped-def]
    """Meets its soft limit, and asks Celery for another run."""
    effect("begin", order)
    try:
        for _ in range(0 if self.request.retries else 100):
            time.sleep(0.1)
    except SoftTimeLimitExceeded:
        raise self.retry(countdown=0) from None
    return "retried"


@task(autoretry_for=(ConnectionResetError,), max_retries=2, retry_backoff=False, default_retry_delay=0)
def celerys_retries(order: str, failures: int, merchant: str = "m") -> None:
    """Is tried again by Celery."""
    flaky.run(order, failures, merchant)


@task(autoretry_for=(ConnectionResetError,), retry_kwargs={"max_retries": 7, "countdown": 0})
def many_retries(order: str, failures: int, merchant: str = "m") -> None:
    """Likewise, more often than an order may be begun for other reasons."""
    flaky.run(order, failures, merchant)


@task(bind=True, max_retries=None, greenlane_retries=1)
def retried_both_ways(self, order: str, merchant: str = "m") -> None:  # type: ignore[no-untyped-def]
    """Is tried again by Celery, twice, and once more for the reason that is its name."""
    effect("begin", order)
    if self.request.retries < 2:
        raise self.retry(countdown=0)
    if effects("begin", order) == 3:
        if order == "hangs":
            time.sleep(3)
        raise NotSent() if order == "unsent" else ConnectionResetError("the merchant hung up")
    effect("end", order)


@task(greenlane_retries=4)
def our_retries(order: str, failures: int, merchant: str = "m") -> None:
    """Is tried again by the worker."""
    flaky.run(order, failures, merchant)


class Odd:
    """No JSON says this."""


@task
def dies_when_done(order: str, serializer: str, merchant: str = "m") -> object:
    """Is done, and the worker dies after it has published what follows, before it can acknowledge."""
    effect("begin", order)
    return datetime.datetime.now(datetime.UTC) if serializer == "json" else Odd()


@task
def follows(result: object, order: str, merchant: str = "m") -> None:
    """Comes after another one."""
    effect("end", order, type(result).__name__)


@task
def body(results: list[str], order: str, merchant: str = "m") -> None:
    """Comes after all members of a chord."""
    effect("end", order)


@before_task_publish.connect(sender="tests.worker.shop.body")
def _die_with_the_claim(**_ignored: object) -> None:
    if "DIES_WITH_CLAIM" in os.environ and effects("died", "once") == 0:
        effect("died", "once")
        os.kill(os.getpid(), signal.SIGKILL)


@task_success.connect(sender=dies_when_done)
def _die(**_ignored: object) -> None:
    if effects("died", "once") == 0:
        effect("died", "once")
        os.kill(os.getpid(), signal.SIGKILL)


def _heard(_task: object, _error: BaseException, _id: str, args: tuple[str], *_rest: object) -> None:
    effect("on_failure", *args)


@task(on_failure=_heard)
def heard(order: str, merchant: str = "m", seconds: float = 0.0) -> None:
    """Fails, and hears of it."""
    effect("begin", order)
    time.sleep(seconds)
    error: Any = ConnectionResetError("the merchant hung up")
    error.exception = "as some libraries call their cause"
    raise error


@task
def huge(order: str, merchant: str = "m") -> None:
    """Fails with what no frame of AMQP has room for."""
    raise RuntimeError("\N{SNOWMAN}" * 300_000)


@task
def buggy(order: str, merchant: str = "m") -> None:
    """Has a bug of its own."""
    raise KeyError("menu")


@task(greenlane_retries=0)
def failing_ask(order: str, merchant: str = "m") -> None:
    """Is asked about, and the answer is an error."""
    effect("begin", order)


def _fails(order: str, merchant: str = "m") -> None:
    raise ConnectionResetError("the merchant hung up")


failing_ask.ask = _fails


@task(throws=(KeyError,))
def answers(order: str, merchant: str = "m") -> None:
    """Fails in a way that its caller counts on."""
    raise KeyError("sold out")


@task
def quits_late(order: str, merchant: str = "m") -> None:
    """Hangs longer than its time limits."""
    with contextlib.suppress(SoftTimeLimitExceeded):
        time.sleep(60)
    time.sleep(60)


@task(rate_limit="2/s")
def rarely(order: str, merchant: str = "m") -> None:
    """Has a low rate limit of Celery's."""
    effect("begin", order)


@task(rate_limit="20/s")
def limited(order: str, merchant: str = "m") -> None:
    """Has a rate limit of Celery's."""
    effect("end", order)


@inspect_command()
def greenlane_requests(_state: object) -> str:
    """Which requests Celery's own tables have."""
    return json.dumps(sorted({*state.requests, *(request.id for request in state.reserved_requests)}))


@task
def unstored(order: str, merchant: str = "m") -> None:
    """Its result backend has a bug."""
    effect("end", order)


@task(bind=True, ignore_result=False)
def unstored_retry(self, order: str, merchant: str = "m") -> None:  # type: ignore[no-untyped-def]
    """Its result backend cannot be told that it is tried again."""
    effect("begin", order)
    if not self.request.retries:
        raise self.retry(countdown=0)
    effect("end", order)


class _Unwilling(DisabledBackend):
    def mark_as_done(self, *_arguments: object, **_options: object) -> None:
        raise RuntimeError("not today")

    def mark_as_retry(self, *_arguments: object, **_options: object) -> None:
        raise ConnectionResetError("not now")


unstored_retry.backend = type("Backend", (_Unwilling,), {"mark_as_done": DisabledBackend.mark_as_done})(app)
unstored.backend = _Unwilling(app)


@task(bind=True)
def retries_once(self, order: str, merchant: str = "m") -> str:  # type: ignore[no-untyped-def]
    """By Celery's own signal."""
    if not self.request.retries:
        raise self.retry(countdown=0)
    return f"retried {order}"


@task(bind=True)
def replaces(self, order: str) -> None:  # type: ignore[no-untyped-def]
    """Becomes another task."""
    raise self.replace(text.si(order))


@task(bind=True)
def adds(self, order: str) -> str:  # type: ignore[no-untyped-def]
    """Adds a member to its chord."""
    self.add_to_chord(text.si(f"{order}-more"))
    return order


@task
def text(*words: object) -> str:
    """Says what it was told."""
    return " ".join(map(str, words))


@task
def joined(words: list[str]) -> str:
    """Comes after a chord's members, in whatever order they ended."""
    return "+".join(sorted(words))


@task
def failed_over(_request: object, error: BaseException, _traceback: object) -> None:
    """Called for a task that failed."""
    effect("errback", type(error).__name__)


def _write_down(name: str, sent: Signal) -> None:
    sent.connect(lambda **_ignored: effect("signal", name), weak=False)


for name in filter(None, os.environ.get("SIGNALS", "").split(",")):
    _write_down(name, getattr(signals, name))
