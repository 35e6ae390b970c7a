"""What ends the trouble of a situation, as one can type it, and by which figure that is seen: before and after.

    python -m tests.oncall.remedies [QUESTION …]

measures them, unrecorded, and prints a line each.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tests.oncall.load import Clients, after, together
from tests.oncall.situation import SITUATIONS, Scene, Seen, Situation, run

_GUNICORN = ("gunicorn", "-b", "127.0.0.1:{port}", "--no-control-socket", "--graceful-timeout", "2")
_THREADS = (*_GUNICORN, "-k", "gthread", "--threads", "16")
_PERMITS = (*_GUNICORN, "-k", "greenlane.hosts.gunicorn.Worker", "--threads", "32")
_WORKER = "-k greenlane.hosts.gunicorn.Worker --threads 32"
_CELERY = ("celery", "-A", "{module}", "worker", "-l", "INFO")
_UVICORN = ("uvicorn", "--host", "127.0.0.1", "--port", "{port}", "--log-level", "warning", "--workers", "4")


@dataclass(frozen=True)
class Remedy:
    """One of them."""

    #: What is typed, or changed in the source.
    said: str
    before: Situation
    after: Situation
    #: What the trouble is measured by, and its name.
    figure: Callable[[Seen], float]
    unit: str
    #: Afterwards it is at most this, and at most this part of what it was.
    most: float
    most_frac: float = 0.5

    @property
    def path(self) -> str:
        """Whose p99 the figure is; "" = it is another one."""
        return getattr(self.figure, "path", "")


@dataclass(frozen=True)
class p99:  # a figure, as a function is one
    """Of the answers, in s; all are answered."""

    path: str

    def __call__(self, seen: Seen) -> float:
        asked = [one for one in seen.clients.seen if one.path.startswith(self.path)]
        assert len(seen.clients.of(self.path)) == len(asked), "some have no answer"
        return seen.clients.share(self.path, 0.99)


def _median(path: str) -> Callable[[Seen], float]:
    return lambda seen: seen.clients.share(path, 0.5)


def _over_60_ms(seen: Seen) -> float:
    """Of the answers that take 40 ms by themselves, the share that takes half as long again."""
    took_s = seen.clients.of("/bike_price")
    return sum(each > 0.06 for each in took_s) / len(took_s)


def _incomplete(seen: Seen) -> float:
    """Of the answers, the share in which a mode is missing."""
    offers = [json.loads(body)["offers"] for body in seen.clients.bodies if body.startswith(b"{")]
    return sum(len(each) < 3 for each in offers) / len(offers)


def _timeouts(seen: Seen) -> float:
    return seen.output.count("WORKER TIMEOUT")


def _busiest(seen: Seen) -> float:
    """Of the answers of a burst, the share of the worker that had most."""
    return max(Counter(seen.clients.bodies).values()) / len(seen.clients.bodies)


def _longer_than_the_timeout(seen: Seen) -> float:
    return sum(seconds > 0.5 for seconds in seen.clients.of("/stock"))


def _burst(clients: Clients, scene: Scene) -> None:
    time.sleep(1.5)  # until all workers listen
    clients.at_once(*["/who"] * 20)


def _idle(clients: Clients, scene: Scene) -> None:
    together(
        *[lambda: clients.idle("/offer", 7)] * 2,
        after(0.5, lambda: clients.ask("/offer")),
        after(0.6, lambda: clients.ask("/offer")),
    )


def _killed(clients: Clients, scene: Scene) -> None:
    clients.ask("/ping")
    together(
        lambda: clients.paced("/ping", 20, 7),
        after(0.5, lambda: clients.forgotten("/export")),
    )


def _overload(clients: Clients, scene: Scene) -> None:
    together(lambda: clients.paced("/offer", 20, 5), lambda: clients.paced("/export", 6, 5))


def _kept(clients: Clients, scene: Scene) -> None:
    # Which of four workers a connection comes to is chance: that the one that renders has none of the others, too.
    for _ in range(4):
        pings = [after(0.02 * number, lambda: clients.kept("/ping", 1.2, pause_s=0.1)) for number in range(20)]
        together(*pings, after(0.4, lambda: clients.kept("/render", 0.8)))


def _of(name: str, **changes: object) -> tuple[Situation, Situation]:
    before = SITUATIONS[name]
    return before, replace(before, **changes)  # type: ignore[arg-type]


_BURST = Situation("q05_burst", (*_UVICORN, "--loop", "asyncio"), _burst)
_KEPT = (*_GUNICORN, "-k", "gevent", "--worker-connections", "2", "--keep-alive")
_HANGS = Situation("q17_benchmark", (*_KEPT, "5"), _idle)
_TIMEOUT = replace(SITUATIONS["q13"], load=_killed)
_FULL = replace(SITUATIONS["q02"], load=_overload)
_ONE_OF_FOUR = replace(SITUATIONS["q27"], load=_kept)
_DEF = (("async def report", "def report"), ("async def quote", "def quote"))
_TO_THREAD = (("        fetch_avatar()", "        await asyncio.to_thread(fetch_avatar)"),)
_RUN = (
    ("import asyncio\n", "import asyncio\nimport greenlane\n"),
    ("totals(0.06)}", "await greenlane.run(totals, 0.06)}"),
    ("totals(0.015)}", "await greenlane.run(totals, 0.015)}"),
)
_IN_A_PROCESS = (
    ("import ThreadPoolExecutor\n", "import ProcessPoolExecutor, ThreadPoolExecutor\n"),
    ("async def rank", "processes = ProcessPoolExecutor(1)\n\n\nasync def rank"),
    ("predict, prepare())", "predict, await loop.run_in_executor(processes, prepare))"),
)
_OFFERS = SITUATIONS["q17"]
_HEAVIER = (("thread_time() + 0.0025", "thread_time() + 0.006"),)
_LONGER = (("timeout=0.5", "timeout=1.0"),)
_CHEAP = (("json.dumps(items, indent=1)", "json.dumps(items)"), ("checked[::12]", "checked[:1]"))

REMEDIES: Mapping[int, Remedy] = {
    1: Remedy(_WORKER, *_of("q01", serve=_PERMITS), p99("/price"), "s", 1),
    # One export computes at a time, not three; each of an offer's calls still takes the GIL from it, at 5 ms a time.
    2: Remedy(_WORKER, *_of("q02", serve=_PERMITS), p99("/offer"), "s", 0.55, 0.8),
    3: Remedy("--threads 16", *_of("q03", serve=_THREADS), p99("/page"), "s", 0.4),
    4: Remedy(_WORKER + " -w 2", *_of("q04", serve=(*_PERMITS, "-w", "2")), p99("/ping"), "s", 0.3),
    5: Remedy("--loop uvloop", _BURST, replace(_BURST, serve=(*_UVICORN, "--loop", "uvloop")), _busiest,
              "of the burst", 0.6, 0.75),
    8: Remedy("--keep-alive 0", _HANGS, replace(_HANGS, serve=(*_KEPT, "0")), p99("/offer"), "s", 0.5),
    9: Remedy("def instead of async def, for what computes", *_of("q09", edits=_DEF), _over_60_ms, "over 60 ms", 0.4,
              0.7),
    10: Remedy("exports have a process of their own", *_of("q02", split=("/export",)), p99("/offer"), "s", 0.4),
    11: Remedy(_WORKER, *_of("q11-stalls", serve=_PERMITS), p99("/offer"), "s", 0.3),
    12: Remedy("await asyncio.to_thread(fetch_avatar)", *_of("q12", edits=_TO_THREAD), p99("/search"), "s", 0.2),
    13: Remedy(_WORKER + " --timeout 3", _TIMEOUT, replace(_TIMEOUT, serve=(*_PERMITS, "--timeout", "3")), _timeouts,
               "WORKER TIMEOUT", 0),
    14: Remedy(_WORKER, *_of("q14", serve=_PERMITS), _longer_than_the_timeout, "beyond their timeout", 2),
    15: Remedy("the release is taken back", replace(_OFFERS, edits=_HEAVIER), _OFFERS, p99("/offer"),
               "s", 0.9, 0.75),
    18: Remedy("timeout=1.0: the slowest mode takes 800 ms", *_of("q18", edits=_LONGER), _incomplete, "incomplete", 0),
    20: Remedy("-P threads -c 8", *_of("q20", serve=(*_CELERY, "-P", "threads", "-c", "8")), p99("send"), "s", 0.6),
    21: Remedy("await greenlane.run(totals, …)", *_of("q09", edits=_RUN), _over_60_ms, "over 60 ms", 0.3),
    22: Remedy("prepare() in a ProcessPoolExecutor", *_of("q22", edits=_IN_A_PROCESS), p99("/ping"), "s", 0.1),
    24: Remedy("json.dumps(items), one line logged", *_of("q24", edits=_CHEAP), _median("/feed"), "s", 0.3, 0.7),
    25: Remedy(_WORKER, *_of("q25", serve=_PERMITS), p99("/hit"), "s", 0.15),
    26: Remedy("-k gthread --threads 16", *_of("q26", serve=_THREADS), p99("/ping"), "s", 0.2),
    27: Remedy(_WORKER + " -w 4", _ONE_OF_FOUR, replace(_ONE_OF_FOUR, serve=(*_PERMITS, "-w", "4")), p99("/ping"),
               "s", 0.3),
    28: Remedy(_WORKER + " -w 2", _FULL, replace(_FULL, serve=(*_PERMITS, "-w", "2")), p99("/offer"), "s", 0.5),
}  # fmt: skip


def measured(remedy: Remedy) -> tuple[float, float]:
    """The figure before and after; workers that still begin are waited for."""
    before, now = (replace(one, load=_begun(one)) for one in (remedy.before, remedy.after))
    return remedy.figure(run(before, None)), remedy.figure(run(now, None))


def _begun(situation: Situation) -> Callable[[Clients, Scene], None]:
    def load(clients: Clients, scene: Scene) -> None:
        if situation.ready:
            situation.load(clients, scene)
            return
        first = Clients(clients.port)
        first.elsewhere = clients.elsewhere
        first.at_once(*["/favicon.ico", *clients.elsewhere] * 4)
        time.sleep(0.3)
        situation.load(clients, scene)

    return load


def main(argv: list[str]) -> int:
    """Measure some or all of them."""
    print("question  before     after")
    for question in map(int, argv or REMEDIES):
        remedy = REMEDIES[question]
        before, now = measured(remedy)
        print(f"{question:>8} {before:>7.3g}   {now:>7.3g} {remedy.unit:<21} {remedy.said}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
