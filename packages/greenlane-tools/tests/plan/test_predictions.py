"""`bench.predictions`: rows, what is missed and why, options. What it measures is measured elsewhere."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from tests.plan.models import pricing as pricing_profile

from bench import predictions
from bench.predicted import part3, pricing
from bench.predicted.rows import Asked, Prediction, Row, judged, row_of
from greenlane.cli.output import Output
from greenlane_tools.lab.run.talk import LiveTalk
from greenlane_tools.plan.profile import HOSTS
from greenlane_tools.plan.simulation import Estimate
from greenlane_tools.plan.verify.reasons import UNEXPLAINED, Around

_QUIET = Around(cpu_ms_per_job=10.0, others_cores=0.0, late="", errors_frac=0.0)


def _row(times: float, samples: int = 4000, **key: object) -> Row:
    latencies_ms = np.linspace(100, 200, samples)

    def at(share: float) -> Estimate:
        ms = times * float(np.quantile(latencies_ms, share))
        return Estimate(ms, ms - 1, ms + 1)

    predicted = Prediction(at, lambda share, cpu: 0.0, 10.0)
    whole = {"system": "pricing", "contender": "gevent", "endpoint": "bikes", "utilisation_frac": 0.7, **key}
    half = samples // 2
    return row_of(whole, [latencies_ms[:half], latencies_ms[half:]], predicted, _QUIET)


def test_a_good_prediction_has_no_miss_and_its_measurement_a_range() -> None:
    row = _row(1.05)
    assert row["misses"] == []
    assert row["p50_error_frac"] == pytest.approx(0.05, abs=0.001)
    assert row["p50_low_ms"] < row["p50_ms"] < row["p50_high_ms"]
    assert row["p99_carried"]


def test_a_bad_one_is_listed_with_its_reason() -> None:
    row = _row(1.5)
    assert [(miss["figure"], miss["reasons"]) for miss in row["misses"]] == [
        ("p50", [UNEXPLAINED]),
        ("p99", [UNEXPLAINED]),
    ]
    assert judged([row, _row(1.0)], "p50") == (2, 1, 1)


def test_percentiles_that_few_requests_cannot_tell_are_not_shown() -> None:
    row = _row(1.0, samples=100)
    assert "p50_ms" in row
    assert "p99_ms" not in row
    assert not _row(1.0, samples=600)["p99_carried"]


def test_the_table_names_each_row_and_each_miss() -> None:
    out = io.StringIO()
    predictions.show([_row(1.0), _row(1.5, green_threads=50, system="part3")], Output(out, io.StringIO()))
    text = out.getvalue()
    assert "within" in text
    assert "part3, gevent at 50 places, bikes, p99: not explained" in text
    assert "p50 within 7%: 1 of 2; misses that nothing explains: 1" in text


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("--loads", "0.5,2"), "--loads='2', expected a number from 0.05 to 0.99"),
        (("--loads", "0.5,0.5"), "--loads='0.5,0.5', expected each once"),
        (("--system", "feed"), "--system='feed', expected some of pricing, part3, pos"),
        (("--contenders", "go"), "--contenders='go', expected some of gevent"),
        (("--nothing",), "options that exist"),
    ],
)
def test_wrong_options_are_named(
    argv: tuple[str, ...], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert predictions.main([*argv, "--out", str(tmp_path)]) == 2
    assert says in capsys.readouterr().err


def test_all_of_it_fits_into_25_minutes(tmp_path: Path) -> None:
    given = predictions._asked(predictions._arguments(["--out", str(tmp_path)]))
    assert sum(expected(given) for expected, _ in predictions.SYSTEMS.values()) < 25 * 60


def test_every_contender_of_pricing_is_a_set_up() -> None:
    for name in pricing.CONTENDERS:
        assert pricing.set_up_of(pricing_profile(), name).host in HOSTS


def test_part_3_is_as_long_as_asked_for(tmp_path: Path) -> None:
    quiet = LiveTalk(io.StringIO(), io.StringIO())
    asked = Asked((0.5,), ("gevent",), 40.0, 2, 0.85, tmp_path, quiet)
    seconds = [part3._requests(asked, places) / min(places / 0.06, 200) for places in part3.PLACES]
    assert sum(seconds) == pytest.approx(20, rel=0.1)
