"""A service that was started: the process, and questions to it."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from feed.children import Process, command
from feed.service.application import DEADLINE_HEADER
from greenlane_tools.lab.processes import free_port


@dataclass(frozen=True)
class Running:
    """One of our services.

    Args:
        process: its process; workers are its children.
        port: where it listens.
        deadline_ms: of questions that name none.
    """

    process: Process
    port: int
    deadline_ms: float

    def get(self, path: str, deadline_ms: float = 0) -> dict[str, Any]:
        """The answer's JSON.

        Raises:
            HTTPError: a status other than 200.
        """
        headers = {DEADLINE_HEADER: str(deadline_ms or self.deadline_ms)}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", headers=headers)
        with urllib.request.urlopen(request, timeout=60) as response:
            found: dict[str, Any] = json.load(response)
            return found

    def feed(self, user: int, deadline_ms: float = 0) -> dict[str, Any]:
        """A user's whole feed, with its stages."""
        return self.get(f"/feed?user={user}&stages=1", deadline_ms)

    def status(self, path: str) -> int:
        """The answer's status, whichever it is."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=60) as response:
                return int(response.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code


def started(
    variant: str,
    addresses: Path,
    log: Path,
    *,
    workers: int = 3,
    deadline_ms: float = 500.0,
    options: Sequence[str] = (),
    settings: Mapping[str, str] | None = None,
) -> Running:
    """A service in a variant, when it listens.

    Args:
        variant: one of variants.table.VARIANTS.
        addresses: the site's file.
        log: where it writes what it has to say.
        workers: worker processes, for variants that have them.
        deadline_ms: of questions.
        options: further arguments of `python -m feed.service`.
        settings: variables of its environment.
    """
    port = free_port()
    arguments = ["--variant", variant, "--addresses", addresses, "--port", port, "--workers", workers, *options]
    process = Process([*command("feed.service"), *map(str, arguments)], log, settings)
    process.wait_for_port(port, 60)
    return Running(process, port, deadline_ms)
