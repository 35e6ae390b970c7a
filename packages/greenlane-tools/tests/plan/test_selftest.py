"""The simulator's self-test: its laws, that every trial can be run, and that a wrong simulator would not pass."""

from __future__ import annotations

import json
import math

import pytest

from greenlane.cli.main import main
from greenlane_tools.plan import selftest
from greenlane_tools.plan import selftest_expected as laws

#: How far beyond the tolerance a tenth of the requests strays, at most: the same each time.
SLACK_FRAC = {"law": 0.06, "loop": 0.0, "order": 0.0, "mixed": 0.04, "many": 0.0, "dispatch": 0.02}


def test_the_laws_agree_where_they_meet():
    assert laws.mmk_mean(1, 0.8) == pytest.approx(laws.mm1_mean(0.8))
    assert laws.mmk_quantile(1, 0.8, 0.99) == pytest.approx(laws.mm1_quantile(0.8, 0.99))
    assert laws.md1_mean(0.9) == pytest.approx(5.5)
    assert laws.mmk_mean(4, 0.9) == pytest.approx(2.9694, abs=1e-3)
    # The wait's mean by its exponential tail alone is near the exact one.
    p90, p99 = laws.md1_quantile(0.9, 0.9), laws.md1_quantile(0.9, 0.99)
    assert (p99 - p90) / math.log(10) == pytest.approx(1 / 0.2071, rel=0.01)


def test_every_group_has_trials_and_every_case_its_own_name():
    trials = list(selftest.trials())
    assert {each.group for each in trials} == set(selftest.GROUPS) == {"closed", *SLACK_FRAC}
    names = [(each.group, f"{each.case} {figure.name}") for each in trials for figure in each.figures]
    assert len(names) == len(set(names))


def test_the_closed_loops_hold():
    rows = selftest.run(["closed"], part=0.2)
    assert rows
    assert [row.case for row in rows if not row.holds] == []


@pytest.mark.slow
@pytest.mark.parametrize("group", SLACK_FRAC)
def test_a_tenth_of_the_requests_is_near_theory_and_tables_already(group: str):
    rows = selftest.run([group], part=0.1)
    off = [row for row in rows if row.error_frac > row.tolerance_frac + SLACK_FRAC[group]]
    assert [(row.case, row.expected, row.simulated) for row in off] == []


def test_a_figure_that_is_off_does_not_hold():
    row = selftest.SelftestRow("law", "M/M/1", 100.0, 103.0, 0.02, "ms")
    assert row.error_frac == pytest.approx(0.03)
    assert not row.holds
    assert not selftest.SelftestRow("mixed", "late", 0.5, 0.54, 0.03, "frac").holds
    assert selftest.SelftestRow("mixed", "late", 0.0, 0.02, 0.03, "frac").holds


def test_the_command_prints_rows_for_programs(capsys):
    assert main(["plan", "selftest", "--groups", "closed", "--part", "0.2", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "greenlane.plan-selftest/1"
    row = document["rows"][0]
    assert {"case", "expected_ms", "simulated_ms", "error_frac", "tolerance_frac"} <= row.keys()


def test_each_row_has_ms_whatever_its_unit_is():
    rate = selftest.SelftestRow("loop", "throughput", 20.0, 25.0, 0.03, "per_s").to_json()
    assert (rate["expected_ms"], rate["simulated_ms"], rate["expected_per_s"]) == (50, 40, 20)
    share = selftest.SelftestRow("mixed", "late", 0.5, 0.54, 0.03, "frac").to_json()
    assert (share["expected_ms"], share["simulated_ms"], share["expected_frac"]) == (None, None, 0.5)


def test_a_strange_group_is_a_usage_error(capsys):
    assert main(["plan", "selftest", "--groups", "laws"]) == 2
    assert "expected some of closed, law" in capsys.readouterr().err
