"""The site ends with the process that started it, however that ends."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from feed.running import ROOT, Process, command, started
from feed.site import Site
from greenlane_tools.lab.processes import descendants, found_by

pytestmark = pytest.mark.system


def family(pid: int) -> list[int]:
    """A process's children and theirs."""
    return descendants(pid)[1:]


def runs(pid: int) -> bool:
    """It is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pids: list[int]) -> bool:
    """Within 10 s none of them runs."""
    until = time.monotonic() + 10
    while any(map(runs, pids)) and time.monotonic() < until:
        time.sleep(0.02)
    return not any(map(runs, pids))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_of_a_site_or_its_service_outlives_them(
    number: int, folder: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    file = folder / f"site-{number}.json"
    # A relative folder, as the default is.
    items = len(site.world.catalogue)
    flags = ["--folder", ".", "--items", items, "--users", 5, "--addresses", file, "--model", site.model]
    another = Process([*command("feed.site"), *map(str, flags)], folder / "site.log", found_by(ROOT))
    processes = [another]
    try:
        until = time.monotonic() + 60
        while not file.exists():
            assert another.running() and time.monotonic() < until, another.log.read_text()
            time.sleep(0.05)
        service = started("pool", file, folder / "service.log", workers=2, deadline_ms=20_000)
        processes.append(service.process)
        answer = service.feed(3)
        assert answer["total"] > 50
        assert answer["degraded"] == []
        parts, workers = family(another.pid), family(service.process.pid)
        # Three shards, the history store, four models.
        assert (len(parts), len(workers)) == (8, 2)
        for process in processes:
            os.kill(process.pid, number)
        assert gone([another.pid, *parts, service.process.pid, *workers])
    finally:
        for process in processes:
            process.end()
