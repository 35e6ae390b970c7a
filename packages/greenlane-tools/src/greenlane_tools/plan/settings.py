"""The recommended set-up, ready to paste.

greenlane.toml with its command, checked by the settings' own loader; for those who stay on stock gunicorn, uvicorn or
Celery the flags, and what they do not do.
"""

from __future__ import annotations

import json
import math
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from greenlane.errors import PlanError, SettingsError
from greenlane.settings import Settings, load
from greenlane.settings.shown import installed
from greenlane_tools.page.quantities import milliseconds
from greenlane_tools.plan.advice import Advice, AdviceVerdict
from greenlane_tools.plan.options import Option, Predicted
from greenlane_tools.plan.set_up import CONNECTIONS, THREADS, SetUp

__all__ = ["Stock", "checked", "command_of", "settings_of", "stock_of", "writable"]

_WIDTH: Final = 118
#: Deadlines that a comment names; the others are counted.
_NAMED: Final = 3
#: A parameter of a route as frameworks write it: <int:id>, {id}, :id.
_PARAMETER: Final = re.compile(r"<[^<>/]*>|\{[^{}/]*\}|(?<=/):[^/]+")
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


def writable(advice: Advice) -> Option | None:
    """The option whose settings are Greenlane's: the recommended one; else the best of the others.

    None = there is none, or nothing is to be changed.
    """
    if advice.verdict is AdviceVerdict.NOTHING:
        return None
    for option in (advice.recommended, advice.runner_up):
        if option is not None and not option.candidate.stock:
            return option
    found = [option for option in advice.options if not option.candidate.stock and option.at.reached]
    return min(found, key=lambda each: (each.cost, each.at.tail), default=None)


def settings_of(advice: Advice, option: Option) -> str:
    """The text of greenlane.toml, with what is promised of it above.

    Raises: PlanError when the settings' own loader refuses it: a bug of ours.
    """
    text = "\n".join([*_above(advice, option), "", *_keys(option.set_up)]) + "\n"
    checked(text)
    return text


def checked(text: str) -> Settings:
    """The settings that the text gives.

    Raises: PlanError when they are refused.
    """
    with tempfile.TemporaryDirectory(prefix="greenlane-plan-") as folder:
        path = Path(folder, "greenlane.toml")
        path.write_text(text, encoding="utf-8")
        try:
            return load(file=path, environ={}, kind=installed())
        except SettingsError as error:
            raise PlanError(
                "write the settings", name=error.setting, value=error.value, rule=error.rule, hint=error.hint
            ) from None


def command_of(set_up: SetUp, application: str = "module:app") -> str:
    """How to start it with these settings."""
    if set_up.host == "celery":
        more = f"    # {set_up.processes} of these" if set_up.processes > 1 else ""
        return f"greenlane work {application}{more}"
    if set_up.host == "asyncio":
        return (
            f"greenlane serve {application}"
            if set_up.queue == "central"
            else f"uvicorn --workers {set_up.processes} {application}"
        )
    if set_up.queue == "central":
        return f"greenlane serve {application}"
    threads = set_up.limit or THREADS
    worker = "greenlane.hosts.gunicorn.Worker"
    return f"gunicorn -k {worker} --workers {set_up.processes} --threads {threads} {application}"


def _above(advice: Advice, option: Option) -> Iterator[str]:
    goals = "; ".join(goal.said() for goal in advice.goals)
    yield from _comment(f"For {goals}. Written by `greenlane plan`; start it with:")
    yield f"#     {command_of(option.set_up)}"
    chosen = advice.recommended
    if chosen is not None and chosen.candidate.name != option.candidate.name:
        best = "" if option is advice.present else ": the best with Greenlane"
        yield from _comment(f"Not the recommendation, which is {chosen.candidate.said}{best}.")
    for judged in option.at.goals:
        goal = judged.goal
        yield from _comment(f"Predicted: {goal.route} {100 * judged.within.at:.3f} % within {goal.limit_ms:g} ms.")
    if option.holds and option.breaks is not None and math.isfinite(option.breaks):
        which = "The goal" if len(option.at.goals) == 1 else "The first of the goals"
        about = "" if option.sure else "about "
        yield from _comment(f"{which} breaks at {about}{option.breaks:.2f} times the load that was planned for.")
    if option.set_up.shed:
        yield from _comment(_deadlines(advice))


def _deadlines(advice: Advice) -> str:
    """Only what has a deadline is refused early, and those of a profile may have come with no request."""
    due = [f"{route.route} {route.deadline_ms:g} ms" for route in advice.profile.routes if route.deadline_ms]
    more = f" and {len(due) - _NAMED} more" if len(due) > _NAMED else ""
    return (
        f"Requests must bring their deadlines ({', '.join(due[:_NAMED])}{more}) as {Settings().deadline_headers[0]}; "
        "else set deadline_ms in [lanes.NAME]."
    )


def _comment(text: str) -> Iterator[str]:
    line = "#"
    for word in "".join(c if c.isprintable() else "?" for c in text).split():
        if len(line) + 1 + len(word) > _WIDTH:
            yield line
            line = "#"
        line += f" {word}"
    yield line


def _keys(set_up: SetUp) -> Iterator[str]:
    usual = Settings()
    if set_up.host == "permits":
        if set_up.permits and set_up.permits != usual.permits:
            yield f"permits = {set_up.permits}"
        if set_up.limit and set_up.limit != usual.threads:
            yield f"threads = {set_up.limit}"
    if set_up.queue == "central":
        yield f"workers = {set_up.processes}"
        if set_up.at_once:
            yield f"at_once = {set_up.at_once}"
    if set_up.host == "celery":
        yield from _of_tasks(set_up)
    if "process" in set_up.placement.values():
        yield f"process_workers = {set_up.pool}"
    for route, place in set_up.placement.items():
        yield f"# {_plain(route)}: pin its heavy function in [placements]: {json.dumps(place)}."
    yield from _lanes(set_up)


def _of_tasks(set_up: SetUp) -> Iterator[str]:
    if set_up.limit and set_up.limit != getattr(installed()(), "task_slots", None):
        yield f"task_slots = {set_up.limit}"
    if set_up.upstream_limits:
        yield from _comment(
            "The bulkhead: task_key says where an order names its upstream. Take out both # then, not one: without a "
            "key task_limit holds for all orders together."
        )
        yield '# task_key = "kwargs.merchant"'
        wanted = max(set_up.upstream_limits.values())
        each = max(1, wanted // set_up.processes)
        if set_up.processes > 1:
            yield from _comment(_shared_out(wanted, each, set_up.processes))
        yield f"# task_limit = {each}"


def _shared_out(wanted: int, each: int, processes: int) -> str:
    """Simulated is one bulkhead over all processes; each process has its own."""
    text = f"Each of the {processes} processes has a task_limit of its own, {each * processes} calls together"
    if each * processes == wanted:
        return f"{text}."
    why = "a process cannot have less than one" if each * processes > wanted else "what is left over is nobody's"
    return f"{text}; simulated was one limit of {wanted} over all of them: {why}."


def _lanes(set_up: SetUp) -> Iterator[str]:
    if set_up.queue != "central" and set_up.host != "permits":
        return
    for lane in set_up.lanes:
        yield ""
        yield f"[lanes.{lane.name}]"
        yield f"match = [{', '.join(json.dumps(glob_of(route), ensure_ascii=False) for route in lane.routes)}]"
        if lane.kind != "soft":
            yield f"kind = {json.dumps(lane.kind)}"
        if lane.processes:
            yield f"processes = {lane.processes}"
        if lane.priority:
            yield f"priority = {lane.priority}"
        if lane.at_once:
            yield f"at_once = {lane.at_once}"
        if lane.deadline_ms:
            yield f"deadline_ms = {lane.deadline_ms:g}"


def glob_of(route: str) -> str:
    """A glob that matches the route by its name and by its path: parameters become `*`."""
    plain = re.sub(r"[\[\]?*]", "?", _PARAMETER.sub("\0", route))
    return plain.replace("\0", "*")


def _plain(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)


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
