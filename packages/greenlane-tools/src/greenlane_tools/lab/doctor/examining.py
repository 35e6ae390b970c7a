"""All rules of a subject's server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from greenlane_tools.lab.doctor import rules_click, rules_gunicorn
from greenlane_tools.lab.doctor.subject import SERIOUS, Finding, Subject

_RULES: Final[Mapping[str, Sequence[Callable[[Subject], Finding | None]]]] = {
    "gunicorn": rules_gunicorn.RULES,
    "uvicorn": rules_click.UVICORN,
    "granian": rules_click.GRANIAN,
}
_ORDER: Final = (*SERIOUS, "is not what it seems", "note")


def examined(subject: Subject) -> list[Finding]:
    """What the rules find, the worst first."""
    found = [finding for rule in _RULES[subject.server] if (finding := rule(subject)) is not None]
    return sorted(found, key=lambda finding: _ORDER.index(finding.verdict))
