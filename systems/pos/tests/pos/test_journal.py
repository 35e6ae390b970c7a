"""The journal, and what the backend makes of it."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from greenlane.errors import PlatformError
from greenlane_tools.lab.processes import free_port
from pos.backend.orders import Orders
from pos.backend.publisher import NotTaken, Publisher
from pos.broker import RabbitMQ
from pos.journal import Entry, Event, Follower, Journal, ends
from pos.surroundings import Surroundings

S = 10**9


def entry(event: Event, order: str, at_s: float = 0.0, merchant: str = "taco", remark: str = "") -> Entry:
    return Entry(int(at_s * S), event, order, merchant, 1, remark)


def test_what_is_told_is_read_once_in_its_order(tmp_path: Path) -> None:
    journal, follower = Journal(tmp_path / "journal"), Follower(tmp_path / "journal")
    journal.tell(Event.BEGAN, "a", "taco")
    assert [(one.event, one.order) for one in follower.new()] == [("began", "a")]
    journal.tell(Event.DONE, "a", "taco", 'it said: "ok"\nand more', at_ns=7)
    (one,) = follower.new()
    assert (one.at_ns, one.event, one.remark) == (7, Event.DONE, 'it said: "ok"\nand more')
    assert follower.new() == []
    late = Follower(tmp_path / "journal", from_end=True)
    assert late.new() == []
    for opened in (journal, follower, late):
        opened.close()


def test_a_line_that_is_half_written_waits_for_its_other_half(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    follower = Follower(path)
    line = b'[1, "began", "a", "taco", 9, ""]\n'
    with path.open("ab", buffering=0) as file:
        file.write(line[:11])
        assert follower.new() == []
        file.write(line[11:])
        assert follower.new() == [Entry(1, "began", "a", "taco", 9, "")]
    follower.close()


def test_lines_of_many_writers_are_never_mixed(tmp_path: Path) -> None:
    def write(number: int) -> None:
        journal = Journal(tmp_path / "journal")
        for at in range(200):
            journal.tell(Event.DONE, f"{number}-{at}", "taco", "x" * 300)
        journal.close()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    follower = Follower(tmp_path / "journal")
    assert len({one.order for one in follower.new()}) == 800
    follower.close()


def test_each_end_of_an_order_is_found() -> None:
    entries = [entry(Event.BEGAN, "a"), entry(Event.DONE, "a"), entry(Event.DEAD, "b"), entry(Event.DONE, "a")]
    assert {order: len(found) for order, found in ends(entries).items()} == {"a": 2, "b": 1}


def test_an_order_goes_through_its_states_and_its_merchant_counts_them() -> None:
    orders = Orders()
    seen = []
    for at, event in enumerate((Event.PUBLISHED, Event.BEGAN, Event.FAILED, Event.BEGAN, Event.CALLED, Event.DONE), 1):
        orders.take([entry(event, "a", at, remark="why" if event is Event.FAILED else "")])
        found = orders.known("a")
        assert found is not None
        seen.append(found.state)
    assert seen == ["waiting", "running", "retrying", "running", "running", "done"]
    assert (found.attempts, found.ends, found.remark, found.ended_ns - found.published_ns) == (2, 1, "why", 5 * S)
    flow = orders.flow("taco", 7 * S)
    assert {state: flow[state] for state in ("waiting", "running", "retrying", "done")} == {
        "waiting": 0, "running": 0, "retrying": 0, "done": 1,
    }  # fmt: skip
    assert flow["p95_ms"] == 5_000 and flow["ended_per_s"] == 0.2


def test_a_worker_that_is_faster_than_its_publishers_line_confuses_nothing() -> None:
    orders = Orders()
    orders.take([entry(Event.BEGAN, "a", 1), entry(Event.DONE, "a", 2), entry(Event.PUBLISHED, "a", 0.5)])
    found = orders.known("a")
    assert found is not None and (found.state, found.published_ns) == ("done", S // 2)
    assert [event for _, event, *_ in orders.since(0)] == ["began", "done"]


def test_a_second_end_is_counted_and_changes_nothing_else() -> None:
    orders = Orders()
    orders.take([entry(Event.BEGAN, "a"), entry(Event.DONE, "a"), entry(Event.DONE, "a")])
    found = orders.known("a")
    assert found is not None and (found.ends, orders.flow("taco", 0)["done"]) == (2, 1)


def test_rates_and_percentiles_forget_what_is_long_ago() -> None:
    orders = Orders()
    orders.take([entry(Event.PUBLISHED, "a", 1), entry(Event.DONE, "a", 2)])
    assert orders.flow("taco", 3 * S)["p95_ms"] == 1_000
    later = orders.flow("taco", 60 * S)
    assert (later["p95_ms"], later["ended_per_s"], later["published_per_s"], later["done"]) == (None, 0, 0, 1)


def test_only_so_many_orders_are_kept_and_events_come_in_their_order() -> None:
    orders = Orders(most=3)
    orders.take(entry(Event.PUBLISHED, str(number)) for number in range(5))
    assert [orders.known(str(number)) is not None for number in range(5)] == [False, False, True, True, True]
    assert orders.flow("taco", 0)["waiting"] == 3
    assert [order for _, _, order, *_ in orders.since(3)] == ["3", "4"] and orders.since(5) == orders.since(9) == []


# --- What is said where no broker is, or where it does not answer.


def test_a_machine_without_rabbitmq_is_told_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pos.broker.DEBIAN", tmp_path)
    monkeypatch.setattr("shutil.which", lambda program, path: None)
    with pytest.raises(PlatformError, match="start RabbitMQ: rabbitmq-server=None") as refused:
        RabbitMQ(tmp_path).start()
    assert "hint: apt-get install rabbitmq-server" in str(refused.value) and refused.value.exit_code == 2


@pytest.mark.slow
def test_a_broker_that_is_not_there_has_not_taken_the_order(tmp_path: Path) -> None:
    url = f"amqp://guest:guest@127.0.0.1:{free_port()}//"
    publisher = Publisher(Surroundings(url, {"taco": "http://127.0.0.1:1"}, journal=str(tmp_path / "journal")))
    with pytest.raises(NotTaken, match="refused"):
        asyncio.run(publisher.publish("a", "taco"))
    publisher.close()
    assert (tmp_path / "journal").read_bytes() == b""
