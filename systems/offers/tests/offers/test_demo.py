"""The demo's options, and what it says of figures that are made up here."""

from __future__ import annotations

import io
import itertools
import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from greenlane.errors import SettingsError
from greenlane_tools.lab.load.plan import Recorded, Work
from offers import load, table
from offers.contenders import CONTENDERS, FIXES, lanes
from offers.demo import added, warm
from offers.demo.command import main
from offers.demo.live.show import Series
from offers.demo.live.traffic import rush
from offers.demo.options import Options, bad, parse
from offers.demo.results import nines, rows_of, sentence, shown, verdicts_of, warnings
from offers.demo.riders import PERIOD_S, Poll, Riders, changes_per_minute, due_s
from offers.demo.turn import Counts, Turn, Used, priced, with_unanswered

MODES = ("bikes", "scooters", "walk")


def counted(made: int, late: int = 0, **changed: Any) -> Counts:
    """Offers whose calls of pricingservice took 200 ms, those that came too late 900 ms."""
    buckets = {200.0: made, **({900.0: late} if late else {})}
    values = {"asked": made + late, "made": made, "late": late, "refused": 0, "failed": 0, "wasted": late}
    return Counts(**{**values, "buckets": buckets, **changed})


def turned(contender: str, counts: Counts, **changed: Any) -> Turn:
    polls = [Poll(0, 2.0 * at, 210.0, MODES) for at in range(15)]
    used = Used(15 * 10**9, 30 * 10**9, 10**8, 2 * 10**10, 60.0, 2)
    values: dict[str, Any] = {
        "contender": contender, "region": "hills", "seconds": 30.0, "counts": counts, "polls": polls, "used": used,
        "others": {"heavy": [(200, 80.0), (200, 120.0), (502, 5.0), (-1, 10_000.0)]}, "offer_cpu_ms": 6.0,
        "offers_worked": float(counts.ended + 10), "offers_direct": 10, "warning": "",
    }  # fmt: skip
    return Turn(**{**values, **changed})


def test_what_nobody_says_is_the_stock_server_and_permits_where_it_is_bad() -> None:
    options = parse([])
    assert isinstance(options, Options)
    assert (options.contenders, options.regions) == (("gevent", "greenlane"), (bad(table.read().regions),))
    assert (options.seconds, options.repetitions, options.page, options.utilisations_frac) == (60, 1, False, ())


def test_the_page_shows_every_region_unless_some_are_named() -> None:
    every, one = parse(["--page"]), parse(["--page", "--region", "north"])
    assert isinstance(every, Options) and isinstance(one, Options)
    assert (every.regions, one.regions) == (tuple(table.read().regions), ("north",))


def test_the_page_takes_one_fix_for_its_right_side() -> None:
    for argv in (["--fix", "lane"], ["--fixes", "none,lane"], ["--contenders", "greenlane-soft"]):
        options = parse(["--page", *argv])
        assert isinstance(options, Options) and set(options.contenders) - {"gevent"} == {"greenlane-soft"}


def test_added_wait_is_measured_where_no_burst_fills_the_core() -> None:
    options = parse(["--utilisations", "0.7,0.9"])
    assert isinstance(options, Options) and options.utilisations_frac == (0.7, 0.9)
    assert not table.read().regions[options.regions[0]].bursts


def test_fixes_and_contenders_are_two_words_for_the_same_in_the_tables_order() -> None:
    options = parse(["--fixes", "dedicated,none", "--fix", "lane", "--contenders", "go"])
    assert isinstance(options, Options)
    assert options.contenders == ("gevent", "greenlane-soft", "dedicated", "go")
    assert set(FIXES.values()) < set(CONTENDERS)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--fix", "magic"], "one of none, permits, lane, dedicated"),
        (["--fix", "none,permits"], "one of none, permits, lane, dedicated"),
        (["--fixes", "none,none"], "each once"),
        (["--contenders", "gthread"], "some of gevent, gthread-64, gthread-64-one-core, greenlane"),
        (["--region", "moon"], "some of north"),
        (["--seconds", "0"], "a number from 1 to 3600"),
        (["--seconds", "nan"], "a number from 1"),
        (["--repetitions", "1.5"], "a whole number from 1"),
        (["--utilisations", "0.7,2"], "a number from 0.3 to 0.95"),
        (["--port", "70000"], "a whole number from 0 to 65535"),
        (["--utilisations", "0.7", "--region", "north,hills"], "one region beside --utilisations"),
        (["--utilisations", "0.7", "--cancel"], "--cancel='on', expected it left out beside --utilisations"),
        (["--utilisations", "0.7", "--propagate-deadline"], "--propagate-deadline='on', expected it left out"),
        (["--page", "--utilisations", "0.7"], "it left out beside --page"),
        (["--page", "--fix", "none"], "--fix='none', expected one of permits, lane, dedicated beside --page"),
        (["--page", "--contenders", "go"], "--contenders='go', expected one of permits, lane, dedicated"),
        (["--page", "--fixes", "permits,lane"], "one of permits, lane, dedicated beside --page"),
        (["--colour", "red"], "options that exist"),
    ],
)
def test_a_wrong_option_is_refused_with_its_rule_and_exit_code_2(argv: list[str], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        parse(argv)
    out, err = io.StringIO(), io.StringIO()
    assert main(argv, out, err) == 2
    assert (out.getvalue(), "run the offers demo: " in err.getvalue(), "\nhint: " in err.getvalue()) == ("", True, True)


def test_a_table_that_breaks_a_rule_is_said_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in table.FOLDER.iterdir():
        text = path.read_text("utf-8").replace('endpoint = "surge_map"', 'endpoint = "surge"')
        (tmp_path / path.name).write_text(text, "utf-8")
    monkeypatch.setenv("OFFERS_TABLE", str(tmp_path))
    err = io.StringIO()
    assert main(["--fix", "none"], io.StringIO(), err) == 2
    assert err.getvalue().startswith(
        "read the table: region hills: burst.endpoint='surge', expected an endpoint\nhint: "
    )


def test_polls_are_left_until_they_are_over() -> None:
    riders = Riders("http://127.0.0.1:1", "north", "1", 10.0, 4.0)
    assert riders.left == len(due_s("1", 10.0, 4.0)) == 40
    riders.polls.append(Poll(0, 0.0, 1.0, ()))
    assert riders.left == 39


def test_a_folder_that_cannot_be_written_is_said_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    err = io.StringIO()
    assert main(["--out", str(tmp_path / "file" / "x")], io.StringIO(), err) == 2
    assert "--out=" in err.getvalue() and "hint: give another folder" in err.getvalue()


def test_the_lane_holds_every_offer_endpoint_and_nothing_else() -> None:
    found = table.read()
    lane = tomllib.loads(lanes(found))["lanes"]["offers"]
    assert set(lane["match"]) == {one.path for one in found.endpoints.values() if one.kind == "offer"}
    assert (lane["processes"], lane.get("kind", "soft")) == (1, "soft")


def test_each_rider_polls_every_two_seconds_the_same_for_everybody() -> None:
    polls = due_s("7", 20.0, 30.0)
    assert polls == due_s("7", 20.0, 30.0) != due_s("8", 20.0, 30.0)
    assert polls == sorted(polls) and len({(rider, number) for _, rider, number in polls}) == len(polls) == 600
    mine = [at_s for at_s, rider, _ in polls if rider == 3]
    assert len(mine) == 15 and all(abs(late - early - PERIOD_S) <= 0.2 for early, late in itertools.pairwise(mine))


def test_flicker_counts_what_appears_and_vanishes_on_each_riders_screen() -> None:
    def rode(rider: int, *screens: str) -> list[Poll]:
        return [Poll(rider, PERIOD_S * at, 200.0, tuple(made), {"x": "late"}) for at, made in enumerate(screens)]

    assert changes_per_minute(rode(0, "bs", "bs", "bs")) == 0
    # Bikes vanish and come back: two changes in three intervals of two seconds.
    assert changes_per_minute(rode(0, "bs", "s", "bs", "bs")) == pytest.approx(2 / 6 * 60)
    # Two riders are not one rider whose screen differs.
    assert changes_per_minute(rode(0, "b", "b") + rode(1, "s", "s")) == 0
    # Order is by time, and a poll that nobody answered leaves the screen as it is.
    unanswered = [Poll(0, 1.0, 10_000.0, (), {})]
    assert changes_per_minute([*reversed(rode(0, "b", "", "b")), *unanswered]) == pytest.approx(2 / 4 * 60)
    assert changes_per_minute([]) == 0


def test_counters_are_cut_and_summed_and_their_percentiles_are_the_buckets_edges() -> None:
    row = {"mode": "bikes", "region": "hills", "priced": True, "asked": 10, "made": 8, "late": 2, "refused": 0,
           "failed": 0, "wasted": 2, "buckets_ms": [[200.0, 8], [900.0, 2]]}  # fmt: skip
    walk = {**row, "mode": "walk", "priced": False, "asked": 1_000}
    before = priced({"modes": [row, walk]})
    assert (before.asked, before.samples, before.ended) == (10, 10, 10)
    assert (before.quantile_ms(0.8), before.quantile_ms(0.81)) == (200, 900)
    after = priced({"modes": [{**row, "asked": 12, "made": 10, "buckets_ms": [[200.0, 10], [900.0, 2]]}, walk]})
    added_since = after.since(before)
    assert (added_since.asked, added_since.made, added_since.late, dict(added_since.buckets)) == (2, 2, 0, {200.0: 2})
    both = added_since + before
    assert both.asked == 12 and both.quantile_ms(0.5) == 200 and math.isnan(Counts.of([]).quantile_ms(0.5))


def test_nines_are_the_logarithm_of_what_is_missed_and_without_a_miss_a_bound() -> None:
    assert nines(9_950, 10_000) == (pytest.approx(2.301, abs=1e-3), False)
    assert nines(60_000, 60_000) == (pytest.approx(4.301, abs=1e-3), True)
    assert nines(1, 1) == (0, True) and nines(0, 0) == (None, True)


def test_a_row_has_success_with_its_interval_flicker_and_wasted_cpu() -> None:
    polls = [Poll(0, 2.0 * at, 210.0, MODES) for at in range(15)]
    polls[7] = Poll(0, 14.0, 510.0, ("walk",), dict.fromkeys(MODES[:2], "late"))
    runs = [turned("gevent", counted(9_960, 40), polls=polls), turned("gevent", counted(9_980, 20))]
    offers, heavy = rows_of(runs)
    assert (offers["endpoint"], offers["fix"], offers["missed"], offers["samples"]) == ("offers", "none", 60, 20_000)
    assert offers["success_frac"] == 0.997 and offers["success_low_frac"] < 0.997 < offers["success_high_frac"]
    # Windows of which one missed all say less than Wilson's interval, which takes every offer for itself.
    assert offers["success_low_frac"] < 0.96
    assert (offers["p50_ms"], offers["p99_ms"], offers["p999_ms"]) == (200, 200, 900)
    # Four changes in 14 intervals of two seconds in one run, none in the other.
    assert offers["flicker_per_minute"] == pytest.approx(4 / 28 * 60 / 2)
    # 60 offers of 6 ms that nobody saw, of 30 s of CPU.
    assert offers["wasted_cpu_frac"] == pytest.approx(60 * 6 / 30_000)
    assert offers["cpu_utilisation_frac"] == 0.5 and offers["processes"] == 2
    assert (heavy["endpoint"], heavy["errors"], heavy["lost"], heavy["p999_ms"]) == ("direct-heavy", 2, 2, None)
    # Who was given up is among the slowest.
    assert (heavy["p50_ms"], heavy["p99_ms"], heavy["done_per_s"]) == (120, 10_000, 4 / 60)
    assert (offers["poll_p50_ms"], offers["poll_p99_ms"], offers["lost"]) == (210, 510, 0)
    text = shown([offers, heavy], [])
    assert "99.700 %" in text and "2.52" in text and "direct-heavy" in text


def test_who_had_no_core_is_told_with_what_to_do() -> None:
    starved = turned("gevent", counted(10), used=Used(15 * 10**9, 30 * 10**9, 3 * 10**9, 6 * 10**10, 60.0, 2))
    (told,) = warnings(rows_of([starved, turned("greenlane", counted(10))]))
    assert told.startswith("gevent in hills: its threads waited 10 % of the time for a core") and "end other" in told


def test_a_poll_without_an_answer_is_two_offers_that_failed() -> None:
    polls = [Poll(0, 1.0, 200.0, MODES), Poll(0, 3.0, 10_000.0, (), {}), Poll(0, 5.0, 510.0, (), {"bikes": "late"})]
    counts = with_unanswered(counted(2, 1), polls)
    assert (counts.asked, counts.failed, counts.ended, counts.made) == (5, 2, 5, 2)


def test_few_samples_have_no_thousandth() -> None:
    (row, _) = rows_of([turned("greenlane", counted(9_999))])
    assert row["p999_ms"] is None and row["nines_is_bound"] and row["flicker_per_minute"] == 0


def test_one_sentence_says_what_was_seen() -> None:
    rows = rows_of([turned("gevent", counted(990, 10)), turned("greenlane", counted(1_000))])
    assert sentence(rows) == (
        "In hills the stock server misses 10 of 1,000 bike and scooter offers, and a rider's screen changes 0 times a "
        "minute; with greenlane none of 1,000 is missed, and nothing flickers."
    )
    assert sentence(rows[:1]) == ""


def test_verdicts_are_of_the_stock_server_in_the_bad_region_and_of_fixes_everywhere() -> None:
    runs = [turned("gevent", counted(19_600, 400)), turned("greenlane", counted(60_000)),
            turned("gevent", counted(60_000), region="north")]  # fmt: skip
    share, p99, p999, missed, flat, processes = verdicts_of(runs, "hills")
    assert share.holds and share.measured == 0.98 and not share.row()["low"]
    assert (p99.measured, p99.holds, p999.measured, p999.holds) == (4.5, True, 4.5, True)
    assert (missed.measured, missed.target, missed.holds, flat.measured, flat.holds) == (0, 3, True, 1, True)
    assert (processes.measured, processes.holds) == (0, True)


def test_a_stock_server_that_is_broken_is_no_stock_server_that_is_late() -> None:
    broken = turned("gevent", counted(60, failed=59_940))
    share, p99 = verdicts_of([broken], "hills")[:2]
    assert (share.measured, share.holds, p99.holds) == (1, False, False)
    assert "59,940 that were refused or failed" in share.remark
    gone = turned("gevent", counted(0))
    assert not any(verdict.holds for verdict in verdicts_of([gone], "hills"))


def test_permits_with_a_further_process_are_told() -> None:
    used = Used(15 * 10**9, 30 * 10**9, 10**8, 2 * 10**10, 60.0, 3)
    processes = verdicts_of([turned("gevent", counted(9)), turned("greenlane", counted(9), used=used)], "hills")[-1]
    assert (processes.measured, processes.holds, processes.remark) == (1, False, "3 and 2")


@pytest.mark.parametrize(("missed", "holds"), [(3, True), (4, False)])
def test_at_most_three_of_sixty_thousand_may_be_missed(missed: int, holds: bool) -> None:
    runs = [turned("greenlane-soft", counted(60_000 - missed, missed))]
    assert verdicts_of(runs, "hills")[0].holds is holds


def test_fewer_offers_are_held_to_the_same_share() -> None:
    (missed, flat) = verdicts_of([turned("greenlane", counted(2_398, 2))], "hills")
    assert (missed.target, missed.holds) == (1, False) and "the claim is about 60,000" in missed.remark
    assert "p99 ÷ p95" in flat.text


def test_the_live_region_is_thinner_and_its_bursts_are_as_large() -> None:
    found = table.read()
    region = found.regions[bad(found.regions)]
    thin = rush(region)
    assert sum(found.rates_per_s(thin).values()) < sum(found.rates_per_s(region).values())
    for burst, before in zip(thin.bursts, region.bursts, strict=True):
        assert (burst.endpoint, burst.size_mean, burst.size_cv) == (before.endpoint, before.size_mean, before.size_cv)


def test_a_series_cuts_seconds_and_begins_its_nines_anew_at_a_switch() -> None:
    series = Series()
    series.look(1, 1.0, counted(100, 100), 0.3)
    series.look(2, 2.0, counted(108, 102), 0.3)
    _, row = series.since(0)
    assert (row["timeouts_per_s"], row["success_frac"], row["cpu_frac"]) == (2.0, 0.8, 0.3)
    assert row["nines"] == pytest.approx(0.699, abs=1e-3) and not row["nines_is_bound"]
    series.switched(2.2)
    # What the old one had in progress is its own: it may be late for half a second.
    series.look(3, 2.6, counted(118, 104), 0.3)
    series.look(4, 3.6, counted(118, 104), 0.3)
    series.look(5, 4.6, counted(148, 104), 0.3)
    assert [one["t"] for one in series.since(2)] == [2.6, 3.6, 4.6]
    assert [one["nines_is_bound"] for one in series.since(2)] == [False, True, True]
    last = series.since(4)[0]
    assert (last["nines"], last["nines_is_bound"], last["timeouts_per_s"]) == (1.0, True, 0.0)


def test_added_wait_is_what_is_left_of_an_offers_latency(monkeypatch: pytest.MonkeyPatch) -> None:
    found = table.read()
    asked = load.with_riders(found, found.regions["north"], "127.0.0.1:1", 20.0, "1")
    riders = added.offers_only(asked)
    assert 0 < len(riders) < len(asked)
    assert {asked.plan.streams[number].name for number in riders.schedule.stream} == set(load.OFFERS)
    samples = answered(riders, extra_ms=7.0, tables=found)
    around, own = added.around_ms(found, riders, samples)
    assert np.allclose(around, 7.0, atol=1e-5) and (own > 100).all()


def answered(asked: load.Load, extra_ms: float, tables: table.Table) -> Any:
    """Samples of a service that takes so much more than its upstreams."""
    from greenlane_tools.lab.samples import Samples
    from offers.upstreams.server import latency_ms

    def took_ms(number: int, request_id: float) -> float:
        calls = tables.endpoints[asked.plan.streams[number].name].calls
        return extra_ms + sum(
            latency_ms(tables.upstreams[name], f"{request_id!r}-{at}") for at, name in enumerate(calls, 1)
        )

    at_ns, stream, work = asked.schedule.at_ns, asked.schedule.stream, asked.schedule.work_ms
    took_ns = np.array([took_ms(int(number), float(one)) * 1e6 for number, one in zip(stream, work, strict=True)])
    done_ns = at_ns + took_ns.astype(np.int64)
    names = tuple(one.name for one in asked.plan.streams)
    status, worker = np.full(len(at_ns), 200, np.int16), np.zeros(len(at_ns), np.int32)
    return Samples(names, stream, at_ns, at_ns, done_ns, done_ns, status, worker, work)


def test_a_core_is_filled_with_what_computes_and_nothing_else() -> None:
    region = table.read().regions["hills"]
    more = added.filled(region, 3.0)
    assert more.kinds["heavy"].per_s == 3 * region.kinds["heavy"].per_s
    assert (more.riders_per_s, more.kinds["light"]) == (region.riders_per_s, region.kinds["light"])
    assert [one.every_s for one in more.bursts] == [one.every_s / 3 for one in region.bursts]
    none = added.filled(region, 0.0)
    assert none.bursts == () and none.kinds["mixed"].per_s == 0
    # 0.3 without them and 0.5 with four times as many: eight times make 0.7.
    assert added.fitting(0.7, 0.3, 0.5) == pytest.approx(8.0)
    with pytest.raises(SettingsError, match=r"more than riders and light requests take here \(0.75 of a core\)"):
        added.fitting(0.7, 0.75, 0.9)


def waited(contender: str, p99_ms: float, *, errors: int = 0, measured_frac: float = 0.79) -> added.Wait:
    values = np.concatenate([np.zeros(980), np.full(20, p99_ms)])
    return added.Wait(
        contender, "hills", 0.8, measured_frac, 0.01, 1.5, 7.5, 20.0, values, 6.0, 200.0, errors, 0, ""
    )  # fmt: skip


def test_an_offer_that_failed_was_never_there() -> None:
    (verdict,) = added.verdicts_of([waited("greenlane", 5.0, errors=20), waited("go", 40.0)])
    assert not verdict.holds and verdict.measured == math.inf
    (verdict,) = added.verdicts_of([waited("greenlane", 5.0, errors=20), waited("go", 40.0, errors=20)])
    assert not verdict.holds


def test_another_share_of_the_core_than_was_meant_is_told() -> None:
    (told,) = warnings(added.rows_of([waited("greenlane", 5.0), waited("go", 40.0, measured_frac=0.9)]))
    assert told.startswith("go was to use 80 % of a core and used 90 %")


def test_the_twin_is_the_mark_for_added_wait() -> None:
    runs = [waited("greenlane", 5.0), waited("go", 40.0)]
    (verdict,) = added.verdicts_of(runs)
    assert verdict.holds and verdict.measured == 0.125 and "5 ms and 40 ms" in verdict.remark
    assert added.verdicts_of(runs[:1]) == []
    rows: list[Mapping[str, Any]] = list(added.rows_of(runs))
    assert [row["contender"] for row in rows] == ["go", "greenlane"] and rows[0]["p99_ms"] == 40
    assert "added p99" in shown(rows, [verdict])


def test_what_computes_is_asked_three_times_before_one_after_the_other_for_its_usual_work() -> None:
    found = table.read()
    region = found.regions[bad(found.regions)]
    plan = warm.asking(found, region, "127.0.0.1:1")
    kinds = {one.name: one.kind for one in found.endpoints.values()}
    computing = {name for name in found.rates_per_s(region) if kinds[name] in ("mixed", "heavy")}
    assert {one.name for one in plan.streams} == computing | {one.endpoint for one in region.bursts}
    asked = [at_ns for one in plan.streams if isinstance(one.arrivals, Recorded) for at_ns in one.arrivals.at_ns]
    assert len(set(asked)) == 3 * len(plan.streams) and max(asked) < plan.seconds * 1e9
    cpu_ms = found.endpoints[plan.streams[0].name].cpu_ms
    assert sorted(asked)[1] == round(cpu_ms / 0.8 * 1e6)
    # Who learned from less than its usual work would expect a burst to be over too soon: the page's as well.
    live = warm.asking(found, region, "127.0.0.1:1", rare=False)
    assert {one.work for one in (*plan.streams, *live.streams)} == {Work(1.0, parameter="w")}
    assert {kinds[one.name] for one in live.streams} == {"mixed", kinds[region.bursts[0].endpoint]}
    assert live.seconds < plan.seconds / 4
