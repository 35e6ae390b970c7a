"""`greenlane try`: stock gunicorn and Greenlane under the same load, in half a minute: our service, or yours."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shutil
import tempfile
import textwrap
import threading
import webbrowser
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Final

from greenlane.cli.command import Command
from greenlane.cli.extra import needed
from greenlane.cli.output import Output, environment
from greenlane.errors import RecordingError, SettingsError

if TYPE_CHECKING:
    from greenlane_tools.cli.tryout.service import Route, Service
    from greenlane_tools.lab.samples import Samples

__all__ = ["COMMAND"]

_CITY: Final = "greenlane_tools.demo.city:app"
#: Its routes, how often each is asked for beside the others, and when bikes are worthless.
_CITY_ROUTES: Final = {"/bikes": 6.0, "/price": 3.0, "/report": 1.0}
_CITY_DEADLINE_MS: Final = 500.0
#: Of one core: what computes has to wait for others, and still comes to an end.
_UTILISATION_FRAC: Final = 0.87
_MOST_PER_S: Final = 200.0
#: A route in time takes at most so much longer than alone, and this is no delay yet.
_LATE_FACTOR: Final = 1.5
_LATE_MS: Final = 50.0
_SEED: Final = "try"


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("app", nargs="?", default=_CITY, metavar="APP", help="MODULE:NAME, WSGI (our own service)")
    parser.add_argument("--route", action="append", default=[], metavar="PATH", help="asked for; the first is watched")
    parser.add_argument("--seconds", type=_seconds, default=9.0, metavar="S", help="of load for each of the two (9)")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="the recording; its page lies beside it")


def _seconds(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 2 <= float(text) <= 600:
            return float(text)
    raise argparse.ArgumentTypeError(f"{text!r}, expected a number from 2 to 600 (s)")


def _run(arguments: argparse.Namespace, output: Output) -> int:
    with needed("demo", "try an application"):
        import gunicorn  # noqa: F401 # what serves it
        import numpy  # noqa: F401 # what the load is made of

    from greenlane_tools.lab.ending import exit_code

    return exit_code("try an application", lambda: _tried(arguments, output), output.err, "stopped; all has ended")


def _tried(arguments: argparse.Namespace, output: Output) -> int:
    from greenlane_tools.cli.tryout import service
    from greenlane_tools.cli.tryout.numbers import lines

    is_ours = arguments.app == _CITY
    routes = [service.Route(path) for path in arguments.route]
    if is_ours and not routes:
        routes = [service.Route(path, weight) for path, weight in _CITY_ROUTES.items()]
    _check_routes([route.path for route in routes])
    if not is_ours:
        service.check(arguments.app)
    with tempfile.TemporaryDirectory(prefix="greenlane-try-") as scratch:
        folder = Path(scratch)
        record = arguments.output or Path(tempfile.mkdtemp(prefix="greenlane-try-"), "stock.glr")
        output.say("stock gunicorn (gthread, 64 threads), recorded:")
        with service.serve(arguments.app, "stock", folder, record) as serving:
            routes = [service.measured(serving, route) for route in routes]
            alone_ms = routes[0].alone_ms
            deadline_ms = _CITY_DEADLINE_MS if is_ours else max(alone_ms * _LATE_FACTOR, alone_ms + _LATE_MS)
            found = {"stock": _loaded(serving, "stock    ", routes, deadline_ms, arguments.seconds, output)}
        output.say("with Greenlane's worker, the same load:")
        with service.serve(arguments.app, "greenlane", folder) as serving:
            for route in routes:
                service.measured(serving, route)
            found["greenlane"] = _loaded(serving, "greenlane", routes, deadline_ms, arguments.seconds, output)
    columns = shutil.get_terminal_size().columns
    output.line()
    for line in lines(found, routes, deadline_ms, columns):
        output.line(line)
    _report(record, columns, output)
    return 0


def _check_routes(paths: Sequence[str]) -> None:
    hint = "greenlane try shop:app --route /quick --route /slow"
    if not paths:
        raise SettingsError("--route", None, "one path at least, better two", hint, attempted="try an application")
    for path in paths:
        if not path.startswith("/") or not path.isascii() or " " in path or not path.isprintable():
            rule = "a path that begins with '/', percent-encoded"
            raise SettingsError("--route", path, rule, hint, attempted="try an application")


def _loaded(
    serving: Service, name: str, routes: Sequence[Route], deadline_ms: float, seconds: float, output: Output
) -> Samples:
    """Send the load, while riders ask for the first route."""
    from greenlane_tools.cli.tryout.strip import Strip, ride
    from greenlane_tools.lab.load.generate import Generated, generate
    from greenlane_tools.lab.load.plan import Plan, Poisson, Stream

    rate = _UTILISATION_FRAC * 1000 / sum(max(route.cpu_ms, 0.1) * route.weight for route in routes)
    streams = [
        Stream(route.path, serving.address, Poisson(min(_MOST_PER_S, rate * route.weight)), route.path,
               cost_ms=route.cpu_ms)
        for route in routes
    ]  # fmt: skip
    load: Future[Generated] = Future()

    def send() -> None:
        try:
            load.set_result(generate(Plan(_SEED, seconds, tuple(streams))))
        except Exception as error:
            load.set_exception(error)

    threading.Thread(target=send, daemon=True).start()
    asyncio.run(ride(Strip(output, name), serving.address, routes[0].path, deadline_ms, seconds))
    if load.result().saturated:
        output.say(f"note: {load.result().warning()}")
    return load.result().samples


def _report(record: Path, columns: int, output: Output) -> None:
    """Say who waits for whom, and write the page."""
    from greenlane_tools.reader.recording import open_recording
    from greenlane_tools.reader.window import Window
    from greenlane_tools.report import study, text
    from greenlane_tools.report.page import page

    try:
        found = study.study_of(open_recording(record, Window(None, "", "")))
    except RecordingError as error:
        output.say(f"greenlane: {error}")
        return
    for said in (found.verdict.sentence, f"Do: {found.verdict.remedy.text}."):
        output.line()
        for line in textwrap.wrap(text.plain(said), columns):
            output.line(line)
    written = record.with_suffix(".html")
    written.write_text(page(found, record.name, environment()), "utf-8", errors="backslashreplace")
    output.line(f"page: {written}")
    # A browser of the terminal would take it over.
    if output.out.isatty() and (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        webbrowser.open(written.as_uri())


COMMAND: Final = Command(
    "try", "stock gunicorn and Greenlane under the same load, in 30 s", _declare, _run,
    examples=("greenlane try", "greenlane try shop:app --route /quick --route /slow"),
)  # fmt: skip
