"""A lane as the settings have it: which jobs are its own, and their common rule."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from greenlane.errors import SettingsError
from greenlane.settings.patterns import GLOB, LANE_NAME
from greenlane.settings.setting import Setting, checked, declarations, declare

__all__ = ["APART", "LANE_KEYS", "Lane"]

#: The lane of `greenlane serve` for routes that compute for long, where no lanes are declared.
APART: Final = "apart"


@dataclass(frozen=True)
class Lane:
    """Jobs with a common rule, from a `[lanes.NAME]` table. The first lane that matches a job is its lane."""

    name: str
    match: tuple[str, ...] = declare(
        (), "Globs (`*`, `?`, `[ab]`; case counts) on the route as the framework names it, or on the path.",
        pattern=GLOB, reason="A lane without a match would be empty.",
    )  # fmt: skip
    weight: str = declare(
        "auto", "Treat every phase of the lane as heavy, light or native (without the GIL); `auto` = as learned.",
        choices=("heavy", "light", "native", "auto"), reason="Measurements follow the code; a pin does not.",
    )  # fmt: skip
    deadline_ms: float = declare(
        0.0, "Deadline from arrival; a sooner one of the request wins. 0 = none.",
        unit="ms", low=0, high=3_600_000, reason="Only the owner of the service knows how long callers wait.",
    )  # fmt: skip
    mode: str = declare(
        "", "Mode of the lane's jobs; '' = that of the service.",
        choices=("", "on", "observe", "off"), reason="One mode for all, unless told otherwise.",
    )  # fmt: skip
    limit: int = declare(
        0, "Concurrency limit of the lane in a process, over which requests are refused with 503; 0 = none.",
        low=0, high=1_000_000, reason="A wrong limit refuses requests that would have succeeded.",
    )  # fmt: skip
    headers: Mapping[str, str] = declare(
        {}, "Request headers that must match too: NAME = glob. Only `greenlane serve` sees them.",
        pattern=GLOB, reason="Most lanes are recognised by their path.",
    )  # fmt: skip
    kind: str = declare(
        "soft", "Under `greenlane serve`: `soft` = the lane may use every shared worker; `hard` = only its own "
        "workers.",
        choices=("soft", "hard"), reason="A lane's own worker is idle whenever the lane is.",
    )  # fmt: skip
    processes: int = declare(
        0, "Workers, out of `workers`, that `greenlane serve` reserves for the lane; 0 = none.",
        low=0, high=1024, reason="Reserved workers are lost to the others while the lane is idle.",
    )  # fmt: skip
    priority: int = declare(
        0, "In the queue of `greenlane serve`, requests of a higher priority go first.",
        low=-1000, high=1000, reason="First come, first served, unless told otherwise.",
    )  # fmt: skip
    at_once: int = declare(
        0, "Concurrency limit of the lane over all workers of `greenlane serve`; further requests wait. 0 = none.",
        low=0, high=1_000_000, reason="Only the lane's owner knows how much it may use.",
    )  # fmt: skip

    def __post_init__(self) -> None:
        lane = f"lanes.{self.name}"
        if not isinstance(self.name, str) or not re.fullmatch(LANE_NAME[0], self.name):
            raise SettingsError(lane, self.name, "a name of " + LANE_NAME[1], "rename the lane")
        for key in LANE_KEYS.values():
            value = checked(key, getattr(self, key.name), name=f"{lane}.{key.name}")
            object.__setattr__(self, key.name, value)
        if not self.match:
            hint = f'add match = ["/path*"] to [{lane}]'
            raise SettingsError(f"{lane}.match", [], "at least one glob", hint)

    def matches(self, route: str, path: str) -> bool:
        """Whether a job of this route ("GET /bikes/<id>"; "" = not resolved) or raw path belongs to the lane."""
        if self.headers:
            return False  # the front's to judge: nobody tells a process what the headers were
        return any(fnmatch.fnmatchcase(route, glob) or fnmatch.fnmatchcase(path, glob) for glob in self.match)


# By name, in the order of the documentation.
LANE_KEYS: Final[Mapping[str, Setting]] = declarations(Lane)
