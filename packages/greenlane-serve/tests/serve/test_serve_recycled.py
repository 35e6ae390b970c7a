"""Workers that have served enough, or hold too much, are replaced, and no request fails by it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.serve.served import Clients, Served, until

pytestmark = [pytest.mark.system, pytest.mark.slow]


@pytest.mark.parametrize(("setting", "said"), [("max_requests = 50", "served"), ("max_memory_mb = 1", "holds")])
def test_a_worn_worker_is_replaced_and_no_request_fails(tmp_path: Path, setting: str, said: str) -> None:
    with Served(tmp_path, "held:app", f"workers = 2\nat_once = 2\n{setting}\n", "--kind", "wsgi") as served:
        before = set(served.workers())
        with Clients(served, kept=2, new=2) as clients:
            until(lambda: not before & set(served.workers()) or clients.failures)
        assert clients.failures == []
        served.process.wait_output(rf"worker shared/w\d \(pid \d+\) (has )?{said} \d+ .*another one takes its place")


def test_without_a_limit_nobody_is_replaced(tmp_path: Path) -> None:
    """Some rounds of looks, and more requests than the limit of the other test."""
    with Served(tmp_path, "held:app", "workers = 2\nat_once = 2\nmax_requests = 100000\n", "--kind", "wsgi") as served:
        before = set(served.workers())
        with Clients(served, kept=2, new=2) as clients:
            clients.some_more(400)
        assert (set(served.workers()), clients.failures) == (before, [])
