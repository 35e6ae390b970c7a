"""What is refused because it would come too late: the rule, on times that the test makes up."""

from __future__ import annotations

from greenlane.hosts.shedding import Shedding

MS = 1_000_000
DEADLINE = 300 * MS


def learned(p99_ms: int, *, samples: int = 64) -> Shedding:
    shedding = Shedding(["soon"])
    for _ in range(samples):
        shedding.served("soon", p99_ms * MS, DEADLINE)
    return shedding


def refused(shedding: Shedding, waits_ms: list[float], *, every_ms: int = 50, lane: str = "soon") -> list[bool]:
    """Requests picked up one after another, each having waited so long."""
    answers = []
    for number, waited_ms in enumerate(waits_ms):
        now_ns = 10_000 * MS + number * every_ms * MS
        arrival_ns = now_ns - int(waited_ms * MS)
        answers.append(shedding.refuses(lane, arrival_ns, arrival_ns + DEADLINE, now_ns))
    return answers


def test_a_standing_queue_is_refused_from_the_point_where_the_rest_is_too_little() -> None:
    shedding = learned(95)
    assert refused(shedding, [0, 50, 100, 150, 200, 204, 206, 250, 200]) == [False] * 6 + [True, True, False]


def test_a_queue_that_comes_and_goes_is_served() -> None:
    assert not any(refused(learned(95), [250, 250, 0] * 10))


def test_what_is_late_already_is_refused_whatever_is_known() -> None:
    assert refused(Shedding([]), [299, 301, 299]) == [False, True, False]


def test_who_has_no_deadline_waits() -> None:
    shedding = learned(95)
    assert refused(shedding, [0, 290, 290, 290, 290]) == [False, False, False, True, True]
    now_ns = 20_000 * MS
    assert not shedding.refuses("soon", now_ns - 5_000 * MS, 0, now_ns)


def test_a_quarter_of_the_deadline_may_always_be_waited() -> None:
    assert refused(learned(299), [0, 60, 60, 60, 74, 76, 80]) == [False] * 5 + [True, True]


def test_what_never_makes_its_deadline_says_nothing_of_the_others() -> None:
    shedding = learned(40)
    for _ in range(64):
        shedding.served("soon", 400 * MS, DEADLINE)
    assert shedding.p99_ms()["soon"] == 40


def test_lanes_are_told_apart_and_strangers_count_as_none() -> None:
    shedding = learned(95)
    shedding.served("nobody", MS, 0)
    assert not any(refused(shedding, [0, 250, 250, 250, 250], lane="nobody"))
    assert set(shedding.p99_ms()) == {"soon", ""}


def test_the_p99_follows_what_changes() -> None:
    shedding = learned(95)
    for _ in range(256):
        shedding.served("soon", 10 * MS, DEADLINE)
    assert shedding.p99_ms()["soon"] == 10
