"""A verdict on one setting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

__all__ = ["SERIOUS", "Finding", "Verdict"]

Verdict = Literal["does not start", "does nothing", "harms", "is not what it seems", "note"]

#: Verdicts for which `--strict` fails: what is set does not do what it was set for.
SERIOUS: Final[tuple[Verdict, ...]] = ("does not start", "does nothing", "harms")


@dataclass(frozen=True)
class Finding:
    """One setting of a command."""

    # As the server's own configuration calls it.
    setting: str
    value: object
    verdict: Verdict
    # Why, in one or two sentences.
    because: str
    # One action.
    remedy: str
    # What it rests on: the installed source, the kernel, a run.
    evidence: str
    # Who set it.
    origin: str = "default"
