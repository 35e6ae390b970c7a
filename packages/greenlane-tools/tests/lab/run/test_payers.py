"""Who pays is said for every class, against plain threads and the best stock server."""

from __future__ import annotations

from tests.lab.made import PRICING, Sample, run, sample

from greenlane_tools.lab.run.judged import conclusion
from greenlane_tools.lab.run.payers import paid, payers_table
from greenlane_tools.lab.run.rows import pooled


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
        (one.endpoint, one.quantile): (one.to_threads, one.to_best) for one in paid(PRICING, pooled(PRICING, RUNS))
    }
    assert found["bikes", "p99"] == (0.8, 0.8)
    assert found["quote", "p50"] == (1.5, 1.875)


def test_the_last_line_names_who_pays_most() -> None:
    rows = pooled(PRICING, RUNS)
    said = conclusion(PRICING, rows)
    assert said.endswith("Who pays most: quote, p50 at 0.9: 1.50 of gthread-64's, 1.88 of the best stock server's.")
    assert "1.50 / 1.88" in payers_table(PRICING, rows)


def test_without_threads_there_is_nothing_to_compare() -> None:
    rows = pooled(PRICING, RUNS[2:])
    assert payers_table(PRICING, rows) == "" and "Who pays" not in conclusion(PRICING, rows)
