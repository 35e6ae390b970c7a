"""The recommended set-up, ready to paste.

greenlane.toml with its command, checked by the settings' own loader; of a stock server the command with its flags.
"""

from __future__ import annotations

import json
import math
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from greenlane.errors import PlanError, SettingsError
from greenlane.settings import Settings, load
from greenlane.settings.listing import installed
from greenlane_tools.plan.advice import Advice, AdviceVerdict
from greenlane_tools.plan.options import Option
from greenlane_tools.plan.set_up import CONNECTIONS, THREADS, SetUp

_WIDTH: Final = 118
#: Deadlines that a comment names; the others are counted.
_NAMED: Final = 3
#: A parameter of a route as frameworks write it: <int:id>, {id}, :id.
_PARAMETER: Final = re.compile(r"<[^<>/]*>|\{[^{}/]*\}|(?<=/):[^/]+")


def writable(advice: Advice) -> Option | None:
    """The option whose settings are to be set; None = there is none, or nothing is to be changed."""
    changes = advice.verdict in (AdviceVerdict.CHANGE, AdviceVerdict.OUT_OF_REACH)
    best, now = advice.recommended, advice.present
    return best if changes and best and now and best.candidate != now.candidate else None


def settings_of(advice: Advice, option: Option) -> str:
    """The text of greenlane.toml, with what is promised of it above; "" = it is of a stock server, which has none.

    Raises: PlanError when the settings' own loader refuses it: our bug.
    """
    if option.candidate.stock:
        return ""
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


def command_of(option: Option, application: str = "module:app") -> str:
    """How to start it with these settings."""
    set_up, stock = option.set_up, option.candidate.stock
    if set_up.host == "celery":
        pool = f"celery -A module worker -P gevent -c {set_up.limit}"
        if stock and set_up.limit == 1:
            return f"celery -A module worker -P prefork -c {set_up.processes}"
        more = f"    # {set_up.processes} of these" if set_up.processes > 1 else ""
        return f"{pool if stock else f'greenlane celery {application}'}{more}"
    if set_up.queue == "central":
        return f"greenlane serve {application}"
    if set_up.host == "asyncio":
        return f"uvicorn --workers {set_up.processes} {application}"
    if set_up.host == "gevent":
        limit = "" if set_up.limit in (0, CONNECTIONS) else f" --worker-connections {set_up.limit}"
        return f"gunicorn -k gevent --workers {set_up.processes}{limit} {application}"
    worker = "gthread" if set_up.host == "threads" else "greenlane.hosts.gunicorn.Worker"
    return f"gunicorn -k {worker} --workers {set_up.processes} --threads {set_up.limit or THREADS} {application}"


def _above(advice: Advice, option: Option) -> Iterator[str]:
    goals = "; ".join(goal.said() for goal in advice.judged)
    yield from _comment(f"For {goals}. Written by `greenlane plan`; start it with:")
    yield f"#     {command_of(option)}"
    if option.holds and option.breaks is not None and math.isfinite(option.breaks):
        which = "The goal" if len(option.at.goals) == 1 else "The first of the goals"
        yield from _comment(f"{which} breaks at {option.breaks:.2f} times the load that was planned for.")
    if option.set_up.shed:
        yield from _comment(_deadlines(advice))


def _deadlines(advice: Advice) -> str:
    """Only what has a deadline is refused early, and those of a profile may have come with no request."""
    due = [f"{route.route} {route.deadline_ms:g} ms" for route in advice.profile.routes if route.deadline_ms]
    more = f" and {len(due) - _NAMED} more" if len(due) > _NAMED else ""
    return (
        f"Requests must bring their deadlines ({', '.join(due[:_NAMED])}{more}) as {Settings().deadline_headers[0]}; "
        "else set deadline_ms in [lanes.NAME]. `greenlane serve` believes them of trusted_proxies only."
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
    if set_up.host == "permits" and set_up.limit and set_up.limit != usual.threads:
        yield f"threads = {set_up.limit}"
    if set_up.queue == "central":
        yield f"workers = {set_up.processes}"
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
    why = "a process cannot have less than one" if each * processes > wanted else "the rest is not used"
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


def glob_of(route: str) -> str:
    """A glob that matches the route by its name and by its path: parameters become `*`."""
    plain = re.sub(r"[\[\]?*]", "?", _PARAMETER.sub("\0", route))
    return plain.replace("\0", "*")


def _plain(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)
