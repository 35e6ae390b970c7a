"""A shard of the item store is killed under load, and comes back: does anybody wait beyond the deadline?"""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from feed.service.application import DEADLINE_HEADER
from feed.site import Site
from greenlane_tools.lab.interruption import checkpoint

from .loaded import DEADLINE_MS, Told
from .subject import Subject

_SHARD: Final = 1
# Shares of the run: whole, without the shard, whole again.
_KILLED_AT, _BACK_AT = 1 / 3, 2 / 3


def outage(
    subject: Subject, site: Site, users: Sequence[int], per_s: float, seconds: float, told: Told
) -> dict[str, Any]:
    """Asks at even intervals with the service's deadline, each question in a thread of its own.

    Returns:
        asked, late (answers after the deadline), latest_ms, errors; degraded: how many answers lacked something, of
        `before`, `without` and `after` the shard; recovered_ms: from its start to the first whole answer.
    """
    shard = site.items.shards[_SHARD]
    began_s = time.monotonic()
    answers: list[tuple[float, float, bool, bool]] = []
    ended = threading.Event()

    def ask(number: int) -> None:
        due_s = began_s + number / per_s
        if ended.wait(max(0.0, due_s - time.monotonic())):
            return
        request = urllib.request.Request(
            f"http://{subject.address}/feed?user={users[number % len(users)]}&size=50",
            headers={DEADLINE_HEADER: f"{DEADLINE_MS:g}"},
        )
        whole, ok = False, True
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                whole = not json.load(response)["degraded"]
        except OSError:
            ok = False
        answers.append((due_s - began_s, (time.monotonic() - due_s) * 1e3, whole, ok))

    count = round(per_s * seconds)
    with ThreadPoolExecutor(64) as threads:
        try:
            for number in range(count):
                threads.submit(ask, number)
            _until(began_s + _KILLED_AT * seconds, told, "a shard is about to be killed")
            killed_s = time.monotonic() - began_s
            shard.kill()
            _until(began_s + _BACK_AT * seconds, told, "a shard is dead")
            shard.start()
            back_s = time.monotonic() - began_s
            _until(began_s + seconds, told, "the shard is back")
        except BaseException:
            ended.set()
            threads.shutdown(cancel_futures=True)
            raise
    return _told(answers, killed_s, back_s)


def _until(at_s: float, told: Told, doing: str) -> None:
    while (left_s := at_s - time.monotonic()) > 0:
        checkpoint()
        told(doing)
        time.sleep(min(0.2, left_s))


def _told(answers: list[tuple[float, float, bool, bool]], killed_s: float, back_s: float) -> dict[str, Any]:
    answers = sorted(answers)

    def time_of(due_s: float, ms: float) -> str:
        # Who had asked but was not answered when it died belongs to the time without it.
        return "before" if due_s + ms / 1e3 < killed_s else "without" if due_s < back_s else "after"

    lacking = Counter(time_of(due_s, ms) for due_s, ms, whole, _ in answers if not whole)
    latencies = [ms for _, ms, _, _ in answers]
    whole_again = [due_s + ms / 1e3 for due_s, ms, whole, _ in answers if whole and due_s >= back_s]
    return {
        "asked": len(answers),
        "errors": sum(not ok for *_, ok in answers),
        "late": sum(ms > DEADLINE_MS for ms in latencies),
        "latest_ms": max(latencies, default=0.0),
        "degraded": {name: lacking[name] for name in ("before", "without", "after")},
        "recovered_ms": (min(whole_again) - back_s) * 1e3 if whole_again else None,
    }
