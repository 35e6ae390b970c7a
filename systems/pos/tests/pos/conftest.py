"""One small site for all system tests: a real RabbitMQ, three real merchants, a stock worker and ours, the backend."""

from __future__ import annotations

import json
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from greenlane_tools.lab.rabbitmq import DEBIAN
from pos.queueing import DIVERTED
from pos.site import Plan, Site

MERCHANTS = ("bento", "sushi", "taco")


@dataclass(frozen=True)
class Backend:
    """The backend as its callers see it."""

    url: str

    def ask(self, path: str, body: Any = None) -> tuple[int, dict[str, Any]]:
        """Status and answer; POST when there is a body (bytes are sent as they are)."""
        sent = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(self.url + path, sent, timeout=20) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if not list(DEBIAN.glob("rabbitmq_server-*")) or shutil.which("epmd") is None:
        pytest.skip("no rabbitmq-server")
    plan = Plan(MERCHANTS, law={"median_ms": 20, "p99_ms": 20}, work_ms=0.1, call_s=2.0, cancels=True, diverts=True)
    with Site(plan, tmp_path_factory.mktemp("pos")) as running:
        running.start_worker("gevent-200")
        running.start_worker("greenlane", DIVERTED)
        yield running
        # Queues that nobody will read need not be written.
        running.broker.end(0.0)


@pytest.fixture(scope="session")
def backend(site: Site) -> Backend:
    return Backend(f"http://127.0.0.1:{site.start_backend()}")
