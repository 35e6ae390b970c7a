"""A set-up as a contender of the lab: what is started, with which settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from greenlane.errors import PlanError
from greenlane_tools.lab.scenario.contender import Contender
from greenlane_tools.plan.set_up import CONNECTIONS, SWITCH_MS, THREADS, SetUp

__all__ = ["contender_of"]

_GREENLANE: Final = ("{python}", "-c", "import sys; from greenlane.cli.main import main; sys.exit(main())")
#: Of the twin: see `played`.
SWITCHING: Final = "PLAYED_SWITCH_INTERVAL_MS"
_WORKERS: Final = {"gevent": "gevent", "threads": "gthread", "permits": "greenlane.hosts.gunicorn.Worker"}


def contender_of(
    name: str, set_up: SetUp, classes: Mapping[str, str], application: str, settings: Path | None
) -> Contender:
    """The contender.

    Args:
        classes: the load's classes by route.
        application: `module:app`, as the service's command ends.
        settings: the greenlane.toml of a set-up that has one.

    Raises: PlanError when the lab cannot serve it so.
    """
    if set_up.host not in _WORKERS:
        raise _no(
            set_up, "host", set_up.host, f"one of {', '.join(_WORKERS)}", "the lab serves WSGI applications by gunicorn"
        )
    env = {"GREENLANE_CONFIG": str(settings) if settings else "", **_switching(set_up)}
    if set_up.queue == "central":
        command = (
            *_GREENLANE, "serve", application, "--kind", "wsgi", "--bind", "{address}",
            *(("--config", str(settings)) if settings else ()),
        )  # fmt: skip
        return Contender(name=name, command=command, env=env)
    own = {lane.processes for lane in set_up.hard}
    shared = set_up.processes - sum(lane.processes for lane in set_up.hard)
    apart = tuple(classes[route] for lane in set_up.hard for route in lane.routes if route in classes)
    if own and (own != {shared} or len(set_up.hard) > 1):
        rule = f"one lane with as many processes as the others have, {shared}"
        raise _no(set_up, "lanes", [lane.name for lane in set_up.hard], rule, "try that split by hand")
    return Contender(name=name, arguments=tuple(_arguments(set_up, shared)), apart=apart, env=env)


def _arguments(set_up: SetUp, processes: int) -> Sequence[str]:
    found = ["--worker-class", _WORKERS[set_up.host], "--workers", str(processes)]
    if set_up.host == "gevent":
        found += ["--worker-connections", str(set_up.limit or CONNECTIONS)]
        # A connection that waits for its next request would hold a place: the simulation has none, the advice says so.
        found += ["--keep-alive", "0"] if 0 < set_up.limit < CONNECTIONS else []
    else:
        found += ["--threads", str(set_up.limit or THREADS)]
    return [*found, "--reuse-port"] if set_up.queue == "reuse-port" else found


def _switching(set_up: SetUp) -> dict[str, str]:
    """The twin sets it for plain threads; Greenlane's worker has it from its settings, a loop has no use for it."""
    if set_up.host != "threads" or set_up.switch_interval_ms == SWITCH_MS:
        return {}
    return {SWITCHING: f"{set_up.switch_interval_ms:g}"}


def _no(set_up: SetUp, name: str, value: object, rule: str, hint: str) -> PlanError:
    return PlanError("verify the plan in the lab", name=name, value=value, rule=rule, hint=hint)
