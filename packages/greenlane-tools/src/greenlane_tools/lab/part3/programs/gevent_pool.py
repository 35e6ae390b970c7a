"""gevent as in the article: `Pool(N)`, one greenlet a request, spawned as soon as the pool has room."""

from __future__ import annotations

import gevent
import gevent.hub
import gevent.pool

from greenlane_tools.lab.part3.programs.program import Job, Places, main


def run(job: Job, places: Places) -> None:
    """Does the job: one greenlet a request, spawned as soon as the pool has room."""
    pool = gevent.pool.Pool(job.green_threads)

    def request(record: list[int]) -> None:
        job.serve(record, wait)
        places.ended(record)

    def wait(seconds: float) -> None:
        if job.together:
            gevent.joinall([gevent.spawn(gevent.sleep, seconds) for _ in range(job.together)])
        else:
            gevent.sleep(seconds)

    places.open()
    for _ in range(job.requests):
        pool.wait_available()
        pool.spawn(request, places.spawn())
    pool.join()


def _yields(count: int) -> None:
    def half() -> None:
        for _ in range(count // 2):
            gevent.sleep(0)

    gevent.joinall([gevent.spawn(half), gevent.spawn(half)])


if __name__ == "__main__":
    loop = gevent.hub.get_hub().loop
    main(f"gevent {gevent.__version__}, {type(loop).__module__}, {loop.backend}", run, _yields)
