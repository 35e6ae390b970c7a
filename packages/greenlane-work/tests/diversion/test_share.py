"""Which orders a share diverts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenlane.errors import DiversionError
from greenlane_work.diversion import Share, parsed_share
from greenlane_work.diversion.share import NotAShare, decoded, encoded, point

SHARES = st.floats(0, 1)


@given(st.text(), SHARES, SHARES)
def test_raising_the_share_only_adds_orders(key: str, one: float, other: float) -> None:
    less, more = sorted((one, other))
    if Share("orders", "new", less).queue(key) == "new":
        assert Share("orders", "new", more).queue(key) == "new"


@given(st.text())
def test_nothing_is_diverted_at_0_and_everything_at_100_percent(key: str) -> None:
    assert Share("orders", "new", 0.0).queue(key) == "orders"
    assert Share("orders", "new", 1.0).queue(key) == "new"
    assert Share("orders", "", 1.0).queue(key) == "orders"


@pytest.mark.parametrize("share", [0.01, 0.3, 0.5, 0.99])
def test_a_share_of_many_orders_is_that_share(share: float) -> None:
    orders = 20_000
    diverted = sum(Share("orders", "new", share).queue(f"order-{number}") == "new" for number in range(orders))
    assert abs(diverted / orders - share) < 5 * (share * (1 - share) / orders) ** 0.5


def test_an_order_s_point_is_what_it_was_in_the_first_release() -> None:
    assert [round(point("orders", key), 6) for key in ("", "1", "order-4711", "é")] == [
        0.959247,
        0.442911,
        0.99184,
        0.746346,
    ]


def test_flows_divert_independently() -> None:
    both = sum(point("a", str(number)) < 0.5 and point("b", str(number)) < 0.5 for number in range(10_000))
    assert abs(both / 10_000 - 0.25) < 0.03


@pytest.mark.parametrize(
    ("text", "share"),
    [("0", 0), ("0%", 0), ("30%", 0.3), (" 30 % ", 0.3), ("0.3", 0.3), ("100%", 1), ("1.0", 1), ("0.5%", 0.005)],
)
def test_a_share_is_a_percentage_or_a_fraction(text: str, share: float) -> None:
    assert parsed_share(text) == pytest.approx(share)


@pytest.mark.parametrize("text", ["30", "1", "", "%", "-1%", "101%", "1.01", "half", "0,3", "nan", "inf", "1e-1"])
def test_what_could_mean_anything_is_refused(text: str) -> None:
    with pytest.raises(DiversionError, match=r"share='.*', expected a share from 0% to 100%\nhint: write"):
        parsed_share(text)


@given(st.builds(Share, st.just("orders"), st.sampled_from(["", "new"]), SHARES, st.text(), st.floats(0, 1e10)))
def test_a_share_is_read_as_it_was_written(share: Share) -> None:
    assert decoded(encoded(share), "orders") == share


@pytest.mark.parametrize(
    "text",
    [
        "", "{}", "[]", "null", "30%", '{"flow": "orders", "share_frac": 2}', '{"flow": "other"}', "\udc80",
        '{"flow": "orders", "share_frac": true}', '{"flow": "orders", "to": "a b"}', '{"flow": "orders", "x": 1}',
        '{"flow": "orders", "revision": "1"}', '{"flow": "orders", "share_frac": NaN}',
    ],
)  # fmt: skip
def test_what_is_no_share_is_not_read(text: str) -> None:
    with pytest.raises(NotAShare):
        decoded(text, "orders")
