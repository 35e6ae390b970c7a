"""Whether the pricing service in Go is a twin of the one in Flask: `python -m offers.twin [--json]`.

Both are asked every endpoint with the same ids. What is counted must be equal: routes, replies, upstream calls, kinds
of work. What is measured is the CPU time that the counted work takes each process, by endpoint kind: asked twice, with
much work and with next to none; the difference is the work alone, without what the server around it costs.

One row for each endpoint kind; exit code 1 when something counted differs, or CPU times of the two by more than 5 %.
Wants a quiet machine: calibration and run must see the same processor.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

from greenlane.errors import GreenlaneError
from greenlane_tools.lab.environment import about
from greenlane_tools.lab.processes import StartFailed, cpu_ns
from greenlane_tools.lab.verdict import Verdict

from .site import Pricing, Site
from .table import KINDS, Endpoint, TableError

#: The one in Flask by the stock server, and the twin.
CONTENDERS: Final = ("gevent", "go")
#: How far the twin's CPU time may be off, as a share of Flask's.
TOLERANCE_FRAC: Final = 0.05
#: Headers that say what a request did.
TOLD: Final = ("x-work", "x-calls")
# Work of each endpoint, ms of CPU: w is chosen for it. Long against what a server adds to a request.
_WORK_MS: Final = 40.0
_MOST_W: Final = 100.0
_LEAST_W: Final = 0.001
# Of each kind at least: one request more or less beside it must not matter.
_REQUESTS: Final = 30
# Requests at a time: upstreams' time is most of a request with next to no work.
_AT_ONCE: Final = 4
_PATIENCE_S: Final = 60.0


class Answer(NamedTuple):
    """What a service answered, without what depends on time and on the language."""

    status: int
    body: Any
    told: dict[str, str]


@dataclass(frozen=True)
class Row:
    """CPU times of one endpoint kind, sums over its requests."""

    endpoint: str
    #: Each endpoint as often as another.
    requests: int
    #: As the table has it, by w.
    calibrated_ms: float
    #: As the processes took it for the work alone; medians of the rounds.
    python_ms: float
    go_ms: float
    #: go_ms / python_ms.
    ratio: float
    #: What a request costs beside its work, ms.
    python_around_ms: float
    go_around_ms: float


class Compared(NamedTuple):
    """The result of a comparison."""

    #: Lines, one for each endpoint whose replies, calls or kinds of work differ.
    unlike: list[str]
    #: One for each endpoint kind.
    rows: list[Row]


def measured(rounds: int, say: Callable[[str], None]) -> list[Verdict]:
    """Starts both, compares and judges them, ends them. Blocks for about 10 s, and 15 s a round.

    Args:
        rounds: of which CPU times are the medians.
        say: hears what is being done.

    Raises:
        StartFailed: one did not come up, or did not stay.
    """
    with Site(say=say) as site:
        return verdicts_of(compared(site, rounds, say))


def compared(site: Site, rounds: int, say: Callable[[str], None]) -> Compared:
    """Starts both at a site and asks them everything, as `measured` does."""
    services = [site.pricing(name) for name in CONTENDERS]
    endpoints = tuple(site.table.endpoints.values())
    unlike = different(counted([one.address for one in services], endpoints))
    found = []
    for number in range(rounds):
        say(f"round {number + 1} …")
        found.append(_round(services, endpoints))
    return Compared(unlike, _rows(found, endpoints))


def verdicts_of(found: Compared) -> list[Verdict]:
    """Whether it is a twin: nothing that is counted differs, and CPU by no more than TOLERANCE_FRAC."""
    apart_frac = max(abs(row.ratio - 1) for row in found.rows)
    ratios = ", ".join(f"{row.endpoint} {row.ratio:.3f}" for row in found.rows)
    counts = "the twin in Go: endpoints whose answers, calls or work differ"
    cpu = "the twin in Go: CPU of the same work, how far from Flask's"
    return [
        Verdict(counts, len(found.unlike), math.nan, math.nan, "<=", 0, "; ".join(found.unlike[:1])),
        Verdict(cpu, apart_frac, math.nan, math.nan, "<=", TOLERANCE_FRAC, f"Go ÷ Flask: {ratios}"),
    ]


def asked(address: str, endpoint: Endpoint, w: str, call_id: str = "") -> Answer:
    """One request; an answer of any status is one."""
    name = f"id={call_id}&" if call_id else ""
    url = f"http://{address}{endpoint.path}?{name}region=north&w={w}"
    try:
        with urllib.request.urlopen(url, timeout=_PATIENCE_S) as answer:
            return _read(answer)
    except urllib.error.HTTPError as answer:
        with answer:
            return _read(answer)


def _read(answer: Any) -> Answer:
    told = {name: answer.headers[name] for name in TOLD if answer.headers[name] is not None}
    return Answer(answer.status, json.loads(answer.read()), told)


def counted(
    addresses: Iterable[str], endpoints: Iterable[Endpoint], w: str = "0.25", at_once: int = _AT_ONCE
) -> dict[str, list[Answer]]:
    """Each service's answer to each endpoint, asked with one id, by endpoint."""
    with ThreadPoolExecutor(at_once) as pool:
        asking = {
            one.name: [pool.submit(asked, address, one, w, f"twin-{one.name}") for address in addresses]
            for one in endpoints
        }
        return {name: [one.result() for one in those] for name, those in asking.items()}


def different(answers: Mapping[str, Sequence[Answer]]) -> list[str]:
    """What is counted and not the same: iterations are each language's own, so only their kinds must be."""
    found = []
    for name, (flask, go) in answers.items():
        if _plain(flask) != _plain(go):
            found.append(f"{name}: {CONTENDERS[0]} answered {_plain(flask)}, {CONTENDERS[1]} {_plain(go)}")
    return found


def _plain(answer: Answer) -> Answer:
    kinds = ",".join(one.partition("=")[0] for one in answer.told.get("x-work", "").split(","))
    return answer._replace(told={**answer.told, "x-work": kinds})


def main(argv: Sequence[str] | None = None) -> int:
    """Compares them; gives the exit code."""
    parser = argparse.ArgumentParser(prog="python -m offers.twin", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3, help="each some 15 s; 3")
    parser.add_argument("--json", action="store_true", help="one object on stdout")
    given = parser.parse_args(argv)
    try:
        with Site(say=_said) as site:
            found = compared(site, given.rounds, _said)
    except (GreenlaneError, StartFailed, TableError) as error:
        _said(str(error))
        return error.exit_code
    for line in found.unlike:
        _said(line)
    if given.json:
        answer = {"schema": "offers.twin/1", "environment": about(["flask", "gunicorn", "gevent", "urllib3"])}
        document = {**answer, "different": found.unlike, "rows": [asdict(row) for row in found.rows]}
        sys.stdout.write(json.dumps(document) + "\n")
    else:
        sys.stdout.writelines(_line(row) for row in found.rows)
    return 0 if all(verdict.holds for verdict in verdicts_of(found)) else 1


class _Cost(NamedTuple):
    """CPU of one kind's requests, ms."""

    worked_ms: float
    idle_ms: float


def _round(services: Sequence[Pricing], endpoints: Sequence[Endpoint]) -> dict[tuple[str, str], _Cost]:
    """By service and endpoint kind. Services take turns, so that a slow moment is everybody's."""
    costs = {}
    for kind in KINDS:
        ours = _asked(endpoints, kind)
        for service in services:
            worked, idle = (_took_ms(service, ours, work_ms) for work_ms in (_WORK_MS, 0.0))
            costs[service.contender.name, kind] = _Cost(worked, idle)
    return costs


def _took_ms(service: Pricing, endpoints: Sequence[Endpoint], work_ms: float) -> float:
    began_ns = cpu_ns(service.pids())
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        answers = list(pool.map(lambda one: asked(service.address, one, f"{_w(one, work_ms):.3f}"), endpoints))
    service.check()
    assert all(answer.status == 200 for answer in answers), answers
    return (cpu_ns(service.pids()) - began_ns) / 1e6


def _asked(endpoints: Sequence[Endpoint], kind: str) -> list[Endpoint]:
    ours = [one for one in endpoints if one.kind == kind]
    return ours * -(-_REQUESTS // len(ours))


def _w(endpoint: Endpoint, work_ms: float) -> float:
    """The w that makes an endpoint compute so much, as precise as it is sent."""
    return round(min(_MOST_W, max(_LEAST_W, work_ms / endpoint.cpu_ms)), 3) if endpoint.cpu_ms else 1.0


def _rows(rounds: Sequence[Mapping[tuple[str, str], _Cost]], endpoints: Sequence[Endpoint]) -> list[Row]:
    rows = []
    for kind in KINDS:
        ours = _asked(endpoints, kind)
        took, around = {}, {}
        for name in CONTENDERS:
            costs = [costs[name, kind] for costs in rounds]
            took[name] = statistics.median(one.worked_ms - one.idle_ms for one in costs)
            around[name] = statistics.median(one.idle_ms for one in costs) / len(ours)
        python, go = CONTENDERS
        rows.append(
            Row(
                endpoint=kind,
                requests=len(ours),
                calibrated_ms=round(sum(one.cpu_ms * (_w(one, _WORK_MS) - _w(one, 0)) for one in ours), 1),
                python_ms=round(took[python], 1),
                go_ms=round(took[go], 1),
                ratio=round(took[go] / took[python], 4),
                python_around_ms=round(around[python], 3),
                go_around_ms=round(around[go], 3),
            )
        )
    return rows


def _line(row: Row) -> str:
    return (
        f"{row.endpoint}: {row.requests} requests, calibrated {row.calibrated_ms:g} ms, Flask {row.python_ms:g} ms, "
        f"Go {row.go_ms:g} ms ({row.ratio:.3f}); around each {row.python_around_ms:g} and {row.go_around_ms:g} ms\n"
    )


def _said(line: str) -> None:
    sys.stderr.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main())
