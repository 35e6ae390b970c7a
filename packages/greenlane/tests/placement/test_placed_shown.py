"""What was chosen for placed functions: on the control socket, in `greenlane top`, in metrics, after a restart."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from greenlane.export.prometheus import render
from greenlane.lanes.permits import LearnedRow
from greenlane_tools.cli import top
from tests.where import IMPORT_PATH

PROGRAM = """
import asyncio, os, sys
import greenlane
from greenlane.control import client as control

@greenlane.placed
def light(number):
    return number

@greenlane.placed(placement="process", name="pinned")
def pinned():
    return os.getpid()

async def main():
    for number in range(10):
        assert await light(number) == number
    assert await pinned() != os.getpid()
    process, = control.processes(sys.argv[1])
    return control.ask(process.socket, {"do": "show"})

if __name__ == "__main__":
    import json
    print(json.dumps(asyncio.run(main())))
"""


def shown(tmp_path: Path) -> Any:
    program, control = tmp_path / "program.py", tmp_path / "control"
    program.write_text(PROGRAM)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GREENLANE_")}
    environ |= {
        "PYTHONPATH": IMPORT_PATH,
        "GREENLANE_CONTROL_DIR": str(control),
        "GREENLANE_PROCESS_WORKERS": "1",
    }
    done = subprocess.run([sys.executable, program, control], env=environ, capture_output=True, text=True, timeout=60)
    assert (done.stderr, done.returncode) == ("", 0)
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_process_shows_what_it_has_chosen(tmp_path: Path) -> None:
    answer = shown(tmp_path)
    rows = {row["route"]: row for row in answer["learned"] if row.get("placement")}
    light, pinned = rows["run __main__.light"], rows["run pinned"]
    assert light["placement"] == "inline"
    assert "a loop bears it" in light["reason"]
    assert (pinned["placement"], pinned["reason"], pinned["pinned"]) == ("process", "pinned", True)
    assert answer["counters"]["placed_process"] == 1
    table = top.functions([answer])
    assert [(row["function"], row["placement"]) for row in table] == [
        ("__main__.light", "inline"),
        ("pinned", "process"),
    ]
    assert not [row for row in top.phases([answer]) if "light" in str(row["route"])]


def row(**more: Any) -> dict[str, Any]:
    known = {"route": "run quote", "phase": 0, "samples": 10, "expected_ms": 49.0, "weight": "heavy"}
    return {**known, "pinned": False, "released_frac": 0.0, "placement": "process", "reason": "well", **more}


def test_processes_that_differ_are_mixed_and_the_one_that_knows_most_gives_the_reason() -> None:
    other = row(samples=90, placement="thread", reason="better known", expected_ms=39.0)
    (merged,) = top.functions([{"learned": [row()]}, {"learned": [other]}])
    assert (merged["placement"], merged["reason"], merged["calls"]) == ("mixed", "better known", 100)
    assert merged["expected_ms"] == 40.0


def test_metrics_say_where() -> None:
    text = render({}, [LearnedRow(**row())])
    assert 'greenlane_learned_placement{route="run quote",phase="0",placement="process"} 1' in text
    assert "learned_placement" not in render({}, [LearnedRow(**row(placement="", reason=""))])
