"""The proof's arithmetic: intervals, verdicts, and the ideal bound."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from tests.lab.made import PRICING, Sample, run, sample

from bench import claims, offers, payers, plan, pos
from bench.claims import BLOCKS, Block
from bench.prove import ideal_ratio, main
from greenlane.errors import FrontError, PlatformError, SettingsError
from greenlane_tools.lab.load.plan import Plan, Poisson, Stream, Work
from greenlane_tools.lab.run.pacing import rates_per_s
from greenlane_tools.lab.run.rows import pooled
from greenlane_tools.lab.verdict import Verdict
from offers.demo.options import bad
from offers.demo.results import FEWEST_OFFERS
from offers.table import read


def test_a_ratio_is_paired_by_repetition_and_its_interval_comes_from_them() -> None:
    ours = [run([sample(100.0 * (n + 1))], repetition=n) for n in range(5)]
    theirs = [run([sample(200.0 * (n + 1))], "gevent", repetition=n) for n in range(5)]
    # Every repetition says one half: however they are drawn, the ratio is one half.
    assert claims.ratio(ours, theirs, claims.of_p(0.99, "bikes")) == pytest.approx((0.5, 0.5, 0.5))
    theirs[0] = run([sample(4_000.0)], "gevent", repetition=0)
    point, low, high = claims.ratio(ours, theirs, claims.of_p(0.99, "bikes"))
    assert point == 0.125 and low < point < high


def test_priority_for_the_light_class_costs_the_heavy_class_something() -> None:
    streams = (
        Stream("bikes", "", Poisson(40.0), cost_ms=4.0),
        Stream("quote", "", Poisson(16.0), cost_ms=44.0, work=Work(40.0, 1.0)),
    )
    assert 1.2 <= ideal_ratio(Plan("1", 600.0, streams), "quote") < 1.6


def test_the_class_that_pays_most_is_a_claim_with_its_name_and_what_the_law_says() -> None:
    def answers(bikes_ms: float, quote_ms: float) -> list[Sample]:
        return [sample(bikes_ms), sample(quote_ms, "quote")] * 600

    classes = tuple(one for one in PRICING.classes if one.name in ("bikes", "quote"))
    scenario = replace(PRICING, classes=classes)
    runs = [
        one
        for n, quote_ms in enumerate((150, 150, 300))
        for one in (
            run(answers(400, 100), "gthread-64", repetition=n),
            run(answers(500, 80), "gevent", repetition=n),
            run(answers(320, quote_ms), "greenlane", repetition=n),
        )
    ]
    (found,) = payers.claims(payers.worst_of("offers-0.9", scenario, pooled(scenario, runs), runs))
    assert found.text == "offers-0.9 at 0.9: worst class over gthread-64 (quote p95)"
    assert (found.measured, found.target, found.holds) == (3.0, payers.MOST, False)
    assert found.low < 3.0 < found.high
    assert found.remark.startswith("3.75 of the best stock server's; ideal order at 0.9:")


def test_each_load_that_no_class_pays_for_has_its_scenario() -> None:
    assert payers.expected_s(quick=True) < payers.expected_s(quick=False) < 1800
    assert len(payers.sources()) == 16


@pytest.mark.parametrize("block", [block for block in BLOCKS if not block.django], ids=lambda block: block.name)
def test_a_block_asks_for_as_many_bikes_as_it_claims_about(block: Block) -> None:
    costs = dict.fromkeys(("bikes", "scooters", "quote", "surge", "receipt", "report", "search"), 4.0)
    made = block.scenario(costs, 1, quick=False)
    (level,) = made.levels()
    bikes = rates_per_s(made, costs, level)["bikes"] * made.run_seconds() * made.repetitions
    assert block.bikes <= bikes <= block.bikes * 1.2


@pytest.mark.parametrize("argv", [("--only", "everything"), ("--seed", "x"), ("--soon",)])
def test_wrong_options_of_the_proof_exit_2(argv: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    assert capsys.readouterr().err.startswith("run the proof: ")


def test_the_verdicts_of_offers_become_claims_of_their_block() -> None:
    missed = Verdict("greenlane in hills: bike and scooter offers missed", 4.0, math.nan, math.nan, "<=", 3.0)
    (claim,) = offers.claims([missed.row()])
    assert (claim.block, claim.holds, claim.measured) == ("offers", False, 4.0) and math.isnan(claim.low)


def test_the_verdicts_of_the_plan_become_claims() -> None:
    (found,) = plan.claims([plan._verdict("cells, s", 5.0, "<=", 4.0, "")])
    assert (found.block, found.holds, found.measured) == ("plan", False, 5.0)


def test_a_length_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFFERS_PROVE", "Long")
    with pytest.raises(SettingsError, match="OFFERS_PROVE='Long', expected one of short, long"):
        offers.installed()


def test_offers_want_go_and_haproxy_before_anything_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OFFERS_PROVE", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PlatformError, match="go='', expected on PATH"):
        offers.installed()
    for name in ("go", "haproxy"):
        # Too old: a HAProxy that is missing here may be where only root looks.
        (tmp_path / name).write_text("#!/bin/sh\necho 'HAProxy version 1.8.30 2021/04/12 - https://haproxy.org/'\n")
        (tmp_path / name).chmod(0o755)
    with pytest.raises(FrontError, match=r"'1\.8\.30', expected HAProxy 2\.6 or later"):
        offers.installed()


def test_a_long_proof_has_as_many_offers_as_it_claims_about() -> None:
    regions = read().regions
    # A bike and a scooter each poll.
    made = offers.REPETITIONS * offers._LONG_S * regions[bad(regions)].riders_per_s * 2
    assert FEWEST_OFFERS <= made <= 1.02 * FEWEST_OFFERS


def test_raw_samples_are_kept_where_git_ignores_them() -> None:
    ignored = (claims.checkout() / ".gitignore").read_text().split()
    for quick in (False, True):
        assert f"/{claims.raw(quick).relative_to(claims.checkout()).as_posix()}/" in ignored


@pytest.mark.parametrize("measuring", ["offers/demo/turn.py", "offers/twin.py"])
def test_what_only_shows_a_result_does_not_make_it_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measuring: str
) -> None:
    for name in ("offers/demo/live/show.py", measuring):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    monkeypatch.setattr(offers, "_SYSTEM", tmp_path)
    before = offers.sources()
    (tmp_path / "offers/demo/live/show.py").write_text("2")
    assert offers.sources() == before
    (tmp_path / measuring).write_text("2")
    assert offers.sources() != before


@pytest.mark.parametrize(("relation", "measured"), [(">=", math.nan), ("<=", math.nan), ("<=", math.inf)])
def test_what_is_not_known_proves_nothing(relation: str, measured: float) -> None:
    nothing = Verdict("offers' p99 ÷ p95", measured, math.nan, math.nan, relation, 2.0)
    (claim,) = offers.claims([nothing.row()])
    assert (claim.holds, claim.word) == (False, "FAILS")


def test_what_is_beyond_every_number_is_more_than_any() -> None:
    (claim,) = pos.claims([Verdict("times", math.inf, math.nan, math.nan, ">=", 16).row()])
    assert claim.holds and claim.line()


def test_the_verdicts_of_pos_become_claims_and_what_never_came_fails() -> None:
    ratio = Verdict("times", 17.5, 16.4, 18.6, ">=", 16, "226 and 12.9 a second").row()
    never = Verdict("p95", math.inf, math.nan, math.nan, "<=", 360, "some never came", " ms").row()
    found, late = pos.claims([ratio, never])
    assert (found.word, found.low, found.remark) == ("holds", 16.4, "226 and 12.9 a second")
    assert (late.holds, late.word, late.unit) == (False, "FAILS", " ms")
    assert late.line()
