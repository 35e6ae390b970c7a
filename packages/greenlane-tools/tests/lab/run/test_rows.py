"""Rows: pooled over repetitions, percentiles by nearest rank, shares with Wilson's interval."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import replace

import pytest
from tests.lab.made import PRICING, Sample, run, sample, scenario

from greenlane_tools.lab.run import contrast
from greenlane_tools.lab.run import rows as lab_rows
from greenlane_tools.lab.run.judged import conclusion
from greenlane_tools.lab.run.rows import Closed, Row, Run, find
from greenlane_tools.lab.run.tables import laws, paid, payers_table
from greenlane_tools.lab.samples import UNANSWERED
from greenlane_tools.lab.scenario.parts import Phase
from greenlane_tools.lab.scenario.scenario import Level
from greenlane_tools.lab.statistics import quantile, wilson

# DESIGN: one name for one thing, in every `--json`, table and plot.
FIELDS = {
    "contender", "endpoint", "stage", "lane", "phase", "utilisation_frac", "rate_factor", "offered_per_s", "done_per_s",
    "within_deadline_frac", "within_deadline_low_frac", "within_deadline_high_frac",
    "p50_ms", "p95_ms", "p99_ms", "p999_ms", "samples", "cpu_ms_per_job", "cpu_utilisation_frac", "pss_mb",
    "errors", "lost", "effects_doubled", "calls_repeated", "mean_ms",
}  # fmt: skip


def pooled(runs: Iterable[Run]) -> list[Row]:
    return lab_rows.pooled(PRICING, runs)


def bikes(rows: list[Row]) -> Row:
    row = find(rows, "greenlane", "bikes", Level(0.9))
    assert row is not None
    return row


def test_a_row_has_the_fields_that_all_results_share() -> None:
    assert {field.name for field in dataclasses.fields(Row)} == FIELDS


def test_repetitions_are_pooled_into_one_row() -> None:
    rows = pooled([run([sample(300.0)] * 3), run([sample(700.0)], repetition=1)])
    row = bikes(rows)
    assert (row.samples, row.p50_ms, row.p99_ms) == (4, 300.0, 700.0)
    assert row.within_deadline_frac == 0.75
    assert row.offered_per_s == pytest.approx(4 / 20)
    assert [one.endpoint for one in rows] == ["bikes", "all"]


def test_cells_of_other_contenders_and_utilisations_stay_apart() -> None:
    rows = pooled([run([sample(1.0)]), run([sample(2.0)], "gevent"), run([sample(3.0)], utilisation_frac=0.6)])
    assert [(row.utilisation_frac, row.contender) for row in rows if row.endpoint == "bikes"] == [
        (0.6, "greenlane"),
        (0.9, "greenlane"),
        (0.9, "gevent"),
    ]


def test_a_failed_request_is_an_error_is_not_in_time_and_is_no_latency() -> None:
    row = bikes(pooled([run([sample(300.0), sample(1.0, status=503), sample(2.0, status=0)])]))
    assert (row.errors, row.lost, row.samples, row.within_deadline_frac) == (2, 0, 1, 1 / 3)


def test_an_unanswered_request_counts_in_the_percentiles_with_the_time_it_was_waited_for() -> None:
    row = bikes(pooled([run([sample(300.0), sample(10_000.0, status=UNANSWERED)])]))
    assert (row.errors, row.lost, row.p99_ms) == (0, 1, 10_000.0)


def test_an_answer_long_after_the_load_is_not_done_at_its_rate() -> None:
    row = bikes(pooled([run([sample(300.0, at_s=9.9), sample(2_000.0, at_s=9.9)])]))
    assert row.done_per_s == pytest.approx(1 / 10)


def test_an_endpoint_without_a_deadline_has_no_share() -> None:
    row = find(pooled([run([sample(50.0, "quote")])]), "greenlane", "quote", Level(0.9))
    assert row is not None and row.within_deadline_frac is None and row.lane == "heavy"


def test_cpu_per_job_is_of_all_jobs_that_were_answered() -> None:
    row = bikes(pooled([run([sample(1.0)] * 4 + [sample(1.0, "quote")], cpu_ms=500.0)]))
    assert row.cpu_ms_per_job == pytest.approx(100.0)
    assert row.cpu_utilisation_frac == pytest.approx(0.05)


def test_p999_needs_ten_thousand_samples() -> None:
    assert bikes(pooled([run([sample(1.0)] * 9_999)])).p999_ms is None
    assert bikes(pooled([run([sample(1.0)] * 10_000)])).p999_ms == 1.0


def test_wilson_is_the_textbook_interval() -> None:
    assert wilson(8, 10) == pytest.approx((0.4902, 0.9433), abs=2e-4)
    assert wilson(0, 10) == pytest.approx((0.0, 0.2775), abs=2e-4)
    assert wilson(3_000, 3_000) == pytest.approx((0.99872, 1.0), abs=2e-5)
    assert wilson(0, 0) == (0.0, 1.0)


def test_quantile_is_the_nearest_rank() -> None:
    values = [float(n) for n in range(1, 101)]
    assert (quantile(values, 0.5), quantile(values, 0.99), quantile([7.0], 0.99)) == (50.0, 99.0, 7.0)


def test_a_request_belongs_to_the_phase_in_which_it_was_due_and_only_counted_ones_are_in_the_whole() -> None:
    phased = scenario(phases=(Phase("warm", 2.0, counted=False), Phase("load", 3.0)), seconds=5.0)
    found = run([sample(10.0, "probe", 1.9), sample(20.0, "probe", 2.0), sample(30.0, "probe", 4.9)], seconds=5.0)
    rows = lab_rows.pooled(phased, [found])
    level = Level(0.9)
    by_phase = {phase: find(rows, "greenlane", "probe", level, phase) for phase in ("all", "warm", "load")}
    assert {phase: row and row.samples for phase, row in by_phase.items()} == {"all": 2, "warm": 1, "load": 2}
    assert by_phase["warm"] is not None and by_phase["warm"].offered_per_s == pytest.approx(1 / 2)
    assert by_phase["all"] is not None and by_phase["all"].offered_per_s == pytest.approx(2 / 3)


def test_a_closed_loop_tool_is_a_row_of_its_own_stage_with_the_median_of_its_repetitions() -> None:
    tools = [Closed("ab", 8.0, 1_000, 0, 5.0, 6.0, p99) for p99 in (7.0, 9.0, 90.0)]
    runs = [dataclasses.replace(run([sample(5.0)], repetition=n), contrast=(one,)) for n, one in enumerate(tools)]
    row = find(pooled(runs), "greenlane", "bikes", Level(0.9), stage="ab")
    assert row is not None
    assert (row.p99_ms, row.samples, row.cpu_ms_per_job, row.done_per_s) == (9.0, 3_000, None, 125.0)


# --- Who pays is said for every class, against plain threads and the best stock server.


def answers(bikes_ms: float, quote_ms: float) -> list[Sample]:
    pair = [sample(bikes_ms), sample(quote_ms, "quote")]
    return pair * 600


RUNS = [
    run(answers(400.0, 100.0), "gthread-64"),
    run(answers(500.0, 80.0), "gevent"),
    run(answers(10.0, 10.0), "dedicated"),  # It has a process more, and is no measure.
    run(answers(320.0, 150.0), "greenlane"),
]


def test_every_class_has_a_ratio_to_threads_and_to_the_best_stock_server() -> None:
    found = {
        (one.endpoint, one.quantile): (one.to_threads, one.to_best)
        for one in paid(PRICING, lab_rows.pooled(PRICING, RUNS))
    }
    assert found["bikes", "p99"] == (0.8, 0.8)
    assert found["quote", "p50"] == (1.5, 1.875)


def test_the_last_line_names_who_pays_most() -> None:
    rows = lab_rows.pooled(PRICING, RUNS)
    said = conclusion(PRICING, rows)
    assert said.endswith("Who pays most: quote, p50 at 0.9: 1.50 of gthread-64's, 1.88 of the best stock server's.")
    assert "1.50 / 1.88" in payers_table(PRICING, rows)


def test_without_threads_there_is_nothing_to_compare() -> None:
    rows = lab_rows.pooled(PRICING, RUNS[2:])
    assert payers_table(PRICING, rows) == "" and "Who pays" not in conclusion(PRICING, rows)


def test_what_any_order_would_take_is_said_beside_what_ours_takes() -> None:
    shares = {"bikes": 0.2, "quote": 0.8}
    classes = tuple(replace(one, cpu_share_frac=shares.get(one.name, 0.0)) for one in PRICING.classes)
    scenario = replace(PRICING, classes=tuple(one for one in classes if one.cpu_share_frac))
    assert laws(scenario, lab_rows.pooled(scenario, RUNS)) == [  # 0.2 x 80 ms of 0.8 x 100 ms
        "ideal order at 0.9: for what the light classes gain the others' mean is 1.20 of gthread-64's "
        "(conservation law); it is 1.50"
    ]
    assert laws(scenario, lab_rows.pooled(scenario, RUNS[2:])) == []


# --- What closed-loop tools print is read; one that prints otherwise is left out rather than misread.


AB = """
Concurrency Level:      2
Complete requests:      1313
Failed requests:        3
   (Connect: 0, Receive: 0, Length: 3, Exceptions: 0)

Percentage of the requests served within a certain time (ms)
  50%      5
  66%      5
  95%     10
  98%     13
  99%     20
 100%   1008 (longest request)
"""
WRK = """
Running 8s test @ http://127.0.0.1:21987/
  Latency Distribution
     50%    5.17ms
     75%    5.23ms
     90%  108.03ms
     99%    1.02s
  2665 requests in 8.01s, 104.10KB read
  Socket errors: connect 1, read 2, write 0, timeout 4
Requests/sec:    332.76
"""


def test_ab_is_read() -> None:
    assert contrast._ab("ab", AB, 8.0) == Closed("ab", 8.0, 1313, 3, 5.0, 10.0, 20.0)


def test_wrk_is_read_with_its_units_and_has_no_p95() -> None:
    assert contrast._wrk("wrk", WRK, 8.0) == Closed("wrk", 8.0, 2665, 7, 5.17, None, pytest.approx(1020.0))


@pytest.mark.parametrize("read", [contrast._ab, contrast._wrk])
def test_something_else_is_an_error_that_the_caller_meets(read: object) -> None:
    assert callable(read)
    with pytest.raises((TypeError, KeyError)):
        read("tool", "something else", 8.0)
