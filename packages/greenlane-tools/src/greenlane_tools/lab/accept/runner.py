"""Everything in turn: environments, contenders, limits, the kernel's part. Whatever happens, no server is left."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from greenlane.cli.output import Output
from greenlane.errors import GreenlaneError
from greenlane_tools.lab.accept import kernel
from greenlane_tools.lab.accept.contenders import SERVERS, Contender, Family, contenders, limited
from greenlane_tools.lab.accept.environments import Environment, Skipped, ready
from greenlane_tools.lab.accept.measuring import (
    FULL,
    QUICK,
    Accepting,
    Amounts,
    Kernel,
    Limit,
    Row,
    accepting,
    described,
    limit,
)
from greenlane_tools.lab.accept.serving import NotServing, served
from greenlane_tools.lab.accept.shown import shown
from greenlane_tools.lab.environment import about
from greenlane_tools.lab.experiment.result import Result
from greenlane_tools.lab.interruption import checkpoint

if TYPE_CHECKING:
    from greenlane_tools.lab.accept.options import Options

__all__ = ["Order", "expected_s", "perform"]

#: Whose limit is measured: a gevent worker of 2021 and of today, and what others call a limit.
_LIMITED: Final = ("gunicorn-20.1.0", "gunicorn", "gunicorn-gthread", "gunicorn-asgi", "uvicorn", "granian")
_SLOTS: Final = 3
# Starting and ending a contender, and the two load generators; indicative.
_AROUND_S: Final = 3.5
# A gunicorn that cannot make its socket says so in the first second or, before 21, after five.
_NO_BOOT_S: Final = 3.0


@dataclass(frozen=True)
class Order:
    """What is to be measured."""

    servers: tuple[str, ...]
    families: tuple[Family, ...]
    workers: int
    amounts: Amounts
    environments: Path


def expected_s(order: Order) -> float:
    """How long it takes once the environments are there; indicative."""
    amounts = order.amounts
    cell_s = _AROUND_S + amounts.share_s + amounts.bursts * amounts.burst_gap_s + 1
    cells = contenders(order.servers, order.families)
    refused = sum(cell.family == "unix" and "--reuse-port" in cell.options for cell in cells)
    # A worker's three slots are held for the keep-alive three times; those that are no limit answer at once.
    limits = sum(name in order.servers for name in _LIMITED) * (2.5 * amounts.keepalive_s + 2 * _AROUND_S)
    return (len(cells) - refused) * cell_s + refused * _NO_BOOT_S + limits + 5


def perform(options: Options, output: Output) -> Result | None:
    """Measures; blocks until all is done. None: only the servers were asked for."""
    servers, families = options.servers or tuple(SERVERS), options.sockets or ("tcp", "unix")
    if "help" in servers:
        some = [{"server": one.name, "worker": one.worker_class} for one in SERVERS.values()]
        output.table(some, ("server", "worker"))
        return None
    order = Order(servers, families, options.workers, QUICK if options.quick else FULL, options.environments)
    minutes = expected_s(order) / 60
    output.say(f"{len(servers)} servers, {order.workers} workers each: about {minutes:.0f} min")
    rows, skipped = _measured(order, lambda text: output.say(f"  {text}"))
    if not any(isinstance(row, Accepting) and row.boots for row in rows):
        raise GreenlaneError(
            "measure who accepts", name="servers", value=list(skipped) or list(servers), rule="one that starts",
            hint="connect to a package index once, or name others with --servers",
        )  # fmt: skip
    told = {"quick": options.quick, "workers": order.workers, "skipped": skipped}
    return shown(rows, skipped, {**about(("greenlane",)), **told})


def _measured(order: Order, say: Callable[[str], None]) -> tuple[list[Row], dict[str, str]]:
    """All rows, and the reason by server that could not be installed."""
    found, skipped = _environments(order.servers, order.environments, say)
    rows: list[Row] = []
    cells = contenders([name for name in order.servers if name in found], order.families)
    for number, contender in enumerate(cells):
        checkpoint()
        say(f"{number + 1} of {len(cells)}: {contender.name}")
        rows.append(_accepting(contender, found[contender.server.name], order))
    for name in _LIMITED:
        for keepalive_s in (order.amounts.keepalive_s, 0):
            if name in found:
                checkpoint()
                say(f"a limit of {_SLOTS} with keep-alive {keepalive_s} s: {name}")
                with contextlib.suppress(NotServing):  # its row above tells why
                    rows.append(_limit(name, found[name], keepalive_s))
    for mechanism in kernel.MECHANISMS:
        checkpoint()
        say(f"the kernel alone: {mechanism}")
        rows.append(_kernel(mechanism, order))
    return rows, skipped


def _environments(
    names: Sequence[str], root: Path, say: Callable[[str], None]
) -> tuple[Mapping[str, Environment], dict[str, str]]:
    found, skipped = {}, {}
    for name in names:
        got = ready(SERVERS[name].recipe, root, say)
        if isinstance(got, Skipped):
            skipped[name] = got.reason
            say(f"without {name}: {got.reason}")
        else:
            found[name] = got
    return found, skipped


def _accepting(contender: Contender, environment: Environment, order: Order) -> Accepting:
    version = environment.versions[contender.server.recipe.name]
    try:
        with served(contender, environment, order.workers) as service:
            return accepting(contender, version, service, order.amounts)
    except NotServing as reason:
        return Accepting(**described(contender, version, order.workers), boots=False, said=str(reason))


def _limit(name: str, environment: Environment, keepalive_s: int) -> Limit:
    contender = limited(name, _SLOTS, keepalive_s)
    with served(contender, environment, 1) as service:
        return limit(contender, environment.versions[contender.server.recipe.name], service, _SLOTS, keepalive_s)


def _kernel(mechanism: str, order: Order) -> Kernel:
    found = kernel.split(mechanism, order.workers, order.amounts.kernel_connections)
    total = sum(found.counts)
    return Kernel(mechanism, order.workers, total, found.listeners, list(found.counts), max(found.counts) / total)
