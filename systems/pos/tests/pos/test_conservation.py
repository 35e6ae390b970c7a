"""The balance itself: each wrong that there can be is seen, on books written by hand."""

from __future__ import annotations

import io
import json
from dataclasses import asdict, replace
from typing import Any

import pytest

from pos.conservation.books import Balance, Entry, Letter, Merchant, balanced, recovered_s, standstill_s
from pos.conservation.cell import Outcome
from pos.conservation.command import main, page, parse, rows, sentence, table, told
from pos.conservation.contenders import CONTENDERS
from pos.conservation.faults import FAULTS

WELL = Entry(effects=1, calls=1, calls_repeated=0, told_ok=False, first_effect_s=10.0)
NOTHING = Entry(effects=0, calls=1, calls_repeated=0, told_ok=False, first_effect_s=0.0)
LIED = NOTHING._replace(told_ok=True)
TWICE = Entry(effects=2, calls=2, calls_repeated=1, told_ok=False, first_effect_s=10.0)
AGAIN = Entry(effects=1, calls=2, calls_repeated=1, told_ok=False, first_effect_s=10.0)


def balance(
    *, kind: str = "asked", waiting: tuple[str, ...] = (), dead: tuple[Letter, ...] = (), **orders: Entry | None
) -> Balance:
    """Of these orders, all published but strangers; None = its merchant never heard of it."""
    book = {name: entry for name, entry in orders.items() if entry is not None}
    published = [name for name in orders if not name.startswith("stranger")]
    return balanced(published, [Merchant(kind, book)], waiting, dead)


#: What is told of a balance and is nothing wrong.
TOLD = ("published", "done", "dead", "examples", "reasons")


def wrong(of: Balance) -> dict[str, Any]:
    """Its counts that are not zero, without those of orders that ended."""
    return {name: count for name, count in asdict(of).items() if count and name not in TOLD}


def test_orders_that_had_their_effect_once_are_even() -> None:
    got = balance(a=WELL, b=WELL)
    assert got.even and got.done == 2 and not wrong(got)


def test_an_order_that_is_nowhere_is_lost() -> None:
    got = balance(a=WELL, b=None, c=NOTHING)
    assert wrong(got) == {"lost": 2} and got.done == 1 and not got.even
    assert got.examples == ("b", "c")


def test_a_second_effect_is_a_double_and_its_call_repeated() -> None:
    got = balance(a=TWICE)
    assert wrong(got) == {"effects_doubled": 1, "calls_repeated": 1} and not got.even


def test_a_repeated_call_without_a_second_effect_is_counted_and_even() -> None:
    got = balance(kind="keyed", a=AGAIN)
    assert wrong(got) == {"calls_repeated": 1} and got.even


def test_a_double_where_nobody_can_ask_is_named_apart() -> None:
    got = balance(kind="plain", a=TWICE)
    assert wrong(got) == {"doubled_plain": 1, "calls_repeated": 1} and got.even


def test_an_order_in_a_queue_has_not_ended() -> None:
    got = balance(a=WELL, b=None, waiting=("b",))
    assert wrong(got) == {"waiting": 1} and not got.even


def test_an_order_that_was_done_and_waits_to_be_done_again_has_not_ended() -> None:
    got = balance(a=WELL, waiting=("a",))
    assert wrong(got) == {"waiting": 1} and got.done == 0 and not got.even


def test_a_dead_letter_is_an_end_when_it_tells_its_history() -> None:
    got = balance(a=NOTHING, dead=(Letter("a", history=True, reason="attempts"),))
    assert got.even and got.reasons == (("attempts", 1),)
    got = balance(a=NOTHING, dead=(Letter("a", history=False),))
    assert wrong(got) == {"dead_without_history": 1} and not got.even


def test_an_order_given_up_on_that_its_merchant_has_is_told() -> None:
    got = balance(a=WELL, dead=(Letter("a", history=True),))
    assert wrong(got) == {"dead_but_done": 1} and got.dead == 1 and got.done == 0


@pytest.mark.parametrize(("waiting", "dead"), [(("a",), (Letter("a", True),)), (("a", "a"), ())])
def test_an_order_with_two_messages_has_a_state_too_many(waiting: tuple[str, ...], dead: tuple[Letter, ...]) -> None:
    assert balance(a=None, waiting=waiting, dead=dead).two_states == 1


def test_a_second_letter_of_a_dead_order_is_told_and_no_second_state() -> None:
    got = balance(a=NOTHING, dead=(Letter("a", True),) * 2)
    assert wrong(got) == {"letters_twice": 1} and got.dead == 1 and got.even


def test_a_merchant_that_says_yes_and_does_nothing_deceives() -> None:
    got = balance(a=LIED)
    assert wrong(got) == {"deceived": 1} and got.done == 1 and got.even


def test_an_order_that_nobody_published_is_a_stranger() -> None:
    got = balance(a=WELL, stranger=WELL)
    assert wrong(got) == {"strangers": 1} and not got.even


def test_recovery_lasts_until_the_last_order_of_before_had_its_effect() -> None:
    book = [Merchant("asked", {"a": WELL._replace(first_effect_s=9.0), "b": WELL._replace(first_effect_s=15.5)})]
    assert recovered_s({"a": 8.0, "b": 9.0, "never": 9.0}, book, healed_s=12.0) == 3.5
    assert recovered_s({"a": 8.0, "b": 13.0}, book, healed_s=12.0) == 0.0


def test_a_standstill_is_between_two_effects_of_any_merchant() -> None:
    at = {name: WELL._replace(first_effect_s=second) for name, second in (("a", 1.0), ("b", 6.0), ("c", 4.0))}
    books = [Merchant("asked", {"a": at["a"], "b": at["b"]}), Merchant("keyed", {"c": at["c"], "never": NOTHING})]
    assert standstill_s(books) == 3.0
    assert standstill_s([]) == 0.0


# --- The command line of the balance: what it refuses, and what its table says.


WELL_RUN = Outcome(
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
    even = replace(WELL_RUN, balance=balanced([], [], [], []))
    lines = table([WELL_RUN, even, replace(even, stuck=True)]).splitlines()
    assert [line.split()[-1] for line in lines[1:]] == ["uneven", "even", "stuck"]
    assert lines[1].split()[:3] == ["broker-kill", "greenlane", "."]
    assert "waiting 2" in sentence(WELL_RUN) and "lost" not in sentence(WELL_RUN)


BOOKS = replace(WELL_RUN.balance, waiting=0, two_states=0, done=2)


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
    assert replace(WELL_RUN, **{"balance": BOOKS, **changed}).verdict == verdict


def test_a_row_has_the_house_s_fields() -> None:
    [row] = rows([WELL_RUN])
    assert {"contender", "fault", "lost", "effects_doubled", "calls_repeated"} <= row.keys()
    assert row["verdict"] == "uneven" and row["waiting"] == 2


def test_a_fault_that_nobody_withstands_is_explained_below_the_table() -> None:
    assert (
        table([replace(WELL_RUN, fault="worker-freeze-long")])
        .splitlines()[-1]
        .startswith("worker-freeze-long: a worker stopped between")
    )


# --- The page of conservation says what its rows say.


PAGE_BOOKS = replace(balanced(["a", "b"], [], [], []), lost=0, done=2)
OURS = Outcome(
    contender="greenlane", fault="broker-kill", balance=PAGE_BOOKS, recovered_s=1.0, standstill_s=2.0, rest_s=3.0,
    end_s=4.0, stuck=False, restarts=0, exit_codes=(0, 0), published_again=5, on_their_way=7, deaths=0, steps=3,
)  # fmt: skip


def recorded(*outcomes: Outcome) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(told(outcomes)))
    return found


def test_the_sum_is_of_ours_and_the_table_of_all() -> None:
    early = replace(OURS, contender="gevent-200-early", balance=replace(PAGE_BOOKS, done=1, lost=1))
    text = page(recorded(OURS, early))
    assert "Greenlane's worker, 1 runs, 2 orders: 2 done, 0 dead letters, 0 lost" in text
    assert "| **broker-kill**: SIGKILL of the broker" in text
    assert "`greenlane` | 7 | 2 | 2 | 0 | 0 | 0 | 0 | 2.0 | even |" in text
    assert "`gevent-200-early` | 7 | 2 | 1 | 0 | 1 | 0 | 0 | 2.0 | uneven |" in text


def test_what_redis_lost_is_told_in_the_sum() -> None:
    limited = replace(OURS, contender="gevent-200-broker-redis", balance=replace(PAGE_BOOKS, done=1, lost=1))
    assert "Stock Celery on Redis lost 1" in page(recorded(OURS, limited))
    assert "Redis" not in page(recorded(OURS)).partition("|")[0]
