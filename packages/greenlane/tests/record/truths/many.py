"""100,000 real jobs on four threads: `python -m tests.record.truths.many THREADS EACH`, by GREENLANE_RECORD_FOLDER.

Each job computes a little, asks a partner thread over a pipe and waits for its answer; every eighth one takes a lock
that all share. Prints how many were run, and events lost.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time

from greenlane._native import Recorder
from greenlane.record.jobs import job
from greenlane.wiring.recording import start_recording, stop_recording


def _partner(asked: int, answers: int) -> None:
    while byte := os.read(asked, 1):
        os.write(answers, byte)
    os.close(answers)


def _works(each: int, lock: threading.Lock, ran: list[int]) -> None:
    asked, asks = os.pipe()
    answered, answers = os.pipe()
    partner = threading.Thread(target=_partner, args=(asked, answers))
    partner.start()
    done = 0
    for number in range(each):
        with job(f"route {number % 5}") as known:
            sum(range(4_000))
            os.write(asks, b"?")
            os.read(answered, 1)
            if number % 8 == 0:
                with lock:
                    sum(range(500))
        done += known != 0
    os.close(asks)
    partner.join()
    for end in (asked, answered):
        os.close(end)
    ran.append(done)


def main() -> None:
    """Run this many jobs on each of this many threads; prints what the recording has lost, and how fast it was."""
    threads, each = map(int, sys.argv[1:])
    start_recording()
    lock, ran = threading.Lock(), list[int]()
    begun_s = time.monotonic()
    workers = [threading.Thread(target=_works, args=(each, lock, ran)) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    took_s = time.monotonic() - begun_s
    recorder = Recorder()
    recorder.flush()
    stats = recorder.stats()
    stop_recording()
    print(json.dumps({"jobs": sum(ran), "lost": stats["lost"], "events": stats["events"], "took_s": took_s}))


if __name__ == "__main__":
    main()
