"""Truths about what no resource of the process explains: upstreams, errors, chosen time-outs, a broker's prefetch."""

from __future__ import annotations

import threading
import time
from typing import Any

from celery import Celery
from tests.oncall.load import Clients, Seen
from tests.oncall.situation import Scene
from tests.truths.truth import GTHREAD, UVICORN, Truth, edited, load, service

_CELERY = ("celery", "-A", "{module}", "worker", "-l", "INFO", "-c", "1")
_ANY = ("take_turns", "more_threads", "off_loop", "to_thread", "more_cores")


def _mails(clients: Clients, scene: Scene) -> None:
    """Two exports, and mails beside them."""

    def wait(due_s: float, order: Any) -> None:
        while not order.ready():
            time.sleep(0.02)
        clients.seen.append(Seen("mail", 200, time.monotonic() - due_s))

    with Celery(broker=scene.redis_url, backend=scene.redis_url) as app:
        waiting = []
        began_s = time.monotonic()
        for number in range(40):
            due_s = began_s + number / 10
            time.sleep(max(0.0, due_s - time.monotonic()))
            if number % 20 == 0:
                app.send_task("export")
            waiting.append(threading.Thread(target=wait, args=(due_s, app.send_task("mail"))))
            waiting[-1].start()
        for thread in waiting:
            thread.join()


def _boot(clients: Clients, scene: Scene) -> None:
    probe = threading.Thread(target=clients.ask, args=("/ready",))
    probe.start()
    probe.join()
    clients.paced("/item", 15, 2)


_PARTNER = service("upstream_http", GTHREAD, load({"/partner": 4}, {"/ping": 5}), 600)
_SEARCH = service("upstream_database", UVICORN, load({"/search": 4}), postgres=True)

TRUTHS = {
    "celery_prefetch": Truth(
        "Mails that a worker has reserved wait behind its export, while another worker is idle.",
        service("celery_prefetch", _CELERY, _mails, redis=True, ready="ready\\.", twin=True),
        ("mail",), ("prefetch",), ("lower_prefetch",), _ANY, holder="export",
        change="prefetch 1, late acknowledgement",
        changed=edited(
            service("celery_prefetch", _CELERY, _mails, redis=True, ready="ready\\.", twin=True),
            ("prefetch_multiplier = 8", "prefetch_multiplier = 1\napp.conf.task_acks_late = True"),
        ),
    ),
    "upstream_http": Truth(
        "The partner takes 600 ms; nothing inside waits.",
        _PARTNER, ("GET /partner",), ("upstream",), ("upstream",), _ANY, "127.0.0.1",
    ),
    "upstream_database": Truth(
        "The query takes the database 400 ms; nothing inside waits.",
        _SEARCH, ("GET /search",), ("upstream",), ("upstream",), _ANY, "127.0.0.1",
        change="a query of 40 ms", changed=edited(_SEARCH, ("pg_sleep(0.4)", "pg_sleep(0.04)")),
    ),
    "errors_all": Truth(
        "Every answer is a 500.",
        service("errors_all", GTHREAD, load({}, {"/cart": 20}, 2)),
        ("GET /cart",), ("errors",), ("read_error",), _ANY,
    ),
    "errors_async": Truth(
        "Every answer is a 500: it does not fit its model.",
        service("errors_async", UVICORN, load({}, {"/user": 20}, 2)),
        ("GET /user",), ("errors",), ("read_error",), _ANY,
    ),
    "errors_django": Truth(
        "Three of four answers are a 500: each thread keeps a connection, and the database allows four.",
        service("errors_django", GTHREAD, load({"/user": 16}, seconds=2), postgres=True),
        ("GET /user", "GET user"), ("errors",), ("read_error",), _ANY,
    ),
    "chosen_event": Truth(
        "A long poll waits a second by its own choice; nothing is wrong.",
        service("chosen_event", GTHREAD, load({"/poll": 4}, {"/ping": 10})),
        ("GET /poll", "GET /ping"), ("none",), ("none",), (*_ANY, "shorten_hold"),
    ),
    "chosen_queue": Truth(
        "A page waits for a queue a second by its own choice; nothing is wrong.",
        service("chosen_queue", GTHREAD, load({"/next": 4})),
        ("GET /next",), ("none",), ("none",), (*_ANY, "shorten_hold"),
    ),
    "boot_probe": Truth(
        "One probe waited for the boot; everything else takes its 20 ms.",
        service("boot_probe", GTHREAD, _boot),
        ("GET /item",), ("none",), ("none", "shorten_line"), _ANY,
    ),
}  # fmt: skip
