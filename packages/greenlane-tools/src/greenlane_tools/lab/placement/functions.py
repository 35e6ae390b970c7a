"""What is placed: each function with what its user sends, and how much work that is."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from greenlane_tools.lab.placement import work

#: Of `python`, of `numpy` and of `sleep`.
_PYTHON_MS: Final = 300.0
_NUMPY_MS: Final = 5.0
NAP_MS: Final = 20.0
_TRIAL: Final = 200_000
_MORE: Final = 10
#: Time that the fastest try is looked for: longer than a neighbour's burst.
_LOOK_S: Final = 0.4


@dataclass(frozen=True)
class Amounts:
    """How much work makes up the times that functions are named with; the same for every contender of a run."""

    # Iterations of `python`.
    iterations: int
    # Passes of `numpy`.
    passes: int
    # File of the model of `catboost`; "" = there is none.
    model: str = ""


@dataclass(frozen=True)
class Function:
    """One function, as `--functions` names it."""

    name: str
    # One line for people.
    said: str
    # What one call takes alone on a machine like ours, ms: plans a run's length, is no measurement.
    about_ms: float
    # Gives the function and its arguments.
    made: Callable[[Amounts], tuple[Callable[..., Any], tuple[Any, ...]]]
    # Distribution that it needs besides those of the lab; "" = none.
    needs: str = ""
    # Whether it computes in Python: work done under a placement can then be compared with inline.
    computes: bool = False


_ALL: Final = (
    Function(
        "json", "json.loads of 3,000 items of 50 fields, 60 features of each in Python", 49,
        lambda amounts: (work.features, (work.items(),)), computes=True,
    ),
    Function(
        "numpy", "ufuncs over 3,000 × 60 float32", _NUMPY_MS,
        lambda amounts: (work.standardised, (work.table(), amounts.passes)),
    ),
    Function(
        "catboost", "prediction for 3,000 × 60 float32, 500 trees of depth 6", 2.3,
        lambda amounts: (work.scored, (work.table(), amounts.model)), needs="catboost",
    ),
    Function(
        "python", "a loop in Python", _PYTHON_MS,
        lambda amounts: (work.squares, (amounts.iterations,)), computes=True,
    ),
    Function("sleep", "a sleep in C without the GIL", NAP_MS, lambda amounts: (work.nap, (NAP_MS,))),
)  # fmt: skip
#: By name, in the order in which they are shown.
FUNCTIONS: Final[Mapping[str, Function]] = {function.name: function for function in _ALL}


def measured_amounts(functions: Collection[str], model: str = "") -> Amounts:
    """How much work makes 300 ms of `python` and 5 ms of `numpy` here, by the fastest of many tries; about 1 s.

    Args:
        functions: names; of others nothing is counted.
    """
    iterations = _iterations() if "python" in functions else 1
    return Amounts(iterations, _passes() if "numpy" in functions else 1, model)


def _iterations() -> int:
    return round(_TRIAL * _PYTHON_MS / _fastest_ms(lambda: work.squares(_TRIAL)))


def _passes() -> int:
    values = work.table()
    one_ms = _fastest_ms(lambda: work.standardised(values, 1))
    more_ms = _fastest_ms(lambda: work.standardised(values, _MORE))
    # A call costs more than its passes: the memory of its result is new each time.
    pass_ms = (more_ms - one_ms) / (_MORE - 1)
    return max(1, 1 + round((_NUMPY_MS - one_ms) / pass_ms))


def _fastest_ms(once: Callable[[], object]) -> float:
    """In CPU time, which a neighbour inflates less."""
    found: list[float] = []
    until_s = time.monotonic() + _LOOK_S
    while not found or time.monotonic() < until_s:
        begun_ns = time.thread_time_ns()
        once()
        found.append((time.thread_time_ns() - begun_ns) / 1e6)
    return min(found)
