"""What is claimed of placement beside a loop: `@greenlane.placed` against each placement that is fixed.

Question: does a function that is placed by choice take as long as in the best fixed placement, and does its loop keep
turning? Expected: p50 within 10 % on each function, heartbeat within 2 ms of that placement's; the native thread adds
at most 5 ms to the heartbeat beside 4 callers that compute in Python, for 0.98 of the work that inline does.

It runs `greenlane_tools.lab.placement` (docs/lab.md): 4 callers, no rivals.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.claims import Claim, of_verdicts
from greenlane_tools.lab.placement import cells
from greenlane_tools.lab.placement.contenders import CONTENDERS, FIXED, OURS, needs_of
from greenlane_tools.lab.placement.functions import FUNCTIONS, Function, measured_amounts
from greenlane_tools.lab.placement.perform import trained, verdicts_of

REPETITIONS = 5
_CALLERS = 4
_CALLS_S = 3.0
_LEAST_CALLS = 20
#: One call of it into C keeps the GIL for 25 ms: no thread can help its loop, and nothing is claimed of one.
_KEEPS_GIL = "json"


def expected_s(quick: bool) -> float:
    """How long the runs take on an idle machine."""
    return cells.expected_all_s(_cells(quick), _repetitions(quick))


def measure(quick: bool) -> list[dict[str, Any]]:
    """Runs everything; gives verdicts as they can be stored."""
    every = _cells(quick)
    with tempfile.TemporaryDirectory(prefix="gl-prove-") as folder:
        asked = {cell.function.name for cell in every if cell.function is not None}
        amounts = measured_amounts(asked, str(trained(Path(folder))) if "catboost" in asked else "")
        measured = cells.measure(
            every, amounts, loop="asyncio", repetitions=_repetitions(quick), progress=_progress(every, quick)
        )
    return [{**one.row(), "function": one.function} for one in verdicts_of(measured)]


def claims(verdicts: Sequence[Mapping[str, Any]]) -> list[Claim]:
    """What is claimed of them."""
    named = [
        {**one, "text": f"{one['function']}: {one['text']}"}
        for one in verdicts
        if not (one["function"] == _KEEPS_GIL and one["text"].startswith("thread: heartbeat"))
    ]
    return of_verdicts("placement", named, digits=2)


def _cells(quick: bool) -> list[cells.Cell]:
    functions = [one for one in FUNCTIONS.values() if not needs_of(one.needs)]
    chosen = [CONTENDERS[name] for name in (*FIXED, OURS)]

    def calls_of(function: Function) -> int:
        return _LEAST_CALLS if quick else max(_LEAST_CALLS, round(_CALLS_S * 1000 / function.about_ms))

    return cells.cells_of(functions, chosen, [_CALLERS], "asyncio", calls_of)


def _repetitions(quick: bool) -> int:
    return 1 if quick else REPETITIONS


def _progress(every: Sequence[cells.Cell], quick: bool) -> Any:
    total = len(every) * _repetitions(quick)

    def tell(number: int, cell: cells.Cell) -> None:
        name = "heartbeat" if cell.function is None else cell.function.name
        print(f"  {number + 1}/{total} {name}, {cell.contender.name}", file=sys.stderr, flush=True)

    return tell
