"""A Celery application that `greenlane record --pid` is put to; its worker tells what it has and had not at first."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import json
import os
import time

from celery import Celery
from tests.trace import snapshot

import greenlane.attachable

assert greenlane.attachable
celery = Celery("attached", broker=os.environ["BROKER"], backend=os.environ["BROKER"])
celery.conf.task_default_queue = os.environ["QUEUE"]
_before = {}


@celery.task
def work(number):
    """Computes and sleeps."""
    until = time.thread_time() + 0.001
    while time.thread_time() < until:
        pass
    time.sleep(0.02)
    return number


@celery.task
def first():
    """What is there before."""
    snapshot.slots()
    _before.update(snapshot.look())


@celery.task
def left():
    """What is there besides."""
    now, ours = snapshot.look(), snapshot.of_ours(snapshot.look(snapshot.slots()))
    return json.dumps({"changed": snapshot.difference(_before, now), "ours": ours})
