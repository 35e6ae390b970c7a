"""Returned orders come back no faster than their upstream takes them."""

from __future__ import annotations

from greenlane_work.worker.return_pacing import ReturnPacing


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def test_orders_of_a_key_that_is_down_come_back_twenty_a_second_however_many_they_are() -> None:
    pacing = ReturnPacing(10, Clock())
    after_s = [pacing.after_s("down") for _ in range(72_000)]
    assert after_s[0] <= 0.05
    assert [round(after_s[number]) for number in (1_999, 19_999, 71_999)] == [100, 1000, 3600]
    assert pacing.after_s("another") <= 0.05


def test_those_of_a_key_that_works_come_back_twice_as_fast_as_it_works() -> None:
    clock = Clock()
    pacing = ReturnPacing(10, clock)
    pacing.after_s("busy")
    for _ in range(2_000):
        clock.now_s += 0.01
        pacing.succeeded("busy")
    first_s = pacing.after_s("busy")
    assert 180 <= 1000 / (max(pacing.after_s("busy") for _ in range(1000)) - first_s) <= 220


def test_keys_are_not_remembered_without_end() -> None:
    pacing = ReturnPacing(2, Clock())
    for key in "abc":
        for _ in range(100):
            pacing.after_s(key)
    assert pacing.after_s("c") > 1
    assert pacing.after_s("a") <= 0.05
