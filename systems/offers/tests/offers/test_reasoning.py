"""The article's reasoning: our cells say what its text says, and the simulator what the laboratory's models say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greenlane_tools.lab.queueing import fifo_loop, gevent_loop
from offers.reasoning import __main__ as command
from offers.reasoning.cells import CELL_MS, Cell, Order, Request, run
from offers.reasoning.drawing import drawn
from offers.reasoning.page import HEAVY, levels, page, seen_among
from offers.reasoning.reconstruction import CHOSEN, candidates

CELLS = st.integers(1, 6)


def handler_ms(request: Request, places: int, order: Order) -> list[int]:
    return sorted((life.ended - life.began) * CELL_MS for life in run([request] * 40, order, places))


@settings(deadline=None)
@given(before=CELLS, network=CELLS, after=CELLS, places=st.integers(1, 12))
def test_latencies_are_those_of_the_laboratorys_models(before: int, network: int, after: int, places: int) -> None:
    request, bursts = Request((before, after), (network,)), [before * CELL_MS, after * CELL_MS]
    for order, model in ((Order.GEVENT, gevent_loop), (Order.FIRST, fifo_loop)):
        modelled = model(bursts, [network * CELL_MS], places, 40)
        assert handler_ms(request, places, order) == sorted(round(ms) for ms in modelled.handler_ms)


@settings(deadline=None)
@given(
    requests=st.lists(
        st.tuples(st.lists(CELLS, min_size=3, max_size=3), st.lists(CELLS, min_size=2, max_size=2), st.integers(0, 20)),
        min_size=1, max_size=8,
    ),
    order=st.sampled_from(Order), places=st.integers(0, 8),
)  # fmt: skip
def test_every_cell_is_accounted_for_and_the_cpu_does_one_thing_at_a_time(
    requests: list[tuple[list[int], list[int], int]], order: Order, places: int
) -> None:
    made = [Request(tuple(bursts), tuple(waits), arrives) for bursts, waits, arrives in requests]
    busy: set[int] = set()
    for life in run(made, order, places):
        one = life.request
        assert life.ended - one.arrives == len(life.cells)
        assert life.cells.count(Cell.CPU) == one.cpu
        assert life.cells.count(Cell.NETWORK) == sum(one.waits)
        assert [network for network, _ in life.seen] == list(one.waits) and life.late >= 0
        computed = {one.arrives + place for place, cell in enumerate(life.cells) if cell is Cell.CPU}
        assert not busy & computed
        busy |= computed


def test_request_7_waits_70_ms_for_its_network_and_measures_180() -> None:
    lives = run([CHOSEN.request] * CHOSEN.requests)
    assert lives[6].seen == [(7, 18)] and lives[6].late == 11
    assert CHOSEN in candidates() and CHOSEN.fits
    [line] = [line for line in drawn(lives, 7).splitlines() if "request 7" in line]
    assert line.endswith("██·······░░░░░░░░░░░██   network 70 ms, measured 180 ms")


def test_three_at_once_are_nearly_perfect_and_more_only_wait() -> None:
    by_places = {level.places: level for level in levels()}
    three, ten = by_places[3], by_places[10]
    assert three.busy_frac > 0.99 > by_places[2].busy_frac
    assert three.request_ms <= 1.1 * CHOSEN.request.alone * CELL_MS
    assert ten.done_per_s <= 1.01 * three.done_per_s and ten.request_ms > 2.4 * three.request_ms


def test_an_offer_among_receipts_waits_for_all_of_them_and_first_or_alone_for_none() -> None:
    assert seen_among(HEAVY, Order.GEVENT) >= 47 * 110
    assert seen_among(HEAVY, Order.LIGHT) == seen_among((), Order.GEVENT) == 110


def test_the_page_is_what_is_computed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = page(json.loads(command.MEASURED.read_text("utf-8")))
    assert command.PAGE.read_text("utf-8") == text, "docs/offers-reasoning.md is stale: python -m offers.reasoning"
    stale = tmp_path / "page.md"
    stale.write_text("old", "utf-8")
    assert command.main(["--check"], stale) == 1 and "stale" in capsys.readouterr().err
    assert command.main([], stale) == 0 and stale.read_text("utf-8") == text
    assert command.main(["--check"], stale) == 0
