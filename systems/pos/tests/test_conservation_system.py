"""Conservation for real: the balance sees what stock workers lose and double, and Greenlane's is even.

A wrong balance is not made anew as other disturbed tests are: an order that is lost now and then is lost.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pos.conservation.cell import Cell, Outcome, Plan
from pos.conservation.contenders import CONTENDERS
from pos.conservation.faults import FAULTS
from pos.conservation.node import Node
from pos.conservation.table import table

pytestmark = pytest.mark.timeout(300)
#: Made anew when a process did not start, and only then. On each test: a module's mark comes after tests.disturbed's.
ONLY_WHEN_NOT_STARTED = pytest.mark.flaky(reruns=2, only_rerun=["StartFailed"])
#: What a soak runs: all that may strike these, but what nobody withstands; and a store that is a server.
CELLS = [
    (name, fault.name)
    for fault in FAULTS.values()
    for name in ("greenlane", "greenlane-green")
    if fault.meets(CONTENDERS[name]) and not fault.beyond
]
CELLS.append(("greenlane-redis", "store-kill"))
#: Orders of each.
SOAKED = 330


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    if not list(Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*")) or shutil.which("epmd") is None:
        pytest.skip("no rabbitmq-server")
    with Node(tmp_path_factory.mktemp("broker")) as running:
        yield running


def ran(node: Node, folder: Path, contender: str, fault: str, plan: Plan) -> Outcome:
    cell = Cell(folder / f"{contender}.{fault}", node, CONTENDERS[contender], FAULTS[fault], plan)
    return cell.run()


def even(outcome: Outcome) -> bool:
    return outcome.balance.even and not outcome.stuck


@pytest.mark.system
@ONLY_WHEN_NOT_STARTED
def test_stock_workers_are_seen_to_lose_orders_and_to_double_effects(node: Node, tmp_path: Path) -> None:
    # Killed when all are in flight and about half of them taken in; how they end does not matter, all is at rest.
    plan = Plan(orders=100, rate_per_s=500, latency_ms=1_000, workers=1, end_s=0.1)
    with ThreadPoolExecutor(2) as both:
        running = [
            both.submit(ran, node, tmp_path, name, "worker-kill-last", plan)
            for name in ("gevent-200-early", "gevent-200")
        ]
        early, late = (one.result() for one in running)
    assert early.balance.lost and not early.balance.even, table([early])
    assert late.balance.effects_doubled and late.balance.calls_repeated, table([late])
    assert not late.balance.lost and late.balance.done == 100, table([late])


@pytest.mark.system
@ONLY_WHEN_NOT_STARTED
def test_every_order_ends_once_and_is_seen_once_under_mixed_faults(node: Node, tmp_path: Path) -> None:
    outcome = ran(node, tmp_path, "greenlane-green", "mixed", Plan(orders=2_000, rate_per_s=250))
    assert even(outcome), table([outcome])


@pytest.mark.soak
@pytest.mark.parametrize(("contender", "fault"), CELLS)
def test_every_order_ends_once_and_is_seen_once_under(contender: str, fault: str, node: Node, tmp_path: Path) -> None:
    outcome = ran(node, tmp_path, contender, fault, Plan(orders=SOAKED, rate_per_s=100))
    assert even(outcome), table([outcome])


def test_a_soak_is_over_20_000_orders() -> None:
    assert SOAKED * len(CELLS) > 20_000
