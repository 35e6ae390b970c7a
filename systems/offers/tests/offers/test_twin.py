"""What is judged of the twin: figures made up here. test_twin_system.py asks the real ones."""

from __future__ import annotations

import pytest

from offers.twin import Compared, Row, verdicts_of


def row(kind: str, ratio: float) -> Row:
    return Row(kind, 30, 1_200.0, 1_200.0, 1_200.0 * ratio, ratio, 1.5, 0.2)


@pytest.mark.parametrize(("ratio", "holds"), [(1.04, True), (0.96, True), (1.06, False), (0.94, False)])
def test_it_is_a_twin_as_far_as_its_cpu_is_within_a_twentieth_in_every_kind(ratio: float, holds: bool) -> None:
    counts, cpu = verdicts_of(Compared([], [row("light", 1.0), row("mixed", ratio), row("heavy", 1.01)]))
    assert counts.holds and counts.measured == 0
    assert cpu.holds is holds and cpu.measured == pytest.approx(abs(ratio - 1))
    assert f"mixed {ratio:.3f}" in cpu.remark


def test_one_endpoint_that_does_something_else_is_no_twins() -> None:
    counts, cpu = verdicts_of(Compared(["currency: gevent answered 200, go 502", "zones: …"], [row("light", 1.0)]))
    assert not counts.holds and cpu.holds
    assert (counts.measured, counts.remark) == (2, "currency: gevent answered 200, go 502")
