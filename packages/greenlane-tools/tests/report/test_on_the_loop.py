"""CPU work in a coroutine is named by a report with the line to move."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.record.command import JOBS, greenlane, recorded
from tests.report.rows_of_a_bad_day import MS, Made

from greenlane_tools.reader.rows import Stack
from greenlane_tools.report.culprits import own_coroutine
from greenlane_tools.report.findings import ReportFinding
from greenlane_tools.report.study import study_of

PROGRAM = """
import asyncio

def price(until):
    while time.monotonic() < until:
        pass

async def quote():
    for _ in range(30):
        with greenlane.record.job("GET /quote"):
            price(time.monotonic() + 0.03)  # the line to move
        await asyncio.sleep(0.005)

async def bike():
    for _ in range(60):
        with greenlane.record.job("GET /bike"):
            await asyncio.sleep(0.003)

async def main():
    await asyncio.gather(quote(), *(bike() for _ in range(8)))

asyncio.run(main())
"""


def on_the_loop(made: Made) -> list[ReportFinding]:
    return [finding for finding in study_of(made).findings if finding.name == "on-the-loop"]


@pytest.mark.slow
def test_a_recording_of_a_loop_names_the_line_of_the_coroutine_and_what_to_write(tmp_path: Path) -> None:
    (tmp_path / "service.py").write_text(JOBS + PROGRAM)
    assert greenlane("record", "-o", "r.glr", "--", sys.executable, "service.py", cwd=tmp_path).code == 0
    stacks = [row.stack for row in recorded(tmp_path).stacks if row.culprit == "GET /quote"]
    assert any("async quote (" in stack and ";price (" in stack for stack in stacks)
    (found, *_) = [each for each in study_of(recorded(tmp_path)).findings if each.name == "on-the-loop"]
    line = 1 + (JOBS + PROGRAM).splitlines().index("            price(time.monotonic() + 0.03)  # the line to move")
    assert f"service.py:{line} in quote, in price" in found.said
    assert "GET /quote computes on the event loop" in found.said
    assert "await greenlane.run(price, …)" in found.said


def test_a_coroutine_that_computes_itself_is_to_give_a_function_away() -> None:
    made = Made(stacks=[Stack("GET /q", "run (a.py:1);async quote (app/q.py:7)", 60 * MS)])
    (found,) = on_the_loop(made)
    assert "q.py:7 in quote" in found.said
    assert "put it into a function" in found.said


def test_little_of_it_and_what_threads_and_libraries_do_is_no_finding() -> None:
    made = Made()
    made.stacks = [
        Stack("GET /q", "async quote (app/q.py:7);price (app/q.py:3)", 9 * MS),
        Stack("GET /r", "view (app/r.py:7);price (app/q.py:3)", 900 * MS),
        Stack("GET /s", "async view (app/s.py:7);async read (site-packages/aiohttp/x.py:3)", 900 * MS),
    ]
    assert on_the_loop(made) == []


def test_the_innermost_coroutine_of_the_application_is_the_one_to_change() -> None:
    found = own_coroutine(
        "async app (site-packages/x.py:1);async view (app/a.py:2);async part (app/a.py:9);f (app/a.py:4)"
    )
    assert found is not None
    assert (found[0].place, found[0].function, found[1]) == ("a.py:9", "part", "f")
