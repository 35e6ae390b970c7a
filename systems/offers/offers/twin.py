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
import statistics
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

from greenlane.errors import GreenlaneError
from greenlane.lab.environment import about

from .children import cpu_ns
from .site import Pricing, Site
from .table import KINDS, Endpoint, TableError

__all__ = ["CONTENDERS", "Answer", "Row", "asked", "counted", "different", "main"]

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
            services = [site.pricing(name) for name in CONTENDERS]
            endpoints = tuple(site.table.endpoints.values())
            unlike = different(counted([one.address for one in services], endpoints))
            rows = _rows([_round(services, endpoints, number) for number in range(given.rounds)], endpoints)
    except (GreenlaneError, TableError) as error:
        _said(str(error))
        return error.exit_code
    for line in unlike:
        _said(line)
    if given.json:
        answer = {"schema": "offers.twin/1", "environment": about(["flask", "gunicorn", "gevent", "urllib3"])}
        document = {**answer, "different": unlike, "rows": [asdict(row) for row in rows]}
        sys.stdout.write(json.dumps(document) + "\n")
    else:
        sys.stdout.writelines(_line(row) for row in rows)
    return 1 if unlike or any(abs(row.ratio - 1) > TOLERANCE_FRAC for row in rows) else 0


class _Cost(NamedTuple):
    """CPU of one kind's requests, ms."""

    worked_ms: float
    idle_ms: float


def _round(services: Sequence[Pricing], endpoints: Sequence[Endpoint], number: int) -> dict[tuple[str, str], _Cost]:
    """By service and endpoint kind. Services take turns, so that a slow moment is everybody's."""
    _said(f"round {number + 1} …")
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
