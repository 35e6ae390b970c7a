"""`greenlane explain GL101`: what an error means, why it happens, and what to do.

`PAGES` is the one table of codes; docs/errors.md is written from it.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from greenlane.cli.command import Command
from greenlane.cli.output import Output
from greenlane.errors import ArgumentError
from greenlane.settings.refusal import nearest

__all__ = ["COMMAND", "PAGES", "Page", "number_of"]


@dataclass(frozen=True)
class Page:
    """What `greenlane explain` prints of one kind of error."""

    # `.code` of the exception.
    code: str
    means: str
    why: str
    do: str
    # A command or a message that shows it.
    example: str


PAGES: Final[Mapping[str, Page]] = {
    "GL101": Page(
        "settings",
        "A setting, flag, environment variable or key of the settings file is unknown or out of range.",
        "Greenlane refuses unknown names: a misspelt setting that is ignored would look as if it did not work.",
        "Correct the name or value that the message gives. `greenlane config` lists every setting and its origin.",
        "GREENLANE_PERMIT=2 greenlane config    # did you mean 'GREENLANE_PERMITS'?",
    ),
    "GL102": Page(
        "platform",
        "This interpreter or operating system cannot run what was asked for.",
        "Greenlane needs CPython 3.11 or later on Linux; some parts need a package or a checkout.",
        "Follow the hint of the message. `greenlane doctor` prints what was found.",
        "greenlane doctor",
    ),
    "GL103": Page(
        "argument",
        "An argument of a command cannot be used: a command to run, a file, a target, a route or a name.",
        "What it names does not exist, cannot be started or read, or is in the way.",
        "Correct the argument that the message names.",
        "greenlane record -- gunicron shop:app    # a program that can be started",
    ),
    "GL104": Page(
        "host",
        "The server (gunicorn, for example) is set up in a way that cannot work with Greenlane.",
        "The worker needs threads and a release of the server that it knows.",
        "Change the option that the message names. `greenlane doctor -- COMMAND` checks a command line.",
        "greenlane doctor -- gunicorn -k greenlane.hosts.gunicorn.Worker --threads 64 shop:app",
    ),
    "GL201": Page(
        "front",
        "HAProxy is missing, too old, or refuses its configuration.",
        "`greenlane serve` puts HAProxy in front of its workers.",
        "Install HAProxy 2.4 or later, or correct the setting that HAProxy refuses.",
        "apt-get install haproxy",
    ),
    "GL202": Page(
        "fleet",
        "A process that `greenlane serve` runs did not start, or does not answer.",
        "Usually the application fails while it is imported.",
        "Read the log above the message; start the application alone with `python -c 'import shop'`.",
        "greenlane serve --status",
    ),
    "GL301": Page(
        "recording",
        "A recording is missing, damaged, or written by a later release.",
        "The path is wrong, the copy is incomplete, or the reader is older than the recorder.",
        "Check the path. Update greenlane-tools. For an interrupted recording, run `greenlane record --merge`.",
        "greenlane record --merge shop.glr",
    ),
    "GL302": Page(
        "record",
        "The recording could not be made. What was recorded until then is kept.",
        "The program ended before it served a request, the disk is full, or a permission is missing.",
        "Follow the hint; send some requests before the program ends.",
        "greenlane record -o shop.glr -- gunicorn shop:app",
    ),
    "GL303": Page(
        "control",
        "A running process cannot be reached over its control socket, or refuses the request.",
        "The service has no `control_dir`, another one, or belongs to another user.",
        "Set the same `control_dir` for the service and for the command, and run both as one user.",
        "GREENLANE_CONTROL_DIR=/run/greenlane greenlane status",
    ),
    "GL304": Page(
        "plan",
        "A profile, goal or what-if cannot be used for planning.",
        "It is missing, damaged, too short, or contradicts itself.",
        "Record a longer time under normal load, or correct the part that the message names.",
        "greenlane plan shop.glr --goal 'bikes p99 <= 500ms'",
    ),
    "GL401": Page(
        "placement",
        "A function cannot run where it was asked to run.",
        "It is not a function, belongs to an event loop, or its arguments cannot be sent to another process.",
        "Move the function to a module, or choose another placement: `@placed(\"thread\")`.",
        "greenlane.run(price, bikes)    # price is defined in a module",
    ),
    "GL402": Page(
        "overloaded",
        "A bounded queue is full. The call was refused and nothing of it was done.",
        "More calls arrive than the thread, processes or cluster complete.",
        "Answer 503, retry later, or add capacity. Raise the limit only if callers can wait that long.",
        "placed_queue = 2048",
    ),
    "GL403": Page(
        "worker-died",
        "The process that ran a call is gone. The call may be half done.",
        "It was killed (out of memory), crashed in native code, or exited.",
        "Look at the exit status in the message and at `dmesg`. Repeat the call only if it is idempotent.",
        "dmesg | grep -i 'out of memory'",
    ),
    "GL404": Page(
        "deadline",
        "The job is past its deadline. It is also a TimeoutError.",
        "`deadline_cancel` is on and the caller's deadline has passed.",
        "Let it propagate: nobody waits for the answer. Handle TimeoutError where you clean up.",
        "except TimeoutError: connection.rollback()",
    ),
    "GL501": Page(
        "store",
        "The store of tasks cannot be used, so the task waits.",
        "Without the store it is unknown whether the task has run already.",
        "See the more precise code in the log: GL502 is retried, GL503 needs an operator.",
        "task_store = \"sqlite:////var/lib/shop/orders.db\"",
    ),
    "GL502": Page(
        "store-gone",
        "The store of tasks cannot be used now: locked, full or unreachable. It is retried.",
        "The database restarts, the disk is full, or another process holds a lock.",
        "Bring the database back; the tasks continue without a restart.",
        "greenlane top",
    ),
    "GL503": Page(
        "store-refused",
        "The store of tasks cannot be used until an operator acts.",
        "Credentials are wrong, the file is damaged, or a later release wrote it.",
        "Correct what the message names; the workers try again by themselves.",
        "GREENLANE_TASK_STORE=postgresql://shop@db/orders",
    ),
    "GL504": Page(
        "order-waits",
        "A task cannot run now; nothing was done. Retry it later.",
        "Another worker runs the same task, or the store cannot be asked.",
        "Retry after the time that the message gives. A Greenlane worker does so itself.",
        "raise self.retry(countdown=error.wait_s)  # in a task with max_retries=None",
    ),
    "GL505": Page(
        "dead-letters",
        "Dead letters cannot be shown or sent again.",
        "The broker is unreachable, or there is no queue of that name.",
        "Check `--broker` and the name of the queue (without `.dead`).",
        "greenlane dead-letters orders --broker amqp://localhost",
    ),
    "GL506": Page(
        "diversion",
        "The share of diverted tasks cannot be set or reached.",
        "The folder or Redis of `diversion` is unreachable, or the share is not between 0 and 100 %.",
        "Check `diversion` in the settings of producers and of this command: both need the same.",
        "greenlane divert orders --to orders-v2 --share 30%",
    ),
    "GL507": Page(
        "diversion-text",
        "The stored share is not one that this release can read.",
        "It is damaged, belongs to another program, or a later release wrote it.",
        "Set the share again with this release.",
        "greenlane divert orders --to orders-v2 --share 0",
    ),
}  # fmt: skip


def number_of(code: str) -> str:
    """The number under which an error's `.code` is explained; "" = none."""
    return next((number for number, page in PAGES.items() if page.code == code), "")


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("number", nargs="?", metavar="CODE", help="as the message names it: GL101; default: list all")


def _run(arguments: argparse.Namespace, output: Output) -> int:
    if arguments.number is None:
        output.table([{"code": number, "means": page.means} for number, page in PAGES.items()], ("code", "means"))
        return 0
    wanted = arguments.number.upper()
    number = wanted if wanted in PAGES else number_of(arguments.number)
    if not number:
        hint = nearest(wanted, PAGES) or "`greenlane explain` lists them"
        raise ArgumentError("CODE", arguments.number, "a code that a message shows", hint, attempted="explain an error")
    page = PAGES[number]
    output.line(output.styled(f"{number} ({page.code})", "bold"))
    for title, text in (("means", page.means), ("why", page.why), ("do", page.do), ("example", page.example)):
        output.line(f"{title + ':':9}{text}")
    return 0


COMMAND: Final = Command(
    "explain", "explain an error by the code in its message", _declare, _run,
    examples=("greenlane explain GL101", "greenlane explain"),
)  # fmt: skip
