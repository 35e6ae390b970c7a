"""`greenlane record --pid` on a Celery worker under load: no task is lost, and nothing stays behind."""

from __future__ import annotations

import importlib
import json
import signal
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.record.command import GREENLANE, environment, recorded
from tests.record.test_attach import PATHS
from tests.record.test_command_live import until
from tests.trace.table import left

from tests.fixtures import StartProcess

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(120)]

APPLICATION = "tests.record.attached_celery"


@pytest.mark.parametrize("pool", [("prefork", "-c", "1"), ("threads", "-c", "4")], ids=lambda pool: pool[0])
@pytest.mark.gate
def test_a_worker_under_load_is_recorded_and_left_as_it_was(
    pool: tuple[str, ...], tmp_path: Path, control_dir: Path, start_process: StartProcess, redis_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    queue = uuid4().hex
    argv = [sys.executable, "-m", "celery", "-A", f"{APPLICATION}:celery", "worker", "-l", "INFO", "-P", *pool]
    env = environment(GREENLANE_CONTROL_DIR=str(control_dir), PYTHONPATH=PATHS, BROKER=redis_url, QUEUE=queue)
    running = start_process(argv, cwd=tmp_path, env=env)
    running.wait_output("ready\\.")
    application = _client(monkeypatch, redis_url, queue)
    # The pool has all of its threads then.
    for sent in [application.work.delay(number) for number in range(200)]:
        sent.get(timeout=20)
    application.first.delay().get(timeout=20)
    for number in (1, 2):  # and once more, later
        over, results = threading.Event(), list[tuple[int, int]]()
        load = threading.Thread(target=_load, args=(application, over, results))
        load.start()
        argv = [*GREENLANE, "record", "--pid", str(running.pid), "-o", f"{number}.glr"]
        recorder = start_process(argv, cwd=tmp_path, env=environment())
        recorder.wait_output("Ctrl-C ends it", timeout_s=40)
        # A number of tasks, not of seconds: a busy machine runs few in any time.
        until(partial(_have_come, results, len(results) + 40, load), timeout_s=40)
        recorder.signal(signal.SIGINT)
        assert recorder.wait_exit(timeout_s=40) == 0, recorder.output
        over.set()
        load.join()
        assert len(results) > 40 and all(sent == came for sent, came in results)
        jobs = [job for job in recorded(tmp_path, f"{number}.glr").jobs if job.route.endswith("work")]
        assert len(jobs) >= 30, (number, recorder.output, recorded(tmp_path, f"{number}.glr").processes)
        # What a busy machine takes before the call is short of 20 ms.
        assert sum(job.io_ns.get("sleep", 0) for job in jobs) >= 0.9 * 0.02e9 * len(jobs)
    found = json.loads(application.left.delay().get(timeout=20))
    assert left("record threads", [*found["changed"], *found["ours"]], "out") == []


def _client(monkeypatch: pytest.MonkeyPatch, url: str, queue: str) -> Any:
    monkeypatch.setenv("BROKER", url)
    monkeypatch.setenv("QUEUE", queue)
    monkeypatch.delitem(sys.modules, APPLICATION, raising=False)
    return importlib.import_module(APPLICATION)


def _have_come(results: list[tuple[int, int]], number: int, load: threading.Thread) -> bool:
    return len(results) >= number or not load.is_alive()


def _load(application: Any, over: threading.Event, results: list[tuple[int, int]]) -> None:
    number = 0
    while not over.is_set():
        sent = [application.work.delay(number + each) for each in range(5)]
        results += [(number + each, one.get(timeout=20)) for each, one in enumerate(sent)]
        number += 5
