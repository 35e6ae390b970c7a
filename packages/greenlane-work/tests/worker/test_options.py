"""Options of Celery's worker under `greenlane celery`: docs/tasks.md says what each does, and here it is seen."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.record.command import GREENLANE
from tests.worker.site import SHOP, Site, asked, eventually

from tests.fixtures import StartProcess
from tests.where import ROOT

pytestmark = [pytest.mark.system, pytest.mark.slow]


@pytest.fixture
def site(tmp_path: Path, redis_url: str, start_process: StartProcess) -> Site:
    return Site(tmp_path, redis_url, start_process)


def test_the_options_that_work_do(site: Site, redis_url: str) -> None:
    folder = site.folder
    options = {
        "--hostname": "one@%h", "--statedb": str(folder / "state"), "--optimization": "fair",
        "--prefetch-multiplier": "1", "--concurrency": "3", "--task-events": "", "--time-limit": "0.9",
        "--soft-time-limit": "0.3", "--pool-start-method": "fork", "--purge": "", "--exclude-queues": "nobody",
        "--include": "json", "--without-mingle": "", "--heartbeat-interval": "5", "--without-heartbeat": "",
        "--logfile": str(folder / "log"), "--pidfile": str(folder / "pid"),
    }  # fmt: skip
    site.publish("send", "purged")
    worker = site.worker("--", *[f"{name}={value}" if value else name for name, value in options.items()], ready=False)
    log = folder / "log"
    eventually(lambda: log.exists() and "one@" in log.read_text() and "ready." in log.read_text(), timeout_s=40)
    assert (folder / "pid").read_text().strip() == str(worker.pid)
    site.publish("send", "o")
    site.publish("stubborn", "s", merchant="s")
    eventually(lambda: "o" in site.ended() and site.written()["soft s"] >= 1)
    eventually(lambda: "hard time limit of 0.9 s" in log.read_text())
    with site.app() as shop:
        assert asked(shop, "stats")["prefetch_count"] == 3
        shop.app.control.revoke("somebody")
    worker.signal(signal.SIGTERM)
    worker.wait_exit(timeout_s=40)
    assert site.written()["begin purged"] == 0
    assert list(folder.glob("state*"))


def test_beat_runs_beside_threads(site: Site) -> None:
    worker = site.worker("--", "--beat", "--schedule", str(site.folder / "schedule"), BEAT="1")
    eventually(lambda: site.written()["begin beaten"] >= 2)
    worker.signal(signal.SIGTERM)
    assert worker.wait_exit(timeout_s=40) == 0


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("--autoscale=5,1", "autoscale='5,1', expected a fixed number of places"),
        ("--disable-prefetch", "worker_disable_prefetch=True, expected False"),
        ("--max-tasks-per-child=5", "worker_max_tasks_per_child=5, expected none"),
        ("--max-memory-per-child=5", "worker_max_memory_per_child=5, expected none"),
        ("--pool=prefork", "--pool='prefork', expected an option that goes with this pool"),
        ("-Psolo", "-P='solo', expected an option that goes with this pool"),
        ("--detach", "let a supervisor start it"),
        ("-bredis://:secret@127.0.0.1/1", "expected a URL without its password"),
    ],
)
def test_the_options_that_do_not_are_refused_by_name(site: Site, option: str, says: str) -> None:
    worker = site.worker("--", option, ready=False)
    assert worker.wait_exit(timeout_s=30) == 2
    assert says in worker.output
    assert "Traceback" not in worker.output
    assert "secret" not in worker.output


def test_a_password_in_a_flag_is_refused(site: Site) -> None:
    worker = site.worker("--task-store", "postgresql://me:secret@127.0.0.1/orders", ready=False)
    assert worker.wait_exit() == 2
    assert "--task-store='postgresql://me@127.0.0.1/orders', expected a URL without its password" in worker.output
    assert "GREENLANE_TASK_STORE" in worker.output
    assert "secret" not in worker.output


def test_greenlane_celery_is_greenlane_work(site: Site, start_process: StartProcess) -> None:
    worker = start_process(
        [*GREENLANE, "celery", "--green", SHOP, "--", "-Q", site.queue, "-l", "INFO"],
        env=site.environment,
        cwd=site.folder,
    )
    worker.wait_output(r"ready\.", timeout_s=40)
    site.publish("send", "o")
    eventually(lambda: "o" in site.ended())


def test_the_table_in_the_docs_names_each_option_of_celerys_worker() -> None:
    said = subprocess.run(
        [sys.executable, "-m", "celery", "worker", "--help"], capture_output=True, text=True, check=True
    )
    options = set(re.findall(r"^  (?:-\w, )?(--[a-z][a-z-]*)", said.stdout, re.MULTILINE)) - {"--help"}
    text = (ROOT / "docs" / "tasks.md").read_text()
    table = text[text.index("| option of `celery worker` |") :].partition("\n\n")[0]
    assert options == set(re.findall(r"`(--[a-z-]+)`", "".join(row.split("|")[1] for row in table.splitlines())))


@pytest.mark.skipif(len(os.sched_getaffinity(0)) == 1, reason="one core")
def test_threads_keep_to_one_core_if_it_is_set(site: Site) -> None:
    worker = site.worker(GREENLANE_CORES="one")
    site.publish("send", "o")
    eventually(lambda: "o" in site.ended())
    eventually(lambda: len(os.sched_getaffinity(worker.pid)) == 1)
    worker.signal(signal.SIGTERM)
    assert worker.wait_exit(timeout_s=40) == 0
