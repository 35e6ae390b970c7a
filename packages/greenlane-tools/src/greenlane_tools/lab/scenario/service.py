"""A process that a scenario starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from greenlane.settings.setting import declare
from greenlane_tools.lab.scenario.patterns import MAYBE_PATH, NAME, TEXT

__all__ = ["Service"]


@dataclass(frozen=True)
class Service:
    """`[[service]]`: started in the order of the file; the first that is not shared is what the load asks."""

    name: str = declare("", "How other parts of the scenario refer to it.", reason="each has one", pattern=NAME)
    command: tuple[str, ...] = declare(
        (),
        "Its argument vector. Braces stand for what is known only when it starts: see Placeholders.",
        reason="nothing can be started without one",
        pattern=TEXT,
    )
    files: tuple[str, ...] = declare(
        (),
        "Files and folders, relative to the scenario's own, that are copied into the temporary folder it runs in.",
        reason="a program that is installed needs none",
        pattern=TEXT,
    )
    env: Mapping[str, str] = declare(
        {}, "Added to the environment of the lab. Braces as in `command`.", reason="most need none"
    )
    listen: str = declare(
        "tcp", "What it listens on: a port of 127.0.0.1, or a Unix socket.", reason="usual", choices=("tcp", "unix")
    )
    ready: str = declare(
        "",
        "A path that it must answer below 500 before the load begins; nothing = it accepts connections.",
        reason="enough for a server that listens when it can serve",
        pattern=MAYBE_PATH,
    )
    ready_s: float = declare(
        20.0, "How long it may take until then.", reason="imports on a busy machine", unit="s", low=0.1, high=600.0
    )
    shared: bool = declare(
        False,
        "One process for all contenders, whose CPU and memory are not theirs: an upstream service, a database.",
        reason="what is measured belongs to its contender",
    )
