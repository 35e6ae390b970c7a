"""docs/part3.ipynb runs from top to bottom, and holds a whole run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.where import ROOT

MAKER = ROOT / "scripts" / "part3_notebook.py"

pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")


def test_the_committed_notebook_holds_a_whole_run() -> None:
    committed = json.loads((ROOT / "docs" / "part3.ipynb").read_text(encoding="utf-8"))
    outputs = [output for cell in committed["cells"] for output in cell.get("outputs", ())]
    assert len([output for output in outputs if "image/svg+xml" in output.get("data", {})]) == 4
    assert not [output for output in outputs if output["output_type"] == "error"]


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.timeout(300)  # some thirty programs are started; a machine with other work takes its time
def test_every_cell_of_the_notebook_runs(tmp_path: Path) -> None:
    # In a process of its own: Jupyter's own warnings are not ours, nor are its threads.
    made = tmp_path / "part3.ipynb"
    command = [sys.executable, str(MAKER), "--requests", "6", "--output", str(made)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    cells = json.loads(made.read_text(encoding="utf-8"))["cells"]
    ran = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in ran] == list(range(1, len(ran) + 1))
    assert all(cell["outputs"] for cell in ran[2:])
