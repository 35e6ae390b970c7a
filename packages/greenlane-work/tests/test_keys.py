"""Where an order's key is read."""

from __future__ import annotations

import pytest

from greenlane.errors import SettingsError
from greenlane_work.keys import key_function, order_function, provider_of, store_key
from greenlane_work.settings import WorkSettings

ARGS = ("first", {"merchant": "taco"})
KWARGS = {"merchant": "burger", "order": {"shop": {"id": 7}}}
HEADERS = {"x-merchant": "sushi"}


@pytest.mark.parametrize(
    ("spec", "key"),
    [
        ("kwargs.merchant", "burger"),
        ("kwargs.order.shop.id", "7"),
        ("kwargs.absent", ""),
        ("kwargs.merchant.id", ""),
        ("args.0", "first"),
        ("args.1.merchant", "taco"),
        ("args.9", ""),
        ("header.x-merchant", "sushi"),
        ("header.absent", ""),
        ("tests.test_keys:named", "send of 2"),
        ("kwargs.merchant args.0", "burger/first"),
        ("header.absent args.0", "/first"),
    ],
)
def test_a_key_is_read_where_the_setting_says(spec: str, key: str) -> None:
    function = key_function("task_key", spec)
    assert function is not None
    assert function("send", ARGS, KWARGS, HEADERS) == key
    assert WorkSettings(task_key=spec).task_key == spec


def named(name: str, args: tuple[object, ...], _kwargs: object, _headers: object) -> str:
    return f"{name} of {len(args)}"


def test_without_one_there_is_no_key() -> None:
    assert key_function("task_key", "") is None


@pytest.mark.parametrize(
    "spec",
    [
        "merchant",
        "kwargs",
        "args.first",
        "args.0  args.1",
        "args.0 args.1 args.2",
        "args.0 ",
        "no.such.module:key",
        "json:nothing",
        "math:pi",
    ],
)
def test_what_is_no_key_is_refused_by_name(spec: str) -> None:
    with pytest.raises(SettingsError, match="task_key="):
        key_function("task_key", spec)


@pytest.mark.parametrize(("one", "other"), [("x" * 200 + "1", "x" * 200 + "2"), ("\ud800", "\ud801"), ("a\0", "a")])
def test_orders_whose_names_are_long_or_odd_are_not_taken_for_one_another(one: str, other: str) -> None:
    function = key_function("task_order", "kwargs.order")
    assert function is not None
    names = [function("send", (), {"order": order}, {}) for order in (one, other)]
    assert names[0] != names[1]
    assert all(len(name.encode()) <= 200 and "\0" not in name for name in names)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("send", "4711", 1), ("send", "4711/1", 0)),
        (("send", "4711", 1), ("send", "1/4711", 0)),
        (("send/x", "4711", 0), ("send", "x/4711", 0)),
        (("send", "x" * 600, 0), ("send", store_key("send", "x" * 600).removeprefix("send/"), 0)),
    ],
)
def test_no_name_that_somebody_gives_an_order_is_another_s(
    one: tuple[str, str, int], other: tuple[str, str, int]
) -> None:
    assert store_key(*one) != store_key(*other)


def test_an_order_is_named_by_its_task_and_itself() -> None:
    assert store_key("shop.send", "4711") == "shop.send/4711"


def test_no_name_of_a_provider_looks_like_another_s_with_a_merchant() -> None:
    function = key_function("task_key", "args.0 args.1")
    assert function is not None
    keys = [function("send", pair, {}, {}) for pair in (("a/b", "c"), ("a", "b/c"), ("a", "b%2Fc"), ("a%2Fb", "c"))]
    assert len(set(keys)) == 4
    assert [provider_of(key) for key in keys] == ["a%2Fb", "a", "a", "a%252Fb"]


def test_an_order_named_by_two_places_is_nobody_else_s_and_has_no_name_without_its_own() -> None:
    function = order_function("kwargs.merchant kwargs.order")
    assert function is not None
    orders = [{"merchant": "taco", "order": 1}, {"merchant": "pizza", "order": 1}, {"merchant": "taco"}, {"order": 1}]
    assert [function("send", (), order, {}) for order in orders] == ["taco/1", "pizza/1", "", "/1"]
