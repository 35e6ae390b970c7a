"""A limit over all workers, with real ones: at a merchant there are never more calls at once than it says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.worker.site import Site, eventually

from greenlane.control.client import ask, processes
from tests.fixtures import StartProcess

pytestmark = [pytest.mark.system, pytest.mark.slow]


@pytest.mark.parametrize("mode", ["--threads", pytest.param("--green", marks=pytest.mark.soak)])
def test_two_workers_together_keep_to_it_and_other_merchants_do_not(
    tmp_path: Path, rabbitmq_url: str, start_process: StartProcess, mode: str
) -> None:
    site = Site(tmp_path, rabbitmq_url, start_process)
    control = tmp_path / "control"
    options = (
        mode, "--task-slots", "20", "--task-most-frac", "1", "--control-dir", str(control),
        "--task-store", f"sqlite:///{tmp_path}/orders.db", "--", "--prefetch-multiplier", "1",
    )  # fmt: skip
    for number in range(2):
        site.worker(*options, "-n", f"w{number}@%h", GREENLANE_TASK_RULES="m=shared:3")
    ours, others = [f"o{number}" for number in range(60)], [f"free{number}" for number in range(20)]
    site.publish("send", *ours, merchant="m", seconds=0.1)
    site.publish("send", *others, merchant="free", seconds=0.5)
    eventually(lambda: {*ours, *others} <= site.ended(), timeout_s=60)
    most = {"o": 0, "free": 0}
    now = dict(most)
    for line in site.book.read_text().splitlines():
        what, order = line.split()[:2]
        key = order.rstrip("0123456789")
        now[key] += 1 if what == "begin" else -1
        most[key] = max(most[key], now[key])
    assert most["o"] == 3
    assert most["free"] > 3
    shown = [ask(process.socket, {"do": "show"})["tasks"] for process in processes(control)]
    assert len(shown) == 2 and all(tasks["totals"]["shares_asked"] for tasks in shown), json.dumps(shown)
