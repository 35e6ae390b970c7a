"""One way to serve."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from greenlane.settings.setting import declare
from greenlane_tools.lab.scenario.patterns import MAYBE_NAME, NAME, TEXT

__all__ = ["Contender"]


@dataclass(frozen=True)
class Contender:
    """`[[contender]]`: the services that are not shared, with what differs. All meet the same requests, in turns."""

    name: str = declare("", "The `contender` of its rows.", reason="each has one", pattern=NAME)
    arguments: tuple[str, ...] = declare(
        (), "Put in place of `{arguments}` in the service's command.", reason="the command as it stands"
    )
    env: Mapping[str, str] = declare({}, "Added to the service's environment.", reason="most need none")
    command: tuple[str, ...] = declare(
        (), "In place of the service's command; none = unchanged.", reason="the same program", pattern=TEXT
    )
    service: str = declare(
        "", "Whose command and environment differ; nothing = the one that the load asks.", reason="it is in question",
        pattern=MAYBE_NAME,
    )  # fmt: skip
    apart: tuple[str, ...] = declare(
        (),
        "Classes that a second process of that service serves, by itself.",
        reason="one process for all",
        pattern=NAME,
    )
