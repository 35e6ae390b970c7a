"""`greenlane lab accept`: which worker gets the connection, by server, version, socket and option."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from greenlane.cli.command import Command
from greenlane_tools.lab.accept.contenders import SERVERS, Family
from greenlane_tools.lab.arguments import each_of, path, switch, whole
from greenlane_tools.lab.experiment.command import measuring


@dataclass(frozen=True)
class Options:
    """As the flags name them."""

    servers: tuple[str, ...] | None = each_of((*SERVERS, "help"), "which servers; `help` lists them")
    sockets: tuple[Family, ...] | None = each_of(("tcp", "unix"), "on which sockets")
    workers: int = whole(4, 1, 16, "of each server")
    quick: bool = switch("less of everything, keep-alive 1 s instead of 5 s")
    json: bool = switch("one JSON object on stdout in place of the tables")
    out: Path = path("out/lab/accept", "results")
    environments: Path = path("out/lab/environments", "virtual environments of the servers, made once")


COMMAND: Final[Command] = measuring(
    "accept", "show which worker gets the connection: servers, sockets, options", Options, "measure who accepts",
    "greenlane_tools.lab.accept.runner", ("greenlane lab accept --quick", "greenlane lab accept --servers help"),
)  # fmt: skip
