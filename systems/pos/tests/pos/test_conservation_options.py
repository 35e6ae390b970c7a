"""The command line of the balance: what it refuses, and what its table says."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest

from pos.conservation.books import balanced
from pos.conservation.cell import Outcome
from pos.conservation.command import main, parse, rows, sentence, table
from pos.conservation.contenders import CONTENDERS
from pos.conservation.faults import FAULTS

WELL = Outcome(
    contender="greenlane", fault="broker-kill", balance=balanced(["a", "b"], [], ["a", "b"], []), recovered_s=1.0,
    standstill_s=2.0, rest_s=3.0, end_s=4.0, stuck=False, restarts=0, exit_codes=(0, 0), published_again=5,
    on_their_way=7, deaths=0, steps=3,
)  # fmt: skip


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--orders", "0"], "--orders='0', expected a whole number from 1"),
        (["--rate", "0"], "--rate='0', expected a number from 0.1"),
        (["--latency-ms", "2000"], "--latency-ms='2000', expected a number from 0 to 1999"),
        (["--faults", "none,storm"], "--faults='none,storm', expected some of none, worker-kill"),
        (["--contenders", "celery"], "--contenders='celery', expected some of prefork-4"),
    ],
)
def test_a_wrong_option_is_named_with_its_rule(argv: list[str], said: str) -> None:
    out, err = io.StringIO(), io.StringIO()
    assert main(argv, out, err) == 2
    assert said in err.getvalue() and not out.getvalue()


def test_all_are_all() -> None:
    met = parse(["--faults", "all", "--contenders", "all"]).cells
    assert {fault.name for fault, _ in met} == set(FAULTS)
    assert {contender.name for _, contender in met} == set(CONTENDERS)


def test_a_soak_is_over_20_000_orders_and_every_fault_that_is_to_be_withstood() -> None:
    options = parse(["--soak"])
    assert len(options.cells) * options.plan.orders > 20_000
    assert {fault.name for fault, _ in options.cells} == {name for name, fault in FAULTS.items() if not fault.beyond}
    assert all(fault.meets(contender) for fault, contender in options.cells)


def test_a_fault_of_a_store_meets_only_who_has_that_store() -> None:
    met = {name: [one.name for one in CONTENDERS.values() if fault.meets(one)] for name, fault in FAULTS.items()}
    on_sqlite = [name for name, one in CONTENDERS.items() if one.store == "sqlite"]
    on_servers = [name for name, one in CONTENDERS.items() if one.store in ("redis", "postgres")]
    assert met["store-locked"] == on_sqlite and "greenlane" in on_sqlite
    assert met["store-kill"] == met["store-freeze"] == on_servers and len(on_servers) == 4
    assert met["broker-kill"] == list(CONTENDERS)


def test_the_table_names_what_was_uneven_and_leaves_zeros_out() -> None:
    even = replace(WELL, balance=balanced([], [], [], []))
    lines = table([WELL, even, replace(even, stuck=True)]).splitlines()
    assert [line.split()[-1] for line in lines[1:]] == ["uneven", "even", "stuck"]
    assert lines[1].split()[:3] == ["broker-kill", "greenlane", "."]
    assert "waiting 2" in sentence(WELL) and "lost" not in sentence(WELL)


BOOKS = replace(WELL.balance, waiting=0, two_states=0, done=2)


@pytest.mark.parametrize(
    ("changed", "verdict"),
    [
        ({}, "even"),
        ({"stuck": True}, "stuck"),
        # A worker that is asked to end, ends.
        ({"exit_codes": (0, None)}, "hung"),
        # What a worker buries that was never to be given up is no good end.
        ({"balance": replace(BOOKS, done=1, dead=1)}, "uneven"),
        ({"fault": "dead-letters", "balance": replace(BOOKS, done=1, dead=1, reasons=(("attempts", 1),))}, "even"),
        ({"balance": replace(BOOKS, dead_but_done=1)}, "uneven"),
        # A fault that met nobody has shown nothing.
        ({"on_their_way": 0}, "not struck"),
        ({"on_their_way": 0, "fault": "worker-kill-idle"}, "even"),
        ({"fault": "worker-kill-ack", "deaths": 0}, "not struck"),
        ({"fault": "worker-kill-ack", "deaths": 2}, "even"),
        # Stock Celery loses what was on its way from Redis: one for each connection that broke, and no more.
        ({"balance": replace(BOOKS, done=1, lost=1)}, "uneven"),
        ({"contender": "greenlane-broker-redis", "balance": replace(BOOKS, done=1, lost=1)}, "uneven"),
        ({"contender": "gevent-200-broker-redis", "balance": replace(BOOKS, done=1, lost=1)}, "limit"),
        ({"contender": "gevent-200-broker-redis", "balance": replace(BOOKS, done=1, lost=7, published=8)}, "uneven"),
    ],
)
def test_only_what_was_struck_and_came_out_even_is_even(changed: dict[str, Any], verdict: str) -> None:
    assert replace(WELL, **{"balance": BOOKS, **changed}).verdict == verdict


def test_a_row_has_the_house_s_fields() -> None:
    [row] = rows([WELL])
    assert {"contender", "fault", "lost", "effects_doubled", "calls_repeated"} <= row.keys()
    assert row["verdict"] == "uneven" and row["waiting"] == 2


def test_a_fault_that_nobody_withstands_is_explained_below_the_table() -> None:
    assert (
        table([replace(WELL, fault="worker-freeze-long")])
        .splitlines()[-1]
        .startswith("worker-freeze-long: a worker stopped between")
    )
