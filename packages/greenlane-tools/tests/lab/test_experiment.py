"""What measuring commands share: turns, one run in a process, a result that is told whatever happens to the disk."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from greenlane.cli.output import Output
from greenlane.errors import GreenlaneError
from greenlane_tools.lab.experiment.program import ended, in_turns
from greenlane_tools.lab.experiment.result import Result, Table
from greenlane_tools.lab.verdict import Verdict

ROWS = [{"contender": "greenlane", "ms": 1.5}]
RESULT = Result(
    "lab.tried", "Tried", ROWS, [Table("All", ROWS)],
    {"cores": 2}, claims=[Verdict("p50", 1.5, 1.0, 2.0, "<=", 3.0)], warnings=["one <run>"],
    samples=lambda: {"ms": [1.5]}, more={"verdicts": []},
)  # fmt: skip


def order(repetitions: int) -> list[str]:
    found: list[str] = []
    runs = in_turns(["a1", "b1", "a2", "b2"], found.append, repetitions=repetitions, block_of=lambda cell: cell[0])
    assert {cell: len(some) for cell, some in runs.items()} == dict.fromkeys(["a1", "b1", "a2", "b2"], repetitions)
    return found


def test_every_cell_runs_once_a_repetition_and_blocks_stay_together() -> None:
    found = order(3)
    assert [cell[0] for cell in found] == list("aabb") * 3
    assert found == order(3)


@pytest.mark.slow
def test_a_program_leaves_its_result_or_a_reason() -> None:
    leaves = "import json, sys; json.dump({'n': 1}, open(sys.argv[1], 'w'))"
    found = ended(lambda folder, result: ([sys.executable, "-c", leaves, str(result)], {}), 60)
    assert (found.result, found.failed) == ({"n": 1}, "")
    fails = ended(lambda folder, result: ([sys.executable, "-c", "raise SystemExit('no luck')"], {}), 60)
    assert (fails.result, fails.failed) == (None, "it ended without a result; it said: no luck")
    assert ended(lambda folder, result: (["/no/such"], {}), 60).failed.startswith("not started (")


def test_a_result_is_text_and_one_object_and_a_page(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    output = Output(io.StringIO(), io.StringIO())
    assert RESULT.show(tmp_path, "try", output, as_json=False) == 0
    said = output.out.getvalue()  # type: ignore[attr-defined]
    assert "greenlane  1.5" in said and "p50: 1.5 [1, 2] ≤ 3: holds" in said
    assert {path.name for path in tmp_path.iterdir()} == {"samples.parquet", "rows.json", "page.html"}
    assert json.loads((tmp_path / "rows.json").read_text())["schema"] == "greenlane.lab.tried/1"
    page = (tmp_path / "page.html").read_text()
    assert "1 of 1 claims hold" in page and "One &lt;run&gt;" in page


def test_what_was_measured_is_told_when_it_cannot_be_written(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    output = Output(io.StringIO(), io.StringIO())
    with pytest.raises(GreenlaneError, match="a folder that can be written"):
        RESULT.show(tmp_path / "missing", "try", output, as_json=True)
    assert json.loads(output.out.getvalue())["rows"] == ROWS  # type: ignore[attr-defined]
