"""A service under measurement: what its clocks and counters say now, and what they counted between two looks."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from feed.running import Running, started
from feed.site import Site
from greenlane.control import client as control
from greenlane_tools.lab import processes
from greenlane_tools.lab.ending import checkpoint
from greenlane_tools.lab.processes import StartFailed

# Nobody is degraded for want of time while CPU is compared: an answer that lacks its ranking would be cheap.
PATIENT_MS = 20_000.0


@dataclass(frozen=True)
class Look:
    """Counters at one moment.

    Args:
        at_s: CLOCK_MONOTONIC.
        totals: the service's own.
        main_ns: CPU of the process that serves.
        workers_ns: CPU of its other processes.
        workers_moved: bytes that those read and wrote through pipes and files.
        busy_ns: CPU of the whole machine.
        ours_ns: CPU of the demo with all that it started.
        site_ns: CPU of the site's processes by part: history, models, shards.
    """

    at_s: float
    totals: Mapping[str, Any]
    main_ns: int
    workers_ns: int
    workers_moved: int
    busy_ns: int
    ours_ns: int
    site_ns: Mapping[str, int]


@dataclass(frozen=True)
class Usage:
    """What was used between two looks. CPU in ms.

    Args:
        seconds: between them.
        requests: that the service answered.
        main_ms: CPU of the process that serves; `workers_ms` of its others.
        path_ms: CPU of the ranking path, workers included; means something when requests came one at a time.
        machine_ms: CPU of the whole machine; `others_ms` of what is not ours.
        bytes_moved: between the service and processes that compute for it.
        problems: parts that the service had to do without, over all requests; `reasons` by what it said.
        stages: cpu_ms, io_ms, wait_ms, wait_most_ms of each stage, over all requests.
        rounds: of the loop: class -> (rounds, ns).
        site_ms: CPU of the site's processes by part; all of it is for this service, since load comes to one at a time.
    """

    seconds: float
    requests: int
    main_ms: float
    workers_ms: float
    path_ms: float
    machine_ms: float
    others_ms: float
    bytes_moved: int
    problems: int
    reasons: dict[str, int]
    stages: dict[str, dict[str, float]]
    rounds: dict[str, tuple[int, int]]
    site_ms: dict[str, float]

    def plain(self) -> dict[str, Any]:
        """As JSON knows it."""
        return asdict(self)


class Subject:
    """One started service."""

    def __init__(self, variant: str, running: Running, control: Path, site: Site) -> None:
        self._site = site
        self.variant = variant
        self.running = running
        self._control = control
        self.address = f"127.0.0.1:{running.port}"

    def pids(self) -> list[int]:
        """The process that serves, then its others."""
        return processes.descendants(self.running.process.pid)

    def pss_mb(self) -> float:
        """Memory of them all, shared pages divided among those who share them."""
        return processes.pss_mb(self.pids())

    def look(self) -> Look:
        """Reads every counter. Costs the service one small request."""
        totals = self.running.get("/totals")
        main, *workers = self.pids()
        moved = _moved(workers) if "executor" in totals["stages"] and not totals["bytes_moved"] else 0
        return Look(
            time.monotonic(), totals, processes.cpu_ns([main]), processes.cpu_ns(workers), moved,
            processes.machine_busy_ns(), processes.family_ns(),
            {part: processes.cpu_ns(pids) for part, pids in self._site.pids().items()},
        )  # fmt: skip

    def feed(self, user: int, path: str = "/feed?user={}") -> dict[str, Any]:
        """An answer, waited for with patience."""
        checkpoint()
        return self.running.get(path.format(user), PATIENT_MS)

    def placements(self) -> list[dict[str, Any]]:
        """What Greenlane has chosen for the functions that it places, and why; empty where it places none."""
        found = []
        for process in control.processes(self._control):
            shown = control.ask(process.socket, {"do": "show"})["learned"]
            found += [
                {"function": row["route"].removeprefix("run "), **{name: row[name] for name in ("placement", "reason")}}
                for row in shown
                if row.get("placement")
            ]
        return found

    def end(self) -> None:
        """Ends it with all its processes."""
        self.running.process.end()


def between(before: Look, after: Look) -> Usage:
    """What was used from one look to the next."""
    old, new = before.totals, after.totals
    workers_ms = max(0, after.workers_ns - before.workers_ns) / 1e6
    machine_ms = (after.busy_ns - before.busy_ns) / 1e6
    moved = new["bytes_moved"] - old["bytes_moved"] + after.workers_moved - before.workers_moved
    return Usage(
        seconds=after.at_s - before.at_s,
        requests=new["requests"] - old["requests"],
        main_ms=(after.main_ns - before.main_ns) / 1e6,
        workers_ms=workers_ms,
        path_ms=new["path_cpu_ms"] - old["path_cpu_ms"] + workers_ms,
        machine_ms=machine_ms,
        others_ms=max(0.0, machine_ms - (after.ours_ns - before.ours_ns) / 1e6),
        bytes_moved=max(0, moved),
        problems=sum(new["problems"].values()) - sum(old["problems"].values()),
        reasons={
            reason: many for reason, now in new["reasons"].items() if (many := now - old["reasons"].get(reason, 0))
        },
        stages=_stages(old["stages"], new["stages"]),
        rounds=_rounds(old.get("rounds", []), new.get("rounds", [])),
        # A part that was restarted counts from 0 again.
        site_ms={part: max(0, ns - before.site_ns.get(part, 0)) / 1e6 for part, ns in after.site_ns.items()},
    )


@contextmanager
def serving(variant: str, site: Site, logs: Path, workers: int) -> Iterator[Subject]:
    """A service in a variant; it ends with the block.

    Raises:
        StartFailed: it did not start, or ended within the block.
    """
    checkpoint()
    addresses = logs / "site.json"
    site.addresses.write(addresses)
    sockets = logs / f"{variant}-control"
    sockets.mkdir(mode=0o700, exist_ok=True)
    running = started(
        variant, addresses, logs / f"{variant}.log", workers=workers, deadline_ms=PATIENT_MS,
        settings={"GREENLANE_CONTROL_DIR": str(sockets)},
    )  # fmt: skip
    subject = Subject(variant, running, sockets, site)
    try:
        yield subject
    except (OSError, ValueError) as error:
        if running.process.running():
            raise
        said = running.process.log.read_text(errors="replace")[-2_000:]
        raise StartFailed(f"measuring {variant}: its service has ended; it said:\n{said}") from error
    finally:
        subject.end()


def _moved(pids: list[int]) -> int:
    """Bytes that went through read(2) and write(2) of these processes: their pipes."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            lines = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
            total += int(lines["rchar"]) + int(lines["wchar"])
    return total


_PARTS = ("wall_ms", "cpu_ms", "io_ms", "wait_ms", "wait_most_ms")


def _stages(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    nothing = dict.fromkeys(_PARTS, 0.0)
    return {
        name: {
            part: max(0.0, row[part] - old.get(name, nothing).get(part, 0.0)) for part in _PARTS if part in row
        }
        for name, row in new.items()
    }  # fmt: skip


def _rounds(old: list[list[int]], new: list[list[int]]) -> dict[str, tuple[int, int]]:
    before = {place: (count, ns) for place, count, ns in old}
    found = {}
    for place, count, ns in new:
        was = before.get(place, (0, 0))
        if count > was[0]:
            found[str(place)] = (count - was[0], ns - was[1])
    return found
