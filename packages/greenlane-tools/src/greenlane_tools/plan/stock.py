"""Settings for those who stay on stock gunicorn, uvicorn or Celery: the flags, and what they do not do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from greenlane_tools.page.quantities import milliseconds
from greenlane_tools.plan.advice import Advice
from greenlane_tools.plan.option import Option, Predicted
from greenlane_tools.plan.set_up import CONNECTIONS, SetUp

__all__ = ["Stock", "stock_of"]

KEEP_ALIVE: Final = (
    "`--worker-connections` counts connections, not requests: with keep-alive (gunicorn's default is 2 s, load "
    "balancers keep theirs for a minute) an idle client holds a place, and with as many clients as places the next "
    "one waits for the time-out. Set `--keep-alive 0`, or leave the limit above the number of connections."
)
NO_SHEDDING: Final = (
    "A limit without shedding makes no process faster: it moves the wait {moved}, and what one route wins there others "
    "pay. It is worth it where another process has room, or what is over is refused at once."
)
#: Where a limit moves the wait, by the host that has one.
_MOVED: Final = {
    "gevent": "from the loop, where it is seen, to the socket, where it is not",
    "threads": "from the GIL to the queue before the threads, which the application does not see",
}
#: What a limit counts, by the host that has one.
_PLACES: Final = {"gevent": "places", "threads": "threads"}
_P99: Final = 0.99
#: Routes that are named.
_MOST: Final = 5


@dataclass(frozen=True, slots=True)
class Stock:
    """Commands, and what to know of them.

    Args:
        option: that they are of.
        commands: one for each deployment.
        warnings: each a sentence or two.
    """

    option: Option
    commands: tuple[str, ...]
    warnings: tuple[str, ...]


def stock_of(advice: Advice) -> Stock | None:
    """The settings of the best stock set-up; None = nothing was simulated."""
    option = advice.stock
    if option is None and advice.present is not None and advice.present.candidate.stock:
        option = advice.present
    if option is None:
        return None
    set_up = option.set_up
    return Stock(option, tuple(_commands(set_up)), tuple(_warnings(advice, set_up)))


def _commands(set_up: SetUp) -> Iterator[str]:
    own = {lane.name: lane for lane in set_up.hard}
    shared = set_up.processes - sum(lane.processes for lane in own.values())
    yield _command(set_up, shared) + (" --bind 127.0.0.1:8000" if own else "")
    for number, lane in enumerate(own.values(), start=1):
        routes = ", ".join(lane.routes)
        yield f"{_command(set_up, lane.processes)} --bind 127.0.0.1:{8000 + number}  # the balancer sends {routes} here"


def _command(set_up: SetUp, processes: int) -> str:
    reuse = " --reuse-port" if set_up.queue == "reuse-port" else ""
    if set_up.host == "asyncio":
        return f"uvicorn --workers {processes} module:app"
    if set_up.host == "celery":
        pool = "prefork" if set_up.limit == 1 else "gevent"
        number = processes if set_up.limit == 1 else set_up.limit
        more = "" if set_up.limit == 1 or processes == 1 else f"    # {processes} of these"
        return (
            f"celery -A module worker -P {pool} -c {number} --without-heartbeat --without-gossip --without-mingle{more}"
        )
    if set_up.host == "gevent":
        limit = "" if set_up.limit in (0, CONNECTIONS) else f" --worker-connections {set_up.limit} --keep-alive 0"
        return f"gunicorn -k gevent --workers {processes}{limit}{reuse} module:app"
    return f"gunicorn -k gthread --workers {processes} --threads {set_up.limit or 64}{reuse} module:app"


def _warnings(advice: Advice, set_up: SetUp) -> Iterator[str]:
    limited = _limited_host(advice, set_up)
    if "gevent" in (set_up.host, limited):
        yield KEEP_ALIVE
    if limited:
        yield NO_SHEDDING.format(moved=_MOVED[limited])
        yield from _limits(advice, limited)
    if set_up.queue == "reuse-port":
        yield "`--reuse-port` shares requests out by chance, and needs gunicorn 24 or later to do anything at all."
    if set_up.host == "asyncio":
        yield "`--limit-concurrency` refuses with 503 what is over it, and counts idle keep-alive connections too."
    if set_up.host == "celery":
        yield (
            "Celery has no limit for each upstream: with one that hangs, its orders take every slot, however many "
            "there are. A queue and a worker for each upstream is what stock Celery offers."
        )
        yield "`worker_prefetch_multiplier = 1`, `task_acks_late`: else a worker sits on orders that others could do."


def _limited_host(advice: Advice, set_up: SetUp) -> str:
    """The host of which it was simulated what a limit does: that of the settings, or what serves now; "" = none."""
    now = [advice.present.set_up.host] if advice.present is not None and advice.present.candidate.stock else []
    for host in [set_up.host, *now]:
        if host in _PLACES and any(_beside(option, plain) for option, plain in _pairs(advice, host)):
            return host
    return ""


def _limits(advice: Advice, host: str) -> Iterator[str]:
    """What the simulation said of a limit, of the first where it can be told: the sentence's proof."""
    for option, plain in _pairs(advice, host):
        for one, other in _beside(option, plain):
            wanted = dict.fromkeys(goal.route for goal in advice.goals)
            names = [*wanted, *(route.route for route in one.run.routes if route.route not in wanted)]
            told = "; ".join(f"{name} {_p99(one, name)} instead of {_p99(other, name)}" for name in names[:_MOST])
            number = option.set_up.processes
            where = f" in each of {number} processes" if number > 1 else ""
            least, most = option.set_up.limit, plain.set_up.limit
            here = f"Here, p99 on {host} with {least} {_PLACES[host]}{where}"
            yield f"{here} instead of {most:,}: {told}."
            return


def _pairs(advice: Advice, host: str) -> list[tuple[Option, Option]]:
    """Options of this host, each beside the same with a wider limit; the cheaper and the wider ones first."""
    stock = [option for option in advice.options if option.candidate.stock and option.set_up.host == host]
    wide = sorted(stock, key=lambda each: -each.set_up.limit)
    return [
        (option, plain) for option in stock for plain in wide
        if 0 < option.set_up.limit < plain.set_up.limit
        and replace(plain.set_up, limit=option.set_up.limit) == option.set_up
    ]  # fmt: skip


def _beside(option: Option, plain: Option) -> list[tuple[Predicted, Predicted]]:
    """Runs of both that settle and are as long."""
    return [
        (one, other) for one in _runs(option) for other in _runs(plain)
        if one.settled and other.settled and one.run.jobs == other.run.jobs
    ]  # fmt: skip


def _runs(option: Option) -> tuple[Predicted, ...]:
    """At the profile's load: what is named has a long run beside the short one of its curve."""
    return option.at, *(run for run in option.curve if run.load == 1)


def _p99(run: Predicted, name: str) -> str:
    route = run.run.route(name)
    return milliseconds(route.percentile_ms(_P99)) if route.done else "without end"
