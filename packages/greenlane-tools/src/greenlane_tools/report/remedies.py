"""What helps against what: a table of resource and cause, with the remedy, how to check it, and when it is wrong.

A remedy stands here only if it was applied and measured (`tests/truths`). The first row that fits is taken; a remedy
that cannot help has no row: permits do not shorten one C call, threads do not add connections to a pool, permits do not
run under gevent, and no lane shortens a call that waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["REMEDIES", "Remedy", "RemedyRow", "remedy_for"]


@dataclass(frozen=True)
class Remedy:
    """What to do, for one verdict."""

    #: A short stable name.
    key: str
    text: str
    #: How to see that it helped, or that the cause is another.
    check: str


@dataclass(frozen=True)
class RemedyRow:
    """One row. Texts may name {victim}, {holder}, {line}, {at} (the same after its preposition), {call}, {resource},
    {more} (its places now, and one) and {meanwhile}."""

    #: As in the verdict: its resource's kind, and what the holder does with it; "" = any.
    kind: str
    cause: str
    key: str
    text: str
    #: When it does not help.
    wrong_when: str
    #: How the jobs are served: threads, loop, gevent, celery; empty = any.
    families: tuple[str, ...] = ()
    #: What to look at, where that is not the victim's p99 in a second recording.
    check: str = ""


_COMPARE: Final = (
    "Record again under the same load; `greenlane report AFTER --compare BEFORE` must show a lower p99 of {victim}."
)
_CALL: Final = "await asyncio.to_thread({call})"

#: By resource, then by cause; the first row that fits is taken.
REMEDIES: Final[tuple[RemedyRow, ...]] = (
    RemedyRow("errors", "", "read_error", "Read the traceback of the first 5xx in the service's log, and mend that",
              "the errors are answers that were meant (a limit, a maintenance page)",
              check="Record again: its answers must be below 500, only then do its times say something."),
    # --- one C call
    RemedyRow("c_call", "", "own_process",
              "Make the call {at} shorter, or run it in a process: "
              "`concurrent.futures.ProcessPoolExecutor`, or a server of its own for {holder}. "
              "No order of threads cuts one C call",
              "the call gives the GIL away (zlib, hashlib, a driver): then threads are enough"),
    # --- Python code on threads
    RemedyRow("gil", "many", "more_processes",
              "Serve with more processes and fewer threads in each: no stretch is long, there are many",
              "all cores are busy already: then only less work helps"),
    RemedyRow("gil", "serializes", "less_encoding",
              "Encode less {at}: return a Response with bytes that are encoded once, or fewer rows a page",
              "the rows differ in every answer and all are needed"),
    RemedyRow("gil", "long", "own_process",
              "Shorten {line}, or run it in a process: concurrent.futures.ProcessPoolExecutor, or a server of its own "
              "for {holder}",
              "it shares much state with the rest", families=("loop", "gevent")),
    RemedyRow("gil", "long", "own_process",
              "Shorten {line}, or serve {holder} in processes of its own: they take turns already",
              "it shares much state with the rest", families=("turns",)),
    RemedyRow("gil", "long", "take_turns",
              "Shorten {line}, or let short jobs go first: serve with `-k greenlane.hosts.gunicorn.Worker`, or give "
              "{holder} processes of its own",
              "the stretch is one C call, or the service runs under gevent", families=("threads",)),
    RemedyRow("gil", "long", "own_process",
              "Shorten {line}, or give {holder} a queue and workers of its own",
              "all tasks are alike", families=("celery",)),
    # --- the event loop
    RemedyRow("loop", "blocks", "to_thread",
              "Use an asynchronous client {at}, or call it off the loop: `" + _CALL + "`",
              "the call computes: then a thread competes for the GIL with the loop", families=("loop",)),
    RemedyRow("loop", "blocks", "gevent_blocked",
              "Call it off the loop {at}: `gevent.get_hub().threadpool.apply({call})`, or serve with threads: "
              "`-k gthread --threads 16`",
              "the call computes", families=("gevent",)),
    RemedyRow("loop", "serializes", "encode_off_loop",
              "Encode once, or off the loop: return a `Response` with bytes from {holder}, without a response_model",
              "answers are small", families=("loop",)),
    RemedyRow("loop", "computes", "off_loop",
              "Move the computation {at} off the loop: `await greenlane.run({call})`",
              "the call waits for something outside: then use a thread or an asynchronous client", families=("loop",)),
    RemedyRow("loop", "computes", "off_loop",
              "Move the computation {at} off the loop: `greenlane.run({call})`; or serve with threads in place of "
              "gevent: `-k greenlane.hosts.gunicorn.Worker --threads 32`",
              "it calls something that waits through gevent", families=("gevent",)),
    RemedyRow("loop", "many", "more_processes",
              "Serve with more processes: no stretch is long, there are many",
              "all cores are busy already: then only less work helps"),
    # --- pools, executors, locks
    RemedyRow("connection_pool", "elsewhere", "release_connection",
              "Give the connection back before it waits for something else: end the session or `with` block of {line} "
              "earlier. A larger pool helps only as far as what it connects to bears more",
              "what it does meanwhile needs the same transaction"),
    RemedyRow("connection_pool", "", "larger_pool",
              "Open {more} connections, give {holder} a pool of its own, or shorten {line}",
              "the database itself is full: then each query gets slower"),
    RemedyRow("executor", "shared", "own_executor",
              "Give {call} an executor of its own: `loop.run_in_executor(ThreadPoolExecutor(8), {call})`. What else "
              "shares {resource} (names are resolved there, too) then has its threads",
              "only one kind of work uses it", families=("loop",)),
    RemedyRow("executor", "computes", "more_processes",
              "Serve with more processes: threads of one process compute in turns, so more of them do not help",
              "all cores are busy already"),
    RemedyRow("executor", "waits", "split_tasks",
              "Start the worker with `greenlane celery APP --key KEY`, or with more slots (`-c`): tasks that wait for "
              "one upstream then no longer hold all slots",
              "the tasks compute", families=("celery",)),
    RemedyRow("executor", "waits", "more_threads",
              "Give {resource} {more} threads, or make {line} wait for less: the threads wait, they do not compute",
              "what they wait for is limited itself: a pool of connections, a lock"),
    RemedyRow("executor", "queue", "more_connections",
              "Open more connections, or make fewer calls: {resource} does one call at a time",
              "the calls write, and one writer at a time is the limit"),
    RemedyRow("executor", "unnamed", "look_closer",
              "Find the pool: `py-spy dump --pid PID` while it is slow shows the line at which threads wait for it. "
              "Then hold its places for less time, or give it more", "",
              check="Most threads of {victim} stand at that line."),
    RemedyRow("executor", "", "more_threads",
              "Give {resource} {more} threads, if they wait and do not compute",
              "what they wait for is limited itself: a pool of connections, a lock"),
    RemedyRow("lock", "unnamed", "shorten_hold",
              "Hold that lock for less. `py-spy dump --pid PID` while it is slow shows the line at which threads of "
              "{victim} wait for it, and who is inside",
              "what it protects must not change meanwhile"),
    RemedyRow("lock", "", "shorten_hold",
              "Hold the lock {at} for less: move what waits or computes out of it",
              "what it protects must not change meanwhile"),
    RemedyRow("semaphore", "", "shorten_hold",
              "Make what is done {at} shorter, or let {more} do it at a time",
              "the limit protects something that bears no more"),
    RemedyRow("process_pool", "", "more_workers",
              "Give {resource} {more} processes, as far as there are cores, or shorten {line}",
              "all cores are busy already"),
    # --- before the first instruction
    RemedyRow("accept", "", "proxy_buffers",
              "Put a proxy that buffers requests and answers (nginx) before it, or serve with threads or a loop: a "
              "slow client then holds no worker",
              "the workers are busy with work of their own"),
    RemedyRow("prefetch", "", "lower_prefetch",
              "Set `worker_prefetch_multiplier = 1` and `task_acks_late = True`: a task then waits at the broker, "
              "where any free worker takes it",
              "tasks are so short that fetching them one by one costs more"),
    RemedyRow("parked", "", "raise_limit",
              "Raise what holds the tasks back ({resource}), or make {holder} faster", "the limit is meant"),
    # --- the machine, the interpreter
    RemedyRow("collector", "", "freeze",
              "Call `gc.collect(); gc.freeze()` after the start, or make fewer objects {at}",
              "the objects of each request form cycles"),
    RemedyRow("quota", "", "more_quota", "Raise the container's CPU quota, or run fewer threads and processes in it",
              "the service is not throttled", check="cpu.stat of its cgroup: nr_throttled must no longer grow."),
    RemedyRow("machine", "native_threads", "one_native_thread",
              "Start the service with OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1: its native threads compete",
              "one job at a time computes, and is to be fast"),
    RemedyRow("machine", "", "more_cores",
              "Give it more cores or fewer neighbours: other processes had the cores",
              "the service's own processes are those neighbours: then start fewer of them"),
    # --- nobody waits
    RemedyRow("upstream", "", "upstream",
              "Look into {resource} itself, ask it less often, or ask for several things at a time: the process adds "
              "little",
              "its own clock says less than the wire: then the network or its queue is slow"),
    RemedyRow("none", "computes", "shorten_line", "Make {line} do less: {victim} takes this time by itself",
              "it is fast enough"),
    RemedyRow("none", "", "none", "Nothing: requests hardly wait for each other", "it was recorded without load",
              check="Record under the load that hurts."),
    # --- what has no name yet
    RemedyRow("unknown", "blocked in a call", "look_closer",
              "Name the call: `strace -c -f -w -p PID` while it is slow. On a loop, move it to a thread",
              "the time is a measuring error of a busy machine",
              check="The call with the most seconds there is the cause."),
)  # fmt: skip

_LAST: Final = RemedyRow(
    "", "", "look_closer",
    "Look where threads stand: `py-spy dump --pid PID` while it is slow, as the recording does not name it", "",
    check="The line at which most of them stand is the cause.",
)  # fmt: skip


def remedy_for(kind: str, cause: str, family: str, words: dict[str, str]) -> Remedy:
    """The remedy of the first row that fits.

    Args:
        kind, cause: what is waited for, and what its holder does.
        family: how the jobs are served: threads, turns (threads that take turns for permits), loop, gevent, celery.
        words: for the placeholders of the texts.
    """
    row = next(
        (
            row
            for row in REMEDIES
            if row.kind == kind and row.cause in ("", cause) and (not row.families or family in row.families)
        ),
        _LAST,
    )
    return Remedy(row.key, row.text.format(**words), (row.check or _COMPARE).format(**words))
