"""A Celery app whose tasks write down what they do: what a merchant would see. Started in processes of its own."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import urllib.request

import amqp
from celery import Celery
from celery.exceptions import Reject, SoftTimeLimitExceeded

from greenlane_work import NotSent, current

app = Celery("shop", broker=os.environ["BROKER"])
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
    task_ignore_result=True,
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


@app.task
def send(order: str, merchant: str = "m", seconds: float = 0.0, not_before: float = 0.0) -> str:
    """Ordinary."""
    effect("begin" if time.time() >= not_before else "early", order)
    time.sleep(seconds)
    effect("end", order)
    return f"sent {order}"


@app.task
def flaky(order: str, failures: int, merchant: str = "m") -> None:
    """Fails so often; the order says how often it was begun."""
    now = current()
    assert now is not None
    effect("begin", order, now.attempt, now.id)
    if effects("begin", order) <= failures:
        raise ConnectionResetError("the merchant hung up")
    effect("end", order)


@app.task
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


@app.task
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


@app.task
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


def asked(order: str, merchant: str = "m") -> str | None:
    """The merchant's answer to whether it has an order."""
    effect("asked", order)
    return "has it" if effects("effect", order) else None


@app.task(ask=asked)
def doubt(order: str, merchant: str = "m") -> None:
    """Has its effect, and then the worker dies."""
    effect("begin", order)
    if effects("begin", order) == 1:
        effect("effect", order)
        os.kill(os.getpid(), signal.SIGKILL)
    effect("end", order)


@app.task
def poison(order: str, merchant: str = "m") -> None:
    """Kills whoever runs it."""
    effect("begin", order)
    os.kill(os.getpid(), signal.SIGKILL)


@app.task
def unsent(order: str, merchant: str = "m") -> None:
    """Knows that nothing was sent, twice."""
    effect("begin", order)
    if effects("begin", order) <= 2:
        raise NotSent("no room in the pool")
    effect("end", order)


@app.task(bind=True, max_retries=3)
def own_retry(self, order: str, merchant: str = "m", seconds: float = 0.0) -> None:  # type: ignore[no-untyped-def]
    """Celery's own way of trying again."""
    effect("begin", order)
    time.sleep(seconds)
    if not self.request.retries:
        raise self.retry(countdown=0)
    effect("end", order)


@app.task(bind=True)
def unpublished(self, order: str, merchant: str = "m") -> None:  # type: ignore[no-untyped-def]
    """Asks for a next attempt that cannot be written down."""
    effect("begin", order)
    raise self.retry(kwargs={"merchant": object()}, countdown=0)


@app.task
def rejected(order: str, merchant: str = "m") -> None:
    """Wants to be a dead letter."""
    effect("begin", order)
    raise Reject(ValueError("no such shop"), requeue=False)


@app.task(bind=True)
def replaced(self, order: str, merchant: str = "m", left: int = 2) -> None:  # type: ignore[no-untyped-def]
    """Replaces itself twice: the same task, under the same id."""
    effect("begin", order)
    if left:
        raise self.replace(self.s(order, merchant, left - 1))
    effect("end", order)


@app.task
def quits(order: str, merchant: str = "m") -> None:
    """Ends the process, as it thinks; once."""
    effect("begin", order)
    if effects("begin", order) == 1:
        sys.exit(3)
    effect("end", order)


@app.task
def call(order: str, url: str, merchant: str = "m") -> None:
    """Asks the merchant over HTTP, and writes down what it was told: the header that says how long it may take."""
    now = current()
    assert now is not None
    left_s = now.remaining_s()
    with urllib.request.urlopen(url, timeout=30) as answer:
        effect("end", order, answer.read().decode(), "none" if left_s is None else int(left_s * 1000))


@app.task
def compute(order: str, merchant: str = "m", ms: float = 10.0) -> None:
    """Nothing but CPU."""
    until = time.thread_time() + ms / 1e3
    while time.thread_time() < until:
        pass
    effect("end", order)


@app.task(throws=(KeyError,))
def refused(order: str, merchant: str = "m") -> None:
    """The merchant says no, which is an answer."""
    effect("begin", order)
    raise KeyError("closed today")
