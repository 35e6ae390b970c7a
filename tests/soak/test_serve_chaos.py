"""A minute of reloads and kill -9 at random under load: every safe request is answered, each answer is its own.

What may have an effect is not sent twice, so those may fail; they are counted, and each has a name.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import random
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.serve.served import Served, until

# The whole test; shorter runs (while working on it) show less.
SECONDS = float(os.environ.get("SOAK_SECONDS", "60"))
KEPT, NEW = 6, 6
WORKERS = 3
SETTINGS = f"""
{{bind}}
workers = {WORKERS}
at_once = 2
stop_s = 10

[lanes.first]
match = ["/first*"]
processes = 1
"""
# Share of requests that may have an effect.
POSTS_FRAC = 0.2
# What a POST may get when its worker is killed: the front's answer, or the end of a connection that was used before.
ALLOWED = {"502", "RemoteDisconnected"}


class Asker(threading.Thread):
    """One client. Each request has a number, which its answer must repeat."""

    def __init__(self, served: Served, who: int, over: threading.Event) -> None:
        super().__init__(name=f"client {who}", daemon=True)
        self.safe: Counter[str] = Counter()
        self.others: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._served = served
        self._who = who
        self._over = over
        self._chance = random.Random(who)

    def run(self) -> None:
        connection = self._served.connection()
        number = 0
        while not self._over.is_set():
            number += 1
            safe = self._chance.random() >= POSTS_FRAC
            (self.safe if safe else self.others)[self._ask(connection, f"{self._who}-{number}", safe)] += 1
            if self._who >= KEPT:
                connection.close()
        connection.close()

    def _ask(self, connection: http.client.HTTPConnection, name: str, safe: bool) -> str:
        path = f"{self._chance.choice(['', '/first'])}/echo?{name}"
        body = None if safe else f"body-{name}".encode()
        try:
            connection.request("GET" if safe else "POST", path, body=body)
            answer = connection.getresponse()
            text = answer.read().decode()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            return type(error).__name__
        if answer.status == 200 and text != f"{name} {'' if safe else f'body-{name}'}":
            self.wrong.append(f"{name} was answered {text!r}")
        return str(answer.status)


def disturb(served: Served, chance: random.Random, done: Counter[str]) -> None:
    """One thing that happens to a service."""
    what = chance.choices(["kill", "reload", "change"], [6, 3, 1])[0]
    done[what] += 1
    if what == "kill":
        with contextlib.suppress(ProcessLookupError, IndexError):
            os.kill(chance.choice(served.workers()), signal.SIGKILL)
        return
    if what == "change":
        number = done[what]
        served.configure(f"{SETTINGS}\n[lanes.other-{number}]\nmatch = ['/other*']\nat_once = {1 + number % 3}\n")
    served.process.signal(signal.SIGHUP)


@pytest.mark.soak
@pytest.mark.system
def test_no_safe_request_fails_and_no_answer_goes_to_another(tmp_path: Path) -> None:
    over, done, chance = threading.Event(), Counter[str](), random.Random(8)
    with Served(tmp_path, "held:app", SETTINGS, "--kind", "wsgi") as served:
        clients = [Asker(served, who, over) for who in range(KEPT + NEW)]
        for client in clients:
            client.start()
        end_s = time.monotonic() + SECONDS
        while time.monotonic() < end_s:
            time.sleep(chance.uniform(0.2, 1.0))
            disturb(served, chance, done)
        over.set()
        for client in clients:
            client.join(60)
            assert not client.is_alive(), f"{client.name} waits for an answer for ever"
        safe = sum((client.safe for client in clients), Counter[str]())
        others = sum((client.others for client in clients), Counter[str]())
        print(f"{dict(done)}; safe {dict(safe)}; others {dict(others)}")
        assert [wrong for client in clients for wrong in client.wrong] == []
        assert set(safe) == {"200"}
        assert set(others) - {"200"} <= ALLOWED
        assert sum(others[name] for name in ALLOWED) <= 2 * WORKERS * done["kill"]
        until(lambda: len(served.workers()) == WORKERS, timeout_s=60)
