"""An expectation that a run can check.

bikes.within_deadline_frac >= 0.999 for greenlane
quote.p99_ms <= 1.25 * gevent for greenlane at 0.9
probe.p99_ms <= 50 for server by h2load
all.errors == 0 for greenlane in surge
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["FIELDS", "FORM", "RELATIONS", "Bound", "parsed"]

FORM: Final = "CLASS.FIELD >=|<=|== NUMBER [* CONTENDER] for CONTENDER [at LEVEL] [in PHASE] [by TOOL]"
#: Fields of a row that are numbers.
FIELDS: Final = (
    *("offered_per_s", "done_per_s", "within_deadline_frac", "p50_ms", "p95_ms", "p99_ms", "p999_ms", "samples"),
    *("cpu_ms_per_job", "cpu_utilisation_frac", "pss_mb", "errors", "lost"),
)
RELATIONS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
}
_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_FORM: Final = re.compile(
    rf"(?P<endpoint>[A-Za-z0-9][A-Za-z0-9_-]*)\.(?P<field>\w+)\s*(?P<relation>>=|<=|==)\s*"
    rf"(?P<number>[0-9.]+(?:e-?[0-9]+)?)(?:\s*\*\s*(?P<rival>{_NAME}))?\s+for\s+(?P<contender>{_NAME})"
    rf"(?:\s+at\s+(?P<level>x?[0-9.]+))?(?:\s+in\s+(?P<phase>{_NAME}))?(?:\s+by\s+(?P<tool>{_NAME}))?"
)


@dataclass(frozen=True)
class Bound:
    """One of them, read."""

    text: str
    # A class, or "all".
    endpoint: str
    field: str
    relation: str
    number: float
    contender: str
    # The number is a factor of this contender's value; "" = it is the bound itself.
    rival: str
    # The label of a level; "" = each level.
    level: str
    # "" = the whole run.
    phase: str
    # A closed-loop tool; "" = the open loop.
    tool: str


def parsed(text: str) -> Bound | None:
    """What the text says; None = it is not of that form, or names a field that rows have not."""
    found = _FORM.fullmatch(text.strip())
    if found is None or found["field"] not in FIELDS:
        return None
    try:
        number = float(found["number"])
    except ValueError:
        return None
    part = {name: value or "" for name, value in found.groupdict().items() if name not in ("number", "field")}
    return Bound(text=text, field=found["field"], number=number, **part)
