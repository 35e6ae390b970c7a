"""The result of a situation: what its clients saw, and the rows of `greenlane report --json`."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.oncall.load import Clients
from tests.oncall.situation import SITUATIONS, run

Row = dict[str, Any]
#: Who took time on a machine that has other things to do: no statement about the service.
_ELSEWHERE = ("os", "gc")


@dataclass(frozen=True)
class Evidence:
    """One recorded run."""

    clients: Clients
    #: What the service and `greenlane record` wrote.
    output: str
    file: Path
    rows: list[Row]
    #: What the report begins with.
    verdict: Row

    def view(self, name: str, /, **wanted: object) -> list[Row]:
        """Rows of one view, with these values."""
        return [row for row in self.rows if row["view"] == name and wanted.items() <= row.items()]

    def one(self, name: str, /, **wanted: object) -> Row:
        """The only such row."""
        found = self.view(name, **wanted)
        assert len(found) == 1, f"{name} {wanted}: {found}"
        return found[0]

    def finding(self, name: str) -> str:
        """What is said of it; "" = nothing was found."""
        return " ".join(str(row["said"]) for row in self.view("finding", name=name))

    def culprits(self, victim: str, kind: str | None = None) -> dict[str, float]:
        """Culprit -> share of the victim's wait for the service itself, without what the machine took; most first."""
        rows = [row for row in self.view("blame", victim=victim) if row["culprit"] not in _ELSEWHERE]
        rows = [row for row in rows if kind in (None, row["kind"])]
        whole = sum(row["wait_ms"] for row in rows)
        total: dict[str, float] = {}
        for row in rows:
            total[row["culprit"]] = total.get(row["culprit"], 0.0) + row["wait_ms"] / whole
        return dict(sorted(total.items(), key=lambda item: -item[1]))

    def counted(self, route: str, path: str) -> None:
        """As many jobs of the route as its clients had answers."""
        assert self.one("route", route=route)["samples"] == len(self.clients.of(path)), self.view("note")


def gathered(name: str, file: Path) -> Evidence:
    """Runs the situation under `greenlane record`, then `greenlane report --json`."""
    seen = run(SITUATIONS[name], file)
    assert file.exists(), seen.output
    document = json.loads(report(file, "--json"))
    return Evidence(seen.clients, seen.output, file, document["rows"], document["verdict"])


def report(file: Path, *options: str) -> str:
    """stdout of `greenlane report`."""
    command = [str(Path(sys.executable).with_name("greenlane")), "report", str(file), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return str(done.stdout)
