"""The one table of what is changed in a process: kinds of names, who changes them, when, and how they go back.

`docs/guest.md` is made of it and of real processes: `python -m tests.trace.table` writes it, from the folder of the
checkout with the tests' PYTHONPATH (`make docs` sets it).
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.trace.hosts import HOSTS, State, trace

PAGE = Path(__file__).resolve().parents[4] / "docs" / "guest.md"


@dataclass(frozen=True)
class Kind:
    """Names that are changed together. The first kind whose pattern matches a name has it."""

    title: str
    pattern: str
    by: str
    back: str
    #: It is there after `off`, after `out`: the reason stands in `back`.
    stays_off: bool = False
    stays_out: bool = False


KINDS = (
    Kind(
        "publishing in Celery",
        r"(attribute|code) celery\.(execute\.send_task|backends\.base\.DisabledBackend\.mark_as_(done|failure))",
        "`greenlane celery`, in its own app: after an order's function has ended, `send_task` waits for a broker that"
        " is away; with results in Redis so does `on_chord_part_return`. With a result backend, its class's"
        " `store_result`, `mark_as_done` and `mark_as_failure` bear that it is away; without one the last two note"
        " that they were called",
        "stays: orders are still in progress", True, True,
    ),
    Kind(
        "copies of a wrapper", r"attribute (celery\.worker\.|kombu\.|anyio\.|uvicorn\.|gunicorn\.).*",
        "the program: `from time import sleep` while the probe stood there",
        "stay: the program's own name. What they call has become a pass-through", True, True,
    ),
    Kind(
        "what starts threads and programs, and what counts cores",
        r"native .*\._?(sched_[gs]etaffinity|posix_spawnp?|system|fork_exec|start_(new|(new|joinable)_thread))"
        r":ml_meth",
        "`cores`, likewise: what a thread starts that keeps to one core uses all, and who asks is told all",
        "`off` and detach put the pointer back",
    ),
    Kind(
        "C functions that block",
        r"native (?!gevent\.|uvloop\.|(posix|os)\.(_exit|execve?):|_imp\.).*:(ml_meth|tp_dealloc)",
        "`probes.native`: the pointer in a function's method table; Python sees the same objects",
        "`off` and detach put the pointer back",
    ),
    Kind(
        "hash of C functions", r"native builtins\.builtin_function_or_method:tp_hash",
        "the same probes: CPython computes this hash from the changed pointer, and the hash must not change",
        "with the last of those pointers", True, False,
    ),
    Kind(
        "Python functions with extended code", r"code .*",
        "`probes.bodies`: the function object stays, and its code calls ours. Threads, futures, "
        "semaphores, pools of connections, HTTP clients, asyncio's loops and servers while recorded; the deadline of "
        "HTTP clients",
        "`off`, detach: the function has its own code",
    ),
    Kind(
        "process exit", r"native (posix|os|gevent\.os)\.(_exit|execve?):ml_meth",
        "the recorder, like C functions that block: it writes its events first; `cores`: the next program uses all",
        "detach", True, False,
    ),
    Kind(
        "imports of extension modules", r"native _imp\..*",
        "the recording: new modules call libc, too", "`off`, detach",
    ),
    Kind(
        "methods of uvloop's loop", r"native uvloop\..*:ml_meth",
        "`probes.asyncio`, while recorded, like C functions that block", "`off`, detach",
    ),
    Kind(
        "methods of gevent that wait", r"native gevent\.(?!os\.).*:ml_meth",
        "`probes.gevent`, while recorded, like C functions that block", "`off`, detach",
    ),
    Kind("libc's calls of other modules", r"slot .*", "the recorder (GOT), while recorded", "`off`, detach"),
    Kind("import hook", r"sys\.meta_path", "`probes.imports`: one finder", "`off`, detach"),
    Kind("garbage collections", r"gc\.callbacks", "the recording; `greenlane.health`, while old objects are collected",
         "`off`, detach; `greenlane.health(\"\")`"),
    Kind("the switch interval", r"switch interval", "permits, while one is held", "with the permit; `off`, detach"),
    Kind(
        "our threads", r"(native thread|Python thread|signal mask) (greenlane|python).*",
        "the recording: writer, sampler; the control socket; gunicorn's worker: its pool; `cores`: the one that watches"
        " them; `greenlane.health`: two",
        "detach, `greenlane.health(\"\")`; `off` keeps those that can switch on again. A worker's own threads stay",
        True, False,
    ),
    Kind(
        "our descriptors", r"descriptor .*",
        "the recording: its file; the control socket; gunicorn's worker: its own. Not counted here, since it comes and"
        " goes: a socket without a file, while threads keep to a core (`cores`)",
        "detach; `off` keeps the one that can switch on again. A worker's own stay", True, False,
    ),
    Kind(
        "fork hooks", r"fork hook .*", "parts with threads or permits",
        "stay: Python cannot remove them. They do nothing", True, True,
    ),
    Kind(
        "exit hooks", r"exit hook NoneType\.(guard_endings|sampler_stop)", "`greenlane._native` as it is loaded",
        "stay: none of our native threads may run into the interpreter's end", True, True,
    ),
    Kind("exit hooks while active", r"exit hook .*", "the recording, the control socket", "detach", True, False),
    Kind(
        "environment", r"environment CELERY_CUSTOM_WORKER_POOL", "`greenlane celery`, for its own process",
        "stays: it names the pool that runs", True, True,
    ),
)  # fmt: skip

#: Hosts that are our processes keep theirs after detaching: host -> titles of kinds.
KEEP: Mapping[str, frozenset[str]] = {
    "gunicorn": frozenset({"our threads", "our descriptors"}),
    # Its clocks see the blocking calls with the same probes, whatever the permits' mode.
    "serve": frozenset({"C functions that block", "hash of C functions", "import hook"}),
}
#: host -> titles that `off` leaves there.
KEEP_OFF: Mapping[str, frozenset[str]] = {"serve": KEEP["serve"], "health": frozenset({"garbage collections"})}


def kind_of(name: str) -> Kind | None:
    return next((kind for kind in KINDS if re.fullmatch(kind.pattern, name)), None)


def left(host: str, names: Iterable[str], state: str) -> list[str]:
    """Names that have no business to be there after `off` or `out`."""
    kept = (KEEP_OFF if state == "off" else KEEP).get(host, frozenset())
    wrong = []
    for name in names:
        kind = kind_of(name)
        stays = kind is not None and (kind.stays_off if state == "off" else kind.stays_out)
        if kind is None or not (stays or kind.title in kept):
            wrong.append(name)
    return sorted(wrong)


def page(traces: Mapping[str, State]) -> str:
    """The page, from what real processes have told."""
    rows: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for host, states in traces.items():
        for name in states["on"]:
            kind = kind_of(name)
            assert kind is not None, f"{host}: {name} is in no row of the table"
            rows[kind.title][name].add(host)
    lines = [_HEAD]
    for kind in KINDS:
        if names := rows.get(kind.title):
            hosts = sorted(set().union(*names.values()), key=list(HOSTS).index)
            cells = (kind.title, ", ".join(hosts), str(len(names)), kind.by, kind.back)
            lines.append("| " + " | ".join(cells) + " |")
    lines.append("\n## The names\n")
    lines.append("CPython 3.11; another one has some more or fewer.\n")
    for kind in KINDS:
        if names := rows.get(kind.title):
            lines.append(f"**{kind.title}**: {_listed(names)}.\n")
    return "\n".join(lines).rstrip("\n") + "\n"


def _listed(names: Iterable[str]) -> str:
    """By owner: `socket.socket` accept, connect."""
    owners: dict[str, list[str]] = defaultdict(list)
    for name in sorted(names):
        kind, _, path = name.partition(" ")
        path = path.partition(":")[0]
        owner, last = path.rpartition(".")[::2] if kind in ("attribute", "code", "native") else ("", name)
        owners[owner].append(last)
    return "; ".join(f"`{owner}` {', '.join(lasts)}" if owner else "; ".join(lasts) for owner, lasts in owners.items())


_HEAD = """# What Greenlane changes in your process

<!-- Written by `make docs` from real processes; packages/greenlane/tests/trace compares it with them. -->

Greenlane is a guest. This is the whole list of what it changes, found by looking at every attribute of every module and
class, every C function's table, every slot through which loaded objects call each other, and at descriptors, threads,
signals, environment and hooks: before Greenlane is loaded, while it works, after `off`, and after it is taken out. Each
process is compared with the same one without Greenlane.

- **off**: `greenlane mode off`, `greenlane record --off`. Both can be switched on again.
- **detach**: `Running.stop()` and the end of the recording. The code of modules stays imported.

With `cores = auto` threads that run jobs keep to one core while that pays; nothing that they start does. `off` and
detach let them use all. What asks the kernel itself which cores such a thread has (psutil, native code) is told one.
Threads and programs that native code starts by itself have all within half a second.

| what | where | names | by what, when | put back |
|---|---|---|---|---|"""


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        traces = {}
        for host in HOSTS:
            (at := Path(folder, host.replace(" ", "-"))).mkdir()
            traces[host] = trace(host, at)
    PAGE.write_text(page(traces), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
