"""Clients that send a known mix of requests at once and check every answer."""

import http.client
import json
import random
import threading
from dataclasses import dataclass, field


@dataclass
class Outcome:
    """The result of a load."""

    wrong: list[str] = field(default_factory=list)
    heavy: int = 0
    light: int = 0
    failed: int = 0


def send(port: int, path: str, *, timeout_s: float = 30) -> tuple[int, bytes]:
    """One request on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def mixed(port: int, *, clients: int = 10, requests: int = 18, seed: int = 1) -> Outcome:
    """Each client sends its requests one after the other over a connection that it keeps."""
    outcome = Outcome()
    mutex = threading.Lock()

    def client(who: int) -> None:
        chance = random.Random(seed * 1000 + who)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        for index in range(requests):
            n = who * requests + index + 1
            kind = chance.choices(["heavy", "light", "fail"], [50, 45, 5])[0]
            try:
                connection.request("GET", f"/{kind}/{n}")
                answer = connection.getresponse()
                status, body = answer.status, answer.read()
                if answer.will_close:
                    connection.close()
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                status, body = 0, repr(error).encode()
            with mutex:
                _judge(outcome, kind, n, status, body)
        connection.close()

    threads = [threading.Thread(target=client, args=(who,), daemon=True) for who in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        if thread.is_alive():
            outcome.wrong.append(f"{thread.name} has no answer after 120 s")
    return outcome


def _judge(outcome: Outcome, kind: str, n: int, status: int, body: bytes) -> None:
    if kind == "fail":
        outcome.failed += 1
        if status != 500:
            outcome.wrong.append(f"/fail/{n}: {status} {body[:300]!r}")
        return
    if kind == "heavy":
        outcome.heavy += 1
        expected = {"n": n, "effects": 1, "sum": 5050}
    else:
        outcome.light += 1
        expected = {"n": n, "square": n * n}
    if status != 200 or json.loads(body) != expected:
        outcome.wrong.append(f"/{kind}/{n}: {status} {body[:300]!r}, expected {expected}")
