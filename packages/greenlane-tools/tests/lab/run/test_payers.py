"""Who pays is said for every class, against plain threads and the best stock server."""

from __future__ import annotations

from dataclasses import replace

from tests.lab.made import PRICING, Sample, run, sample

from greenlane_tools.lab.run.judged import conclusion
from greenlane_tools.lab.run.payers import laws, paid, payers_table
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


def test_what_any_order_would_take_is_said_beside_what_ours_takes() -> None:
    shares = {"bikes": 0.2, "quote": 0.8}
    classes = tuple(replace(one, cpu_share_frac=shares.get(one.name, 0.0)) for one in PRICING.classes)
    scenario = replace(PRICING, classes=tuple(one for one in classes if one.cpu_share_frac))
    assert laws(scenario, pooled(scenario, RUNS)) == [  # 0.2 x 80 ms of 0.8 x 100 ms
        "ideal order at 0.9: for what the light classes gain the others' mean is 1.20 of gthread-64's "
        "(conservation law); it is 1.50"
    ]
    assert laws(scenario, pooled(scenario, RUNS[2:])) == []
