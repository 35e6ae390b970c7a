"""Conservation for real: the balance sees what stock workers lose and double, and Greenlane's is even."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pos.conservation import command as options
from pos.conservation.brokers import SharedRabbitMQ
from pos.conservation.cell import Cell, Outcome, Plan
from pos.conservation.command import sentence, table, told
from pos.conservation.contenders import CONTENDERS
from pos.conservation.faults import FAULTS

pytestmark = pytest.mark.timeout(300)
#: A file that the rows of a soak are written to, as `--json` has them; no file when it is not set.
ROWS = "POS_CONSERVATION_ROWS"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedRabbitMQ]:
    if not list(Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*")) or shutil.which("epmd") is None:
        pytest.skip("no rabbitmq-server")
    with SharedRabbitMQ(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest) -> Iterator[list[Outcome]]:
    """What the cells of a soak came to; their table is printed at the end."""
    collected: list[Outcome] = []
    yield collected
    tell(request, f"{table(collected)}\n{sum(one.balance.published for one in collected)} orders")
    if path := os.environ.get(ROWS):
        Path(path).write_text(json.dumps(told(collected), indent=1) + "\n", encoding="utf-8")


def tell(request: pytest.FixtureRequest, text: str) -> None:
    """Past pytest's capture: a soak is long."""
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(f"\n{text}", file=sys.stderr, flush=True)


def all_of(outcomes: list[Outcome]) -> str:
    """In its first line, the only one that a summary of failures shows, what happened to each."""
    return " | ".join(f"{one.fault}: {sentence(one)}" for one in outcomes) + f"\n{table(outcomes)}"


def ran(node: SharedRabbitMQ, folder: Path, contender: str, fault: str, plan: Plan) -> Outcome:
    cell = Cell(folder / f"{contender}.{fault}", node, CONTENDERS[contender], FAULTS[fault], plan)
    return cell.run()


@pytest.mark.system
def test_stock_workers_are_seen_to_lose_orders_and_to_double_effects(node: SharedRabbitMQ, tmp_path: Path) -> None:
    # Killed when all are in flight and about half of them taken in; how they end does not matter, all is at rest.
    plan = Plan(orders=100, rate_per_s=500, workers=1, end_s=0.1)
    with ThreadPoolExecutor(2) as both:
        running = [
            both.submit(ran, node, tmp_path, name, "worker-kill-last", plan)
            for name in ("gevent-200-early", "gevent-200")
        ]
        early, late = (one.result() for one in running)
    assert early.balance.lost and early.verdict == "uneven", all_of([early])
    assert late.balance.effects_doubled and late.balance.calls_repeated, all_of([late])
    assert not late.balance.lost and late.balance.done == 100, all_of([late])


@pytest.mark.system
def test_every_order_ends_once_and_is_seen_once_while_workers_die_and_the_broker_too(
    node: SharedRabbitMQ, tmp_path: Path
) -> None:
    plan = Plan(orders=700, rate_per_s=200)
    beside = (("greenlane-quorum", "worker-kill-ack"), ("greenlane", "dead-letters"))
    with ThreadPoolExecutor(len(beside)) as others:
        running = [others.submit(ran, node, tmp_path, *cell, plan) for cell in beside]
        # This one kills the broker, of all three; a node that is started again lives as long as the thread that did it.
        outcomes = [ran(node, tmp_path, "greenlane-green", "mixed", plan), *(one.result() for one in running)]
    assert [one.verdict for one in outcomes] == ["even"] * 3, all_of(outcomes)
    assert sum(one.balance.done + one.balance.dead for one in outcomes) >= 2_000


@pytest.mark.soak
@pytest.mark.parametrize(("fault", "contender"), options.CELLS)
def test_every_order_ends_once_and_is_seen_once_under(
    fault: str,
    contender: str,
    node: SharedRabbitMQ,
    outcomes: list[Outcome],
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    plan = Plan(orders=options.ORDERS, rate_per_s=options.RATE_PER_S, latency_ms=options.LATENCY_MS)
    outcomes.append(ran(node, tmp_path, contender, fault, plan))
    tell(request, f"{len(outcomes)}/{len(options.CELLS)} {fault}, {contender}: {sentence(outcomes[-1])}")
    if CONTENDERS[contender].ours:
        assert outcomes[-1].verdict in ("even", "limit"), all_of(outcomes[-1:])
    else:
        assert outcomes[-1].balance.lost, all_of(outcomes[-1:])
