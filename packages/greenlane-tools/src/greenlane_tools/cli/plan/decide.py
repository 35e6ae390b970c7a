"""`greenlane plan decide`: stay, pool, shared memory, native code or a service of its own, with your own numbers."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from greenlane.cli.command import Command
from greenlane.cli.output import Output
from greenlane.errors import PlanError
from greenlane_tools.cli.plan.arguments import SOURCE, declare_skip

if TYPE_CHECKING:
    from greenlane_tools.plan.decision_ways import Case

__all__ = ["COMMAND"]

#: Options by the case's fields: type, metavar, help. What is not given is the source's, or the default.
_NUMBERS: Final = {
    "rate_per_s": ("--rate", float, "N", "requests a second, all machines together"),
    "cpu_ms": ("--cpu", float, "MS", "CPU of a request on its loop"),
    "heavy_ms": ("--heavy", float, "MS", "of it, what could go elsewhere"),
    "io_ms": ("--io", float, "MS", "I/O of a request, until replies are there"),
    "io_groups": ("--waits", int, "N", "how often it waits for I/O"),
    "moved_mb": ("--mb", float, "MB", "that the heavy part needs, as JSON"),
    "result_mb": ("--result-mb", float, "MB", "that it gives"),
    "machines": ("--machines", int, "N", "that share the rate"),
    "processes": ("--processes", int, "N", "loops on each"),
    "cores": ("--cores", int, "N", "of each"),
    "workers": ("--workers", int, "N", "processes of a pool for each loop"),
    "link_gbit_per_s": ("--link", float, "GBIT", "a machine's network, Gbit/s"),
    "native": ("--native", float, "X", "how many times less CPU the heavy part takes in native code"),
    "cap_ms": ("--cap", float, "MS", "mean latency that must be kept"),
}
_NEEDED: Final = ("rate_per_s", "cpu_ms", "heavy_ms", "io_ms")
_ATTEMPT: Final = "decide where work runs"


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", nargs="?", help=f"{SOURCE}; options count more than it")
    parser.add_argument("--route", metavar="NAME", help="of the source, this route alone; also a word of it")
    for field, (option, kind, metavar, text) in _NUMBERS.items():
        parser.add_argument(option, dest=field, type=kind, metavar=metavar, help=text)
    parser.add_argument("--buffers", action="store_true", help="bytes or arrays are moved, not Python objects")
    parser.add_argument("--orjson", action="store_true", help="a service of its own would speak orjson, not json")
    declare_skip(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object: a row for each way")


def _run(arguments: argparse.Namespace, output: Output) -> int:
    from greenlane_tools.plan.costs import ORJSON
    from greenlane_tools.plan.decision import decided
    from greenlane_tools.plan.decision_ways import Case

    given = {field: getattr(arguments, field) for field in _NUMBERS if getattr(arguments, field) is not None}
    if arguments.source is not None:
        case = _case(arguments, given, output)
    else:
        missing = [_NUMBERS[field][0] for field in _NEEDED if field not in given]
        if missing:
            hint = "greenlane plan decide --rate 20 --cpu 60 --heavy 50 --io 120 --mb 4"
            rule = "a number for each, or a source"
            raise PlanError(_ATTEMPT, name=", ".join(missing), value="", rule=rule, hint=hint)
        case = Case(**given)
    if arguments.buffers:
        case = replace(case, objects=False)
    if arguments.orjson:
        case = replace(case, encoding=ORJSON)
    found = decided(case)
    if arguments.json:
        output.document("plan-decide", found.rows())
        return 0
    first, *lines = found.said().splitlines()
    output.line(output.styled(first, "bold"))
    for line in lines:
        output.line(line)
    output.line()
    for each in found.options:
        output.line(f"{each.name} rests on: {each.rests_on}")
    return 0


def _case(arguments: argparse.Namespace, given: dict[str, Any], output: Output) -> Case:
    """The source's, with what was given instead. Says what the source does not know and was not given."""
    from greenlane_tools.plan.decision import case_of
    from greenlane_tools.plan.sources import opened
    from greenlane_tools.plan.what_if import route_named

    profile = opened(arguments.source, skip_s=arguments.skip)
    named = arguments.route
    route = None if named is None else route_named(profile, "--route", named, _ATTEMPT)
    chosen = profile.routes if route is None else (route,)
    if "moved_mb" not in given and all(each.bytes_in is None for each in chosen):
        output.say("note: how many bytes move is not known: 0 is assumed; give --mb")
    return replace(case_of(profile, None if route is None else route.route), **given)


COMMAND: Final = Command("decide", "stay, pool, shared memory, native or a service of its own", _declare, _run)
