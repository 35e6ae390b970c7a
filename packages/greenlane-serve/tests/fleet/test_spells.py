"""When workers measure: what it may cost, what begins a spell, and how long one lasts."""

from __future__ import annotations

from collections.abc import Iterable

from greenlane_serve.spells import BUDGET_FRAC, MOST_SPELL_S, REQUEST_S, Seen, Spells


def seen(
    per_s: int, *, cpu_us: float = 150.0, in_progress: int = 8, oldest_s: float = 0.0, renewed: bool = False
) -> Seen:
    """A second of one worker."""
    return Seen(
        span_s=1.0, workers=1, cpu_s=per_s * cpu_us / 1e6, requests=per_s, in_progress=in_progress,
        oldest_s=oldest_s, renewed=renewed,
    )  # fmt: skip


def run(spells: Spells, looks: Iterable[Seen], number: int = 3) -> list[bool]:
    return [spells.look(one, number) for one in looks]


def resting(spells: Spells, per_s: int = 5_000) -> Spells:
    """After its first spell."""
    for _ in range(60):
        if not spells.look(seen(per_s), 3):
            return spells
    raise AssertionError("it never rests")


def test_few_requests_are_measured_all_the_time() -> None:
    assert all(run(Spells(), [seen(150, cpu_us=100)] * 600))


def test_requests_that_compute_are_measured_all_the_time() -> None:
    assert all(run(Spells(), [seen(850, cpu_us=1_100)] * 600))


def test_many_short_ones_are_measured_within_the_budget() -> None:
    spells = resting(Spells())
    on = run(spells, [seen(5_000)] * 600)
    spent_frac = sum(on) * 5_000 * REQUEST_S / len(on)
    used_frac = 5_000 * 150 / 1e6
    assert 0.7 * BUDGET_FRAC < spent_frac / used_frac <= BUDGET_FRAC * 1.1
    spells_of = "".join("x" if one else "." for one in on).split(".")
    assert {len(one) for one in spells_of if one} == {3}, "whole spells, of two seconds and more"


def test_it_goes_on_until_the_number_is_settled() -> None:
    spells = Spells()
    assert all(spells.look(seen(1_000), number) for number in range(1, 11))


def test_pauses_pay_for_no_more() -> None:
    """A second of load in five, as far from full as it may be, costs its requests no more than steady load."""
    spells = resting(Spells())
    on = [spells.look(seen(5_000) if number % 5 == 0 else seen(0), 3) for number in range(1_500)]
    measured = sum(on[number - 1] for number in range(5, 1_500, 5)) * 5_000 * REQUEST_S
    assert measured / (299 * 0.75) <= BUDGET_FRAC * 1.5


def test_another_cpu_or_stay_begins_a_spell_at_once_and_noise_does_not() -> None:
    for other in (seen(5_000, cpu_us=300.0), seen(5_000, in_progress=24), seen(1_000, in_progress=8)):
        spells = resting(Spells())
        run(spells, [seen(5_000)] * 3)
        assert True in run(spells, [other] * 3)
    calm = resting(Spells())
    assert not any(run(calm, [seen(5_000, cpu_us=170.0, in_progress=number) for number in (7, 9, 8)]))
    few = Spells()
    run(few, [seen(5_000, in_progress=1)] * 20)
    while few.look(seen(5_000, in_progress=1), 3):
        pass
    assert not any(run(few, [seen(5_000, in_progress=number) for number in (0, 3, 0, 2)]))


def test_new_code_begins_a_spell() -> None:
    spells = resting(Spells())
    assert run(spells, [seen(5_000, renewed=True)]) == [True]


def test_a_spell_outlasts_the_long_requests_among_short_ones() -> None:
    spells = resting(Spells())
    run(spells, [seen(5_000, renewed=True)])
    on = run(spells, [seen(5_000, in_progress=30, oldest_s=min(age_s, 6.0)) for age_s in range(1, 30)])
    assert on.index(False) + 1 == 12, "requests of six seconds: those of the first half are counted"


def test_requests_that_never_end_do_not_keep_it_measuring() -> None:
    spells = resting(Spells())
    run(spells, [seen(5_000, renewed=True)])
    on = run(spells, [seen(5_000, in_progress=30, oldest_s=float(age_s)) for age_s in range(1, 300)])
    assert on.index(False) + 1 == MOST_SPELL_S
    assert sum(on) / len(on) < 0.7


def test_changes_one_after_the_other_cost_no_more_than_the_budget() -> None:
    spells = resting(Spells())
    looks = [seen(5_000, cpu_us=100.0 if number // 4 % 2 else 300.0) for number in range(900)]
    on = run(spells, looks)
    assert sum(on) * 5_000 * REQUEST_S / len(on) < BUDGET_FRAC * 1.3, "of 1 s a second, as it is used on average"
