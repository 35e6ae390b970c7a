"""The balance itself: each wrong that there can be is seen, on books written by hand."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from pos.conservation.books import Balance, Entry, Letter, Merchant, balanced, recovered_s, standstill_s

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
