"""`greenlane plan bounds`: what theory says of some work, each answer with its formula and where that stops holding."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from greenlane.cli.command import Command
from greenlane.cli.output import Output
from greenlane.errors import PlanError
from greenlane_tools.cli.plan.arguments import SOURCE, declare_looking

if TYPE_CHECKING:
    from greenlane_tools.plan.answers import Asked

__all__ = ["COMMAND"]


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", nargs="?", help=f"{SOURCE}; none: --cpu and --io say the work")
    parser.add_argument("--route", metavar="NAME", help="of the source, this route alone; also a word of it")
    parser.add_argument("--cpu", type=float, metavar="MS", help="CPU of a request")
    parser.add_argument("--io", type=float, metavar="MS", help="I/O of a request, until replies are there")
    parser.add_argument("--cv2", type=float, metavar="N", help="variance of the CPU over its mean's square (1)")
    parser.add_argument("--at-once", type=int, metavar="N", help="requests in progress in a process")
    parser.add_argument("--rate", type=float, metavar="N", help="requests a second to all processes")
    parser.add_argument("--processes", type=int, metavar="N", help="processes that serve them (1)")
    declare_looking(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object: a row for each answer")


def _run(arguments: argparse.Namespace, output: Output) -> int:
    from greenlane_tools.plan.answers import answers

    found = answers(_asked(arguments))
    if arguments.json:
        output.document("plan-bounds", ({"answer": name, **each.to_json()} for name, each in found.items()))
        return 0
    for name, each in found.items():
        output.line(f"{output.styled(name, 'bold')}  {each.said()}")
        output.line(f"    holds: {each.formula.holds}")
        output.line(f"    stops: {each.formula.stops}")
    return 0


def _asked(arguments: argparse.Namespace) -> Asked:
    from greenlane_tools.plan.answers import Asked, Work, work_of
    from greenlane_tools.plan.sources import opened
    from greenlane_tools.plan.what_if import route_named

    if arguments.source is None:
        if arguments.cpu is None or arguments.io is None:
            hint = "greenlane plan bounds --cpu 5 --io 55, or a profile"
            raise PlanError("compute bounds", name="--cpu and --io", value="", rule="both, or a source", hint=hint)
        work = Work(arguments.cpu, arguments.io, 1.0 if arguments.cv2 is None else arguments.cv2)
        return Asked(work, arguments.at_once, arguments.rate, arguments.processes or 1)
    if arguments.cpu is not None or arguments.io is not None or arguments.cv2 is not None:
        hint = "greenlane plan SOURCE --cpu ROUTE=MS asks what would be if"
        raise PlanError("compute bounds", name="--cpu, --io, --cv2", value="", rule="none beside a source", hint=hint)
    profile = opened(arguments.source, seconds=arguments.seconds, skip_s=arguments.skip)
    named = arguments.route
    route = None if named is None else route_named(profile, "--route", named, "compute bounds")
    rate_per_s = profile.arrivals.rate_per_s if route is None else route.rate_per_s
    return Asked(
        work_of(profile, None if route is None else route.route),
        arguments.at_once or profile.slots,
        rate_per_s if arguments.rate is None else arguments.rate,
        arguments.processes or profile.processes,
        profile.arrivals.dispersion,
    )


COMMAND: Final = Command("bounds", "what theory says of some work, each answer with its formula", _declare, _run)
