"""Settings for those who stay on stock gunicorn, uvicorn or Celery: the flags, and what they do not do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from greenlane.page.quantities import milliseconds
from greenlane.plan.advice import Advice
from greenlane.plan.option import Option, Predicted
from greenlane.plan.set_up import CONNECTIONS, SetUp

__all__ = ["Stock", "stock_of"]

KEEP_ALIVE: Final = (
    "`--worker-connections` counts connections, not requests: with keep-alive (gunicorn's default is 2 s, load "
    "balancers keep theirs for a minute) an idle client holds a place, and with as many clients as places the next "
    "one waits for the time-out. Set `--keep-alive 0`, or leave the limit above the number of connections."
)
NO_SHEDDING: Final = (
    "A limit without shedding makes no process faster: it moves the wait from the loop, where it is seen, to the "
    "socket, where it is not, and what one route wins there others pay. It is worth it where another process has room, "
    "or what is over is refused at once."
)
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
    if set_up.host == "gevent":
        yield KEEP_ALIVE
    if set_up.host in ("gevent", "threads") and any("limit" in option.candidate.name for option in advice.options):
        yield NO_SHEDDING
        yield from _limits(advice)
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


def _limits(advice: Advice) -> Iterator[str]:
    """What the simulation said of a limit, of the first where it can be told: the sentence's proof."""
    for option in advice.options:
        for one, other in _beside(advice, option):
            wanted = dict.fromkeys(goal.route for goal in advice.goals)
            names = [*wanted, *(route.route for route in one.run.routes if route.route not in wanted)]
            pairs = [(name, _p99(one, name), _p99(other, name)) for name in names[:_MOST]]
            told = "; ".join(f"{name} {with_limit}, without {without}" for name, with_limit, without in pairs)
            yield f"Here, p99 with {option.set_up.limit} places: {told}."
            return


def _beside(advice: Advice, option: Option) -> Iterator[tuple[Predicted, Predicted]]:
    """The option's run and that of the same with no limit of its own; both settle and are as long."""
    if " limit " not in option.candidate.name:
        return
    for plain in advice.options:
        alike = replace(plain.set_up, limit=option.set_up.limit) == option.set_up
        if alike and plain.set_up.limit > option.set_up.limit and " limit " not in plain.candidate.name:
            for one in _runs(option):
                for other in _runs(plain):
                    if one.settled and other.settled and one.run.jobs == other.run.jobs:
                        yield one, other


def _runs(option: Option) -> tuple[Predicted, ...]:
    """At the profile's load: what is named has a long run beside the short one of its curve."""
    return option.at, *(run for run in option.curve if run.load == 1)


def _p99(run: Predicted, name: str) -> str:
    route = run.run.route(name)
    return milliseconds(route.percentile_ms(_P99)) if route.done else "without end"
