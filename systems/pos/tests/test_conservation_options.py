"""The command line of the balance: what it refuses, and what its table says."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from pos.conservation.books import balanced
from pos.conservation.cell import Outcome
from pos.conservation.command import main
from pos.conservation.contenders import CONTENDERS
from pos.conservation.faults import FAULTS
from pos.conservation.options import parse
from pos.conservation.table import rows, sentence, table

WELL = Outcome(
    contender="greenlane", fault="broker-kill", balance=balanced(["a", "b"], [], ["a", "b"], []), recovered_s=1.0,
    standstill_s=2.0, rest_s=3.0, end_s=4.0, stuck=False, restarts=0, exit_codes=(0, None), published_again=5,
)  # fmt: skip


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--orders", "0"], "--orders=0, expected 1 or more"),
        (["--rate", "0"], "--rate=0.0, expected orders a second, over 0"),
        (["--latency-ms", "2000"], "--latency-ms=2000.0, expected 0 to 2000"),
        (["--faults", "none,storm"], "--faults='storm', expected names out of none, worker-kill"),
        (["--contenders", "celery"], "--contenders='celery', expected names out of prefork-4"),
    ],
)
def test_a_wrong_option_is_named_with_its_rule(argv: list[str], said: str) -> None:
    out, err = io.StringIO(), io.StringIO()
    assert main(argv, out, err) == 2
    assert said in err.getvalue() and not out.getvalue()


def test_all_are_all() -> None:
    options = parse(["--faults", "all", "--contenders", "all"])
    assert len(options.faults) == len(FAULTS) and len(options.contenders) == len(CONTENDERS)


def test_a_fault_of_a_store_meets_only_who_has_that_store() -> None:
    met = {name: [one.name for one in CONTENDERS.values() if fault.meets(one)] for name, fault in FAULTS.items()}
    assert met["store-locked"] == ["greenlane", "greenlane-green"]
    assert met["store-kill"] == ["greenlane-redis", "greenlane-green-redis"]
    assert met["broker-kill"] == list(CONTENDERS)


def test_the_table_names_what_was_uneven_and_leaves_zeros_out() -> None:
    even = replace(WELL, balance=balanced([], [], [], []))
    lines = table([WELL, even, replace(even, stuck=True)]).splitlines()
    assert [line.split()[-1] for line in lines[1:]] == ["uneven", "even", "stuck"]
    assert lines[1].split()[:3] == ["broker-kill", "greenlane", "."]
    assert "waiting 2" in sentence(WELL) and "lost" not in sentence(WELL)


def test_a_row_has_the_house_s_fields() -> None:
    [row] = rows([WELL])
    assert {"contender", "fault", "lost", "effects_doubled", "calls_repeated"} <= row.keys()
    assert row["even"] is False and row["waiting"] == 2


def test_a_fault_that_nobody_withstands_is_explained_below_the_table() -> None:
    assert (
        table([replace(WELL, fault="worker-freeze-long")])
        .splitlines()[-1]
        .startswith("worker-freeze-long: who stands still")
    )
