"""Runs docs/part3.ipynb, the article's story by both clocks, and keeps the figures of this machine in it.

    python scripts/part3_notebook.py [--requests 300] [--output docs/part3.ipynb]

Edit its cells in Jupyter. About a minute with 300 requests; let the machine have nothing else to do.
Exit 0: every cell ran, the notebook is written. Exit 1: a cell failed, nothing is written.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

import nbclient
import nbformat

ROOT: Final = Path(__file__).resolve().parent.parent
NOTEBOOK: Final = ROOT / "docs" / "part3.ipynb"
#: A run of the largest cell takes seconds; a machine with six other jobs is allowed ten times that.
_CELL_S: Final = 300


def main(argv: list[str]) -> int:
    """Run every cell and write the notebook."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=300, help="requests of each run (300)")
    parser.add_argument("--output", type=Path, default=NOTEBOOK)
    given = parser.parse_args(argv)
    made = nbformat.read(NOTEBOOK, as_version=4)
    (parameters,) = (cell for cell in made["cells"] if "parameters" in cell["metadata"].get("tags", ()))
    parameters["source"] = f"# Of each run; fewer is faster and less exact.\nrequests = {given.requests}"
    client = nbclient.NotebookClient(
        made, timeout=_CELL_S, kernel_name="python3", resources={"metadata": {"path": ROOT}}
    )
    try:
        client.execute()
    except nbclient.exceptions.CellExecutionError as error:
        print(error, file=sys.stderr)
        return 1
    for cell in made["cells"]:
        cell["metadata"].pop("execution", None)  # when it ran
    nbformat.validate(made)
    given.output.write_text(nbformat.writes(made) + "\n", encoding="utf-8")
    print(f"{given.output}: {len(made['cells'])} cells")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
