"""The typed face of greenlane-policy's decisions; no rule of its own."""

from greenlane.policy.placed import CallRule, ChoiceRule, QueueRule, workers_of
from greenlane.policy.rule import WAIT_MIN_MS, PermitRule, permits_of
from greenlane.policy.serving import ApartRule, AtOnceRule, ShedRule

__all__ = [
    "WAIT_MIN_MS",
    "ApartRule",
    "AtOnceRule",
    "CallRule",
    "ChoiceRule",
    "PermitRule",
    "QueueRule",
    "ShedRule",
    "permits_of",
    "workers_of",
]
