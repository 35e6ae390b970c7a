"""The parts of part 3 on recorded times that are known: clocks, Little's law, rows, timeline, presets, drawings."""

from __future__ import annotations

import dataclasses
import statistics
import xml.dom.minidom

import pytest
from tests.lab.part3.made import CELL, REQUESTS, SHAPE, made_run

from greenlane_tools.lab.part3 import options as command
from greenlane_tools.lab.part3 import shown
from greenlane_tools.lab.part3.cells import Cell, with_baselines
from greenlane_tools.lab.part3.perform import result_of
from greenlane_tools.lab.part3.presets import PRESETS, cells_of
from greenlane_tools.lab.part3.rows import latencies_ms, little, longest, rows_of
from greenlane_tools.lab.part3.runtimes import RUNTIMES, Shape, missing
from greenlane_tools.lab.part3.shown import hidden, lines, picture
from tests.reference import queueing

FIELDS = ["contender", "green_threads", "requests", "set_cpu_ms", "set_network_ms", "calls", "done_per_s", "speedup"]
FIELDS += ["cpu_utilisation_frac"]
FIELDS += [f"{clock}_{p}_ms" for clock in ("handler", "spawn", "arrival") for p in ("p50", "p95", "p99")]


def test_a_shape_cuts_its_cpu_into_one_burst_more_than_calls() -> None:
    assert (Shape(5, 55).bursts_ms(), Shape(5, 55).waits_ms()) == ([2.5, 2.5], [55])
    assert Shape(6, 55, calls=5).bursts_ms() == [1.0] * 6
    assert Shape(6, 55, calls=5).waits_ms() == [11.0] * 5
    assert (Shape(5, 0, calls=0).bursts_ms(), Shape(5, 0, calls=0).waits_ms()) == ([5.0], [])
    together = Shape(1, 30, calls=3, together=True)
    assert (together.bursts_ms(), together.waits_ms(), together.waited_ms()) == ([0.0, 1.0], [10.0], 10.0)


def test_each_clock_sees_what_lies_behind_its_start() -> None:
    assert latencies_ms(REQUESTS, "handler") == [50, 50, 50]
    assert latencies_ms(REQUESTS, "spawn") == [50, 51, 60]
    assert latencies_ms(REQUESTS, "arrival") == [50, 60, 61]


def test_littles_law_gives_n_by_the_arrival_and_less_by_the_other_clocks() -> None:
    law = little([made_run()])
    assert law.arrival + law.empty == pytest.approx(2)
    assert law.handler == pytest.approx(150 / 111)
    assert law.spawn == pytest.approx(161 / 111)
    assert law.empty == pytest.approx((111 - 60) / 111)


def test_places_that_never_had_a_request_were_empty_all_the_time() -> None:
    law = little([made_run(REQUESTS[:1])])
    assert (law.arrival, law.empty) == pytest.approx((1, 1))


def test_a_row_holds_the_promised_fields_first() -> None:
    alone = Cell(RUNTIMES["gevent"], SHAPE, 1, 3, baseline=True)
    (row,) = rows_of({CELL: [made_run(), made_run()], alone: [made_run()]})
    assert [name for name in row if name in FIELDS] == FIELDS
    assert row["done_per_s"] == pytest.approx(3 / 0.111)
    assert row["speedup"] == pytest.approx(1)
    assert row["cpu_utilisation_frac"] == pytest.approx(60 / 111)
    assert row["computed_utilisation_frac"] == pytest.approx(3 * 20 / 111)
    assert (row["samples"], row["repetitions"], row["cpu_ms_per_job"]) == (6, 2, pytest.approx(20))
    assert (row["handler_p50_ms"], row["spawn_p50_ms"], row["arrival_p99_ms"]) == (50, 51, 61)
    assert (row["bound_per_s"], row["bound_ms"], row["yield_us"]) == (40, 50, 1.5)


def test_without_a_baseline_there_is_no_speedup() -> None:
    (row,) = rows_of({CELL: [made_run()]})
    assert row["speedup"] is None
    assert shown.measured_rows([row]).rows[0]["speedup"] is None
    assert not any(one.known.field == "speedup" for one in PRESETS["lyft-50-150"].beside([row]))


def test_the_timeline_has_the_published_form() -> None:
    run = made_run()
    assert longest(run, "arrival").number == 2
    assert lines(run, REQUESTS[0]) == [
        "[0.000] Request 0: + 10.00ms CPU time",
        "[0.010] Request 0: + 30.00ms Network time",
        "[0.010] Request 1: + 10.00ms CPU time",
        "[0.020] Request 1: + 30.00ms Network time",
        "[0.040] Request 0: - 30.00ms Network time took 30.00ms",
        "[0.040] Request 0: + 10.00ms CPU time",
    ]
    assert hidden(run, REQUESTS[2]) == (
        "Request 2: 50.00ms by its handler's clock, 61.00ms since its place was free: "
        "11.00ms before its first instruction"
    )


def test_each_runtime_and_shape_gets_one_baseline_unless_it_has_one() -> None:
    gevent, threads = RUNTIMES["gevent"], RUNTIMES["threads"]
    asked = [
        Cell(gevent, Shape(5, 55), 1, 500),
        Cell(gevent, Shape(5, 55), 50, 500),
        Cell(threads, Shape(5, 55), 5, 500),
    ]
    assert with_baselines(asked) == [*asked, Cell(threads, Shape(5, 55), 1, 50, baseline=True)]


def test_a_preset_is_what_the_article_ran() -> None:
    cells = cells_of(PRESETS["lyft-5-55"], [RUNTIMES["gevent"]])
    assert [(cell.green_threads, cell.requests) for cell in cells] == [(1, 500), (5, 500), (50, 500)]
    demanded = [round(known.value) for known in PRESETS["lyft-5-55"].known if known.source == "N/X"]
    assert demanded == [61, 61, 260]


def test_modelled_figures_of_the_presets_are_those_of_the_models() -> None:
    for known in PRESETS["lyft-5x11"].known:
        pieces = known.shape.bursts_ms(), known.shape.waits_ms()
        if known.field == "arrival_p50_ms" or known.shape.calls == 1:
            model = queueing.gevent_loop(*pieces, known.green_threads)
            values = model.arrival_ms if known.field == "arrival_p50_ms" else model.handler_ms
            assert statistics.median(values) == pytest.approx(known.value, abs=0.06)
        else:
            found = [statistics.median(queueing.fifo_loop(*pieces, known.green_threads, ties=ties).arrival_ms)
                     for ties in queueing.Ties]  # fmt: skip
            assert min(found) - 0.1 <= known.value <= max(found) + 0.1


def test_the_command_names_every_preset() -> None:
    assert list(command.PRESETS) == list(PRESETS)


def test_a_runtime_that_is_not_there_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert missing(RUNTIMES["node"]) == "there is no `node` in PATH"
    assert missing(RUNTIMES["threads"]) == ""


def test_a_busy_machine_is_said_with_a_remedy() -> None:
    noisy = rows_of({CELL: [made_run(others_cores=0.5)]})
    assert "stop them and run again" in shown.noise(noisy)[0]
    assert shown.noise(rows_of({CELL: [made_run()]})) == []


def test_more_green_threads_than_requests_are_said_with_a_remedy() -> None:
    (row,) = rows_of({CELL: [made_run()]})
    (few,) = shown.warnings([row])
    assert few.startswith("p99 is rough ") and "has 3)" in few and few.endswith("--requests 500 would do")
    row |= {"samples": 500}
    assert list(shown.warnings([row])) == []
    (said,) = shown.warnings([{**row, "green_threads": 50}])
    assert said.startswith("50 green threads had 3 requests in all") and said.endswith("--requests 500 would do")


def test_of_several_shapes_each_line_says_its_own() -> None:
    five = dataclasses.replace(CELL, shape=Shape(20, 30, 5))
    measured = {CELL: [made_run()], five: [dataclasses.replace(made_run(), shape=five.shape)]}
    heads = [next(shown.histograms(cell, measured)) for cell in measured]
    assert "20ms CPU/30ms Network, from" in heads[0] and "20ms CPU/30ms Network in 5 calls, from" in heads[1]
    assert [row["CPU/network"] for row in shown.laws(rows_of(measured)).rows] == ["20/30 in 1", "20/30 in 5"]


def test_histograms_are_a_line_a_clock() -> None:
    first, *rest = shown.histograms(CELL, {CELL: [made_run()]})
    assert first == "gevent, 2 green threads, from 50.0 to 61.0 ms:"
    assert [line.split("|")[0].strip() for line in rest] == ["handler", "spawn", "arrival"]
    assert {len(line) for line in rest} == {72}


def test_the_page_shows_every_part_and_escapes_nothing_twice() -> None:
    preset = PRESETS["lyft-50-150"]
    many = Cell(RUNTIMES["gevent"], SHAPE, 5, 3)
    alone = Cell(RUNTIMES["gevent"], SHAPE, 1, 3, baseline=True)
    measured = {CELL: [made_run()], many: [made_run()], alone: [made_run()]}
    text = result_of(preset, measured).page()
    for heading in ("figures hide", "more green threads", "three clocks", "longest request", "Latencies in ms"):
        assert heading in text
    assert "&amp;lt;" not in text


def test_a_chart_is_a_picture_by_itself() -> None:
    rows = rows_of({CELL: [made_run()]})
    for chart in (shown.latency_curves(rows, SHAPE), shown.lanes(made_run(), 2)):
        document = xml.dom.minidom.parseString(picture(chart)._repr_svg_())
        assert document.documentElement.getAttribute("xmlns") == "http://www.w3.org/2000/svg"
        assert "var(--ink)" in document.getElementsByTagName("style")[0].firstChild.data
