"""Closed-loop tools: clients that wait for their answer before they ask again, and time it from when they asked.

What was due while they waited is never sent, so a stall is as many slow requests as there are clients. h2load and ab
say just that; wrk 4.1 adds the samples that it thinks it has missed to its percentiles.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from typing import Final

from greenlane.errors import HostError
from greenlane_tools.lab.load import closed as load_closed
from greenlane_tools.lab.processes import die_with_parent
from greenlane_tools.lab.run.rows import Closed
from greenlane_tools.lab.run.server import UNIX, child_environment
from greenlane_tools.lab.scenario.parts import H2LOAD, RequestClass
from greenlane_tools.lab.scenario.scenario import Scenario
from greenlane_tools.lab.statistics import quantile

_MS: Final[Mapping[str, float]] = {"us": 0.001, "ms": 1.0, "s": 1_000.0, "m": 60_000.0}
#: How long a tool may take beyond the run.
_GRACE_S: Final = 30.0


def tools(scenario: Scenario) -> list[str]:
    """Tools that the scenario names and that are run here."""
    return [tool for tool in scenario.contrast.tools if shutil.which(tool)]


def missing(scenario: Scenario) -> list[str]:
    """Programs that the scenario names and this machine has not."""
    return [tool for tool in scenario.contrast.tools if shutil.which(tool) is None]


def closed_loop(
    tool: str, scenario: Scenario, addresses: Callable[[str], str], began: Callable[[], None]
) -> Closed | None:
    """Runs one of `tools` for as long as a run; None = it cannot reach the address, failed, or prints otherwise.

    Args:
        addresses: where a class is served.
        began: called when it begins to send.
    """
    chosen = scenario.contrast.endpoint or scenario.classes[0].name
    one, address = scenario.request_class(chosen), addresses(chosen)
    if address.startswith(UNIX):
        return None
    seconds, connections = scenario.run_seconds(), scenario.contrast.connections
    if tool == H2LOAD:
        began()
        return _h2load(one, address, connections, seconds)
    command = _command(tool, one, address, connections, seconds)
    # In a group of its own: Ctrl-C reaches the lab, which ends it.
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          env=child_environment(), preexec_fn=die_with_parent, process_group=0) as running:  # fmt: skip
        try:
            began()
            out, _ = running.communicate(timeout=seconds + _GRACE_S)
        except subprocess.TimeoutExpired:
            running.kill()
            return None
        except BaseException:
            running.kill()
            raise
    try:
        return None if running.returncode else _READ[tool](tool, out, seconds)
    except (ValueError, KeyError, AttributeError, TypeError):  # another version prints otherwise
        return None


def _command(tool: str, one: RequestClass, address: str, connections: int, seconds: float) -> list[str]:
    url, whole = f"http://{address}{one.path}", str(max(1, round(seconds)))
    if tool == "wrk":
        return ["wrk", "-t1", f"-c{connections}", f"-d{whole}s", "--timeout", "30s", "--latency", url]
    return ["ab", "-k", "-c", str(connections), "-t", whole, "-n", "100000000", "-s", "30", url]


def _wrk(tool: str, out: str, seconds: float) -> Closed:
    shares = {share: float(value) * _MS[unit] for share, value, unit in
              re.findall(r"^\s+(50|75|90|99)(?:\.\d+)?%\s+([\d.]+)(us|ms|s|m)$", out, re.MULTILINE)}  # fmt: skip
    requests = int(re.search(r"(\d+) requests in", out)[1])  # type: ignore[index]
    wrong = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", out)
    errors = sum(map(int, wrong.groups())) if wrong else 0
    return Closed(tool, seconds, requests, errors, shares["50"], None, shares["99"])


def _ab(tool: str, out: str, seconds: float) -> Closed:
    shares = {share: float(value) for share, value in re.findall(r"^\s+(50|95|99)%\s+(\d+)$", out, re.MULTILINE)}
    requests = int(re.search(r"Complete requests:\s+(\d+)", out)[1])  # type: ignore[index]
    errors = int(re.search(r"Failed requests:\s+(\d+)", out)[1])  # type: ignore[index]
    return Closed(tool, seconds, requests, errors, shares["50"], shares["95"], shares["99"])


def _h2load(one: RequestClass, address: str, connections: int, seconds: float) -> Closed | None:
    """It keeps each request, so its percentiles are computed like all others."""
    try:
        found = load_closed.closed_loop(one.name, address, one.path, connections=connections, seconds=seconds)
    except HostError:
        return None
    good = found.answered()
    if not len(good):
        return None
    p50, p95, p99 = (quantile(good, share) for share in (0.5, 0.95, 0.99))
    return Closed(H2LOAD, seconds, len(found), len(found) - len(good), p50, p95, p99)


_READ: Final[Mapping[str, Callable[[str, str, float], Closed]]] = {"wrk": _wrk, "ab": _ab}
