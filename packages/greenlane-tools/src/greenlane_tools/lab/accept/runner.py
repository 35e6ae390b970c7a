"""Everything in turn: environments, contenders, limits, the kernel's part. Whatever happens, no server is left."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from greenlane.cli.output import Output
from greenlane.errors import GreenlaneError
from greenlane_tools.lab.accept import kernel
from greenlane_tools.lab.accept.contenders import (
    SERVERS,
    Contender,
    Environment,
    Family,
    Skipped,
    contenders,
    limited,
    ready,
)
from greenlane_tools.lab.accept.measuring import (
    FULL,
    QUICK,
    Accepting,
    Amounts,
    Kernel,
    Limit,
    NotServing,
    Row,
    accepting,
    described,
    limit,
    served,
)
from greenlane_tools.lab.ending import checkpoint
from greenlane_tools.lab.environment import about
from greenlane_tools.lab.experiment.result import Result, Table
from greenlane_tools.page import blocks
from greenlane_tools.page.axis import LinearAxis
from greenlane_tools.page.charts.heat_map import heat_map
from greenlane_tools.page.charts.whiskers import LEFT, RIGHT, Whisker, whiskers
from greenlane_tools.page.html import Html
from greenlane_tools.page.quantities import amount, duration, factor, share

if TYPE_CHECKING:
    from greenlane_tools.lab.accept.options import Options


# --- What is shown of the rows: the same tables on the terminal and on the page, and the page's drawings.


Kind = TypeVar("Kind", Accepting, Limit, Kernel)

_ACCEPTING: Final = (
    "contender", "socket", "options", "listeners", "share by worker", "busiest", "burst of {size}", "at once",
    "last of it", "{kept} kept",
)  # fmt: skip


def shown(rows: Sequence[Row], skipped: Mapping[str, str], environment: Mapping[str, object]) -> Result:
    """All that is said.

    Args:
        skipped: reason by server that is missing.
    """
    return Result(
        "lab.accept", "Who accepts the connection?", [asdict(row) for row in rows], tables(rows), environment,
        lead="Shares of connections by worker, server, version, socket and option.",
        warnings=[f"without {name}: {reason}" for name, reason in skipped.items()],
        figures=[
            _shares(_of_kind(rows, Accepting)), _answered(_of_kind(rows, Limit)), _processes(_of_kind(rows, Kernel))
        ],
        method="Each server in a virtual environment of its own on loopback, one at a time. Shares: an open loop of "
        "independent requests, each 5 ms of CPU and 20 ms of waiting on a connection of its own. Bursts: as many "
        "connections at one instant. Kept: a few clients that keep their connections and ask together. Listeners are "
        "counted in /proc/net. What it does not show: a network, a proxy, hours; and single runs vary: look at what "
        "changes by a multiple.",
    )  # fmt: skip


def tables(rows: Sequence[Row]) -> list[Table]:
    """Those that have lines."""
    accepting, limits, kernel = _of_kind(rows, Accepting), _of_kind(rows, Limit), _of_kind(rows, Kernel)
    size, kept = next(((row.burst_size, row.kept_connections) for row in accepting if row.boots), (20, 4))
    columns = tuple(name.format(size=size, kept=kept) for name in _ACCEPTING)
    found = [
        Table(
            "Who accepts",
            [dict(zip(columns, _accepting_table(row), strict=True)) for row in accepting],
            "Splits are by worker in the order of their start. busiest: its share against an even one. at once: the "
            "most of a burst that one wake-up took. last of it: when the last of a burst was answered, median.",
            tuple(f"{_named(row)} does not start: {row.said}" for row in accepting if not row.boots),
            names=3,
        ),
        Table(
            "What a limit counts",
            [_limit_table(row) for row in limits],
            "One worker, 12 clients at one instant, each request 50 ms of waiting; clients keep their connections. "
            "lost: refused (503), or not answered while the run lasted.",
            names=3,
        ),
        Table(
            "The kernel alone",
            [_kernel_table(row) for row in kernel],
            "Connections one after another to waiting processes, in fork order. Depends on the kernel.",
        ),
    ]
    return [table for table in found if table.rows]


def _of_kind(rows: Sequence[Row], kind: type[Kind]) -> list[Kind]:
    """Rows of one table."""
    return [row for row in rows if isinstance(row, kind)]


def typical_burst(row: Accepting) -> list[int]:
    """The burst whose busiest worker took the median number, most first."""
    ordered = sorted((sorted(split, reverse=True) for split in row.burst_split), key=lambda split: split[:1])
    return ordered[len(ordered) // 2] if ordered else []


def _accepting_table(row: Accepting) -> list[str]:
    head = [_server(row), row.socket_family, row.options or "-"]
    if not row.boots:
        return [*head, "no start", *["-"] * 6]
    once = "-" if row.accepted_at_once is None else str(row.accepted_at_once)
    last = "-" if row.burst_last_ms is None else duration(row.burst_last_ms * 1e6)
    return [
        *head, str(row.listeners), _split(row.share_split), factor(row.share_max_ratio or 0),
        _split(typical_burst(row)), once, last, _split(row.kept_split),
    ]  # fmt: skip


def _named(row: Accepting) -> str:
    return " ".join(filter(None, [_server(row), row.socket_family, row.options]))


def _server(row: Accepting) -> str:
    return row.contender if row.version in row.contender else f"{row.contender} {row.version}"


def _limit_table(row: Limit) -> Mapping[str, str]:
    waves = _waves(row.answered_s)
    return {
        "contender": row.contender,
        "version": row.version,
        "options": row.options,
        "answered after (s)": ", ".join(f"{count} × {at:.2f}" for at, count in waves),
        "lost": str(row.lost),
    }


def _waves(answered_s: Sequence[float]) -> list[tuple[float, int]]:
    """Answers within 0.3 s of the one before belong together: (median, count)."""
    waves: list[list[float]] = []
    for at in answered_s:
        if waves and at - waves[-1][-1] < 0.3:
            waves[-1].append(at)
        else:
            waves.append([at])
    return [(statistics.median(wave), len(wave)) for wave in waves]


def _kernel_table(row: Kernel) -> Mapping[str, str]:
    return {
        "mechanism": row.mechanism,
        "listeners": str(row.listeners),
        "connections": _split(row.split),
        "busiest": share(row.share_max_frac),
    }


def _split(counts: Sequence[int]) -> str:
    return "/".join(map(str, counts))


def _shares(rows: Sequence[Accepting]) -> Html:
    boots = [row for row in rows if row.boots]
    if not boots:
        return Html("")
    panels = {
        "a burst": _map(boots, "of a burst", typical_burst),
        "independent requests": _map(boots, "of all requests", lambda row: row.share_split),
        "kept connections": _map(boots, "of the requests on kept connections", lambda row: row.kept_split),
    }
    return blocks.section(
        "Share of each worker",
        blocks.tabs("shares", panels),
        about="Rows are contenders, columns their workers in the order of their start (a burst: most first).",
    )


def _map(rows: Sequence[Accepting], what: str, split: Callable[[Accepting], list[int]]) -> Html:
    names = [" ".join(filter(None, [row.contender, row.socket_family, row.options])) for row in rows]
    columns = [f"worker {number + 1}" for number in range(max(row.workers for row in rows))]
    cells = {
        (name, column): count / sum(split(row))
        for name, row in zip(names, rows, strict=True)
        for column, count in zip(columns, split(row), strict=False)
        if sum(split(row))
    }
    return blocks.wide(
        heat_map(
            names, columns, cells, f"share {what} by contender and worker", share,
            lambda row, column, value, _: f"{row}: {column} took {value} {what}",
        )
    )  # fmt: skip


def _answered(rows: Sequence[Limit]) -> Html:
    high = max((row.answered_s[-1] for row in rows if row.answered_s), default=1.0)
    groups = {
        f"{row.contender} {row.options}": [
            Whisker(f"client {number + 1}", 0.0, at, at, f"{at:.2f} s") for number, at in enumerate(row.answered_s)
        ]
        for row in rows
    }
    axis = LinearAxis(0, high, LEFT, RIGHT)
    title = "when each of twelve clients was answered"
    panels = {
        name: blocks.wide(whiskers({"": bars}, axis, f"{title}: {name}", lambda at: f"{amount(at)} s"))
        for name, bars in groups.items()
        if bars
    }
    if not panels:
        return Html("")
    return blocks.section("When each of twelve clients was answered", blocks.tabs("limits", panels))


def _processes(rows: Sequence[Kernel]) -> Html:
    if not rows:
        return Html("")
    columns = [f"process {number + 1}" for number in range(max(row.processes for row in rows))]
    cells = {
        (row.mechanism, column): count / row.connections
        for row in rows
        for column, count in zip(columns, row.split, strict=True)
    }
    drawing = heat_map(
        [row.mechanism for row in rows], columns, cells, "share of connections by mechanism and process", share,
        lambda row, column, value, _: f"{row}: {column} took {value}",
    )  # fmt: skip
    return blocks.section("Share of each process, without a server", blocks.wide(drawing))


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
