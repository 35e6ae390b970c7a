"""Threads: N of them, each takes the next request when it has ended one; with CPU permits as `greenlane`.

A thread that is there already is not spawned again: spawn and handler are a few microseconds apart, unless the job has
to wait for a permit before its first instruction, as under the middleware.
"""

from __future__ import annotations

import platform
import sys
import threading
import time
from collections.abc import Callable

from greenlane_tools.lab.part3.programs.program import Job, Places, main

Serve = Callable[[Job, list[int]], None]


def _run(job: Job, places: Places, serve: Serve) -> None:
    mutex = threading.Lock()
    go = threading.Event()
    left = job.requests

    def work() -> None:
        nonlocal left
        go.wait()
        while True:
            with mutex:
                if not left:
                    return
                left -= 1
                record = places.spawn()
            serve(job, record)
            with mutex:
                places.ended(record)

    threads = [threading.Thread(target=work) for _ in range(min(job.green_threads, job.requests))]
    for thread in threads:
        thread.start()
    places.open()  # Only now: a pool's threads are there before its service gets requests.
    go.set()
    for thread in threads:
        thread.join()


def _serve(job: Job, record: list[int]) -> None:
    job.serve(record, _together(job.together) if job.together else time.sleep)


def _together(calls: int) -> Callable[[float], None]:
    def wait(seconds: float) -> None:
        threads = [threading.Thread(target=time.sleep, args=(seconds,)) for _ in range(calls)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return wait


def _yields(count: int) -> None:
    def half() -> None:
        for _ in range(count // 2):
            time.sleep(0)

    threads = [threading.Thread(target=half) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _permits() -> Serve:
    """Each request is a job of Greenlane, as the WSGI middleware opens it; the program itself stays as it is.

    Its lane is pinned heavy, so that bursts below `heavy_ms` (4 ms; half of the article's 5 ms is 2.5) take turns too.
    Settings are not read from files or the environment: a run elsewhere must be the same run.
    """
    from greenlane.settings import Lane, Settings
    from greenlane.wiring.process import start

    running = start(Settings(lanes=(Lane("requests", match=("*",), weight="heavy"),)), host="lab")
    request: dict[str, object] = {"REQUEST_METHOD": "GET", "PATH_INFO": "/request"}

    def serve(job: Job, record: list[int]) -> None:
        opened = running.open(request, record[0])
        try:
            _serve(job, record)
        finally:
            if opened:
                running.close()

    return serve


def _start(kind: str) -> None:
    name = f"threads of {platform.python_implementation()} {platform.python_version()}"
    serve: Serve = _serve
    if kind == "greenlane":
        serve = _permits()
        name = f"{name}, CPU permits"
    elif kind != "threads":
        sys.setswitchinterval(float(kind) / 1000)
        name = f"{name}, switch interval {kind} ms"
    main(name, lambda job, places: _run(job, places, serve), _yields)


if __name__ == "__main__":
    _start(sys.argv[2])
