"""The regions' shape, on paper: what a change to the table must not lose. mix.md has the figures of real servers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from offers import load, on_paper, table
from offers.mix import main

pytestmark = pytest.mark.slow

KNOWN = table.read(table.FOLDER)
THREADS = 64


def rows(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, dict[str, Any]]:
    assert main([*arguments, "--contenders", "paper-fifo,paper-permits", "--json"]) == 0
    return {row["contender"]: row for row in json.loads(capsys.readouterr().out)["rows"]}


def test_one_loop_loses_the_hills_offers_as_in_the_article_and_permits_keep_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    of = rows(capsys, "--region", "hills", "--seconds", "180")
    loop, permits = of["paper-fifo"], of["paper-permits"]
    assert loop["success_frac"] < 0.995
    assert loop["p95_ms"] < 450
    assert loop["p99_over_p95"] >= 2
    assert loop["p999_over_p95"] > 3
    assert permits["missed"] == 0
    assert permits["p999_over_p95"] <= 1.2
    # Threads to spare for what is slower than on paper.
    assert permits["most_at_once"] <= THREADS - 10


@pytest.mark.parametrize("region", ["north", "harbour"])
def test_the_other_regions_are_well_under_both(region: str, capsys: pytest.CaptureFixture[str]) -> None:
    for row in rows(capsys, "--region", region, "--seconds", "60").values():
        assert row["missed"] == 0
        assert row["p99_over_p95"] < 1.7


def test_both_rules_do_the_same_work_and_one_loop_lets_nobody_pass() -> None:
    asked = load.with_riders(KNOWN, KNOWN.regions["hills"], "paper:0", 20, "x")
    fifo, permits = (on_paper.serve(KNOWN, asked, rule) for rule in ("fifo", "permits"))
    assert fifo.utilisation_frac == pytest.approx(permits.utilisation_frac)
    cpu_ms = load.offered_cpu_ms(KNOWN, asked)
    assert fifo.utilisation_frac * 20e3 > cpu_ms
    calls = sum(len(KNOWN.endpoints[asked.plan.streams[stream].name].calls) for stream in asked.schedule.stream)
    around_ms = len(asked) * (on_paper.READ_MS + on_paper.ANSWER_MS) + calls * on_paper.CALL_MS
    assert fifo.utilisation_frac * 20e3 == pytest.approx(cpu_ms + around_ms)


def test_a_request_alone_takes_its_cpu_and_its_upstreams_time() -> None:
    north = KNOWN.regions["north"]
    asked = load.with_riders(KNOWN, north, "paper:0", 20, "x", scale=0.02)
    served = on_paper.serve(KNOWN, asked, "permits")
    waits_ms = sum(KNOWN.upstreams[name].median_ms for name in KNOWN.endpoints["bikes_price"].calls)
    offers_ms = served.latency_ms[load.offers_of(asked)]
    assert offers_ms.min() > waits_ms * 0.75
    assert offers_ms.max() < sum(KNOWN.upstreams[name].at_most_ms for name in KNOWN.upstreams) + 50
