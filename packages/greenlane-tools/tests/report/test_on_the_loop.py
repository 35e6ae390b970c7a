"""CPU work in a coroutine is named by a report with the line to move."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.record.command import JOBS, greenlane, recorded

from greenlane_tools.report.culprits import own_coroutine
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


@pytest.mark.slow
def test_a_recording_of_a_loop_names_the_line_of_the_coroutine_and_what_to_write(tmp_path: Path) -> None:
    (tmp_path / "service.py").write_text(JOBS + PROGRAM)
    assert greenlane("record", "-o", "r.glr", "--", sys.executable, "service.py", cwd=tmp_path).code == 0
    stacks = [row.stack for row in recorded(tmp_path).stacks if row.culprit == "GET /quote"]
    assert any("async quote (" in stack and ";price (" in stack for stack in stacks)
    verdict = study_of(recorded(tmp_path)).verdict
    line = 1 + (JOBS + PROGRAM).splitlines().index("            price(time.monotonic() + 0.03)  # the line to move")
    assert (verdict.kind, verdict.remedy.key) == ("loop", "off_loop")
    assert verdict.victim is not None and verdict.victim.route == "GET /bike"
    assert f"service.py:{line - 10}" not in verdict.line and "on which GET /quote computes" in verdict.sentence
    assert "await greenlane.run(price, …)" in verdict.remedy.text


def test_the_innermost_coroutine_of_the_application_is_the_one_to_change() -> None:
    found = own_coroutine(
        "async app (site-packages/x.py:1);async view (app/a.py:2);async part (app/a.py:9);f (app/a.py:4)"
    )
    assert found is not None
    assert (found[0].place, found[0].function, found[1]) == ("a.py:9", "part", "f")
