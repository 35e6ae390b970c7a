"""A worker's passwords are in no command line that others see, and in nothing that it writes."""

from __future__ import annotations

import signal
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis
from tests.worker.site import Site, eventually

from tests import servers
from tests.fixtures import StartProcess

pytestmark = [pytest.mark.system, pytest.mark.slow]

_PASSWORD = "geheim7"


@pytest.fixture
def redis_url() -> Iterator[str]:
    """Of a Redis of its own: the test ends all connections, also those that other tests have pooled in this process."""
    with servers.Redis() as server:
        yield server.url


@pytest.fixture
def locked_url(redis_url: str) -> Iterator[str]:
    """URL of a user with a password."""
    parts = urllib.parse.urlsplit(redis_url)
    with Redis.from_url(redis_url) as client:
        rights = {"keys": "*", "channels": "*", "commands": ["+@all"]}
        client.acl_setuser("shop", enabled=True, passwords=[f"+{_PASSWORD}"], **rights)
        yield parts._replace(netloc=f"shop:{_PASSWORD}@{parts.netloc}").geturl()


def processes(pid: int) -> list[int]:
    """A process and all below it."""
    children = [
        int(word) for task in Path(f"/proc/{pid}/task").iterdir() for word in (task / "children").read_text().split()
    ]
    return [pid, *(each for child in children for each in processes(child))]


@pytest.mark.parametrize("mode", ["--threads", "--green"])
def test_no_command_line_and_no_line_of_a_log_has_a_password(
    tmp_path: Path, redis_url: str, locked_url: str, start_process: StartProcess, mode: str
) -> None:
    site = Site(tmp_path, locked_url, start_process, RESULTS=locked_url)
    worker = site.worker(mode, "--", "-l", "DEBUG", GREENLANE_TASK_STORE=f"{locked_url}?may_forget=1")
    site.publish("send", "before")
    site.publish("buggy", "failed")
    eventually(lambda: "before" in site.ended() and "goes to the dead letters" in worker.output)
    for pid in processes(worker.pid):
        assert _PASSWORD.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
    # What it says of connections that are lost, and of a server that refuses it for a while.
    with Redis.from_url(redis_url) as client:
        client.acl_setuser("shop", enabled=False)
        client.client_kill_filter(_type="normal", skipme=True)
        client.client_kill_filter(_type="pubsub")
        worker.wait_output("Cannot connect to redis://shop:", timeout_s=30)
        client.acl_setuser("shop", enabled=True)
    site.publish("send", "after")
    eventually(lambda: "after" in site.ended(), timeout_s=60)
    worker.signal(signal.SIGTERM)
    assert worker.wait_exit(timeout_s=60) == 0
    assert _PASSWORD not in worker.output
