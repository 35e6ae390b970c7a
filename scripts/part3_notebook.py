"""Makes docs/part3.ipynb: the article's story by both clocks, told in cells that run the lab.

    python scripts/part3_notebook.py [--requests 300] [--output docs/part3.ipynb]

About a minute with 300 requests. The figures it leaves are this machine's: let it have nothing else to do.
Exit 0: every cell ran, the notebook is written. Exit 1: a cell failed, nothing is written.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import nbclient
import nbformat

ROOT = Path(__file__).resolve().parent.parent
#: A run of the largest cell takes seconds; a machine with six other jobs is allowed ten times that.
_CELL_S = 300

# (kind, text), in order. The cell of parameters is made by `notebook`.
STORY: list[tuple[str, str]] = []


def told(text: str) -> None:
    """Adds a cell of text."""
    STORY.append(("markdown", text.strip()))


def code(text: str) -> None:
    """Adds a cell that runs."""
    STORY.append(("code", text.strip()))


told("""
# Fifty green threads: 182 milliseconds or 250?

In October 2020 Roy Williams of Lyft published the third part of a series on gevent ([eng.lyft.com](https://eng.lyft.com)):
a small benchmark that shows what happens when one process takes on more requests than its CPU can carry. It is a fine
piece of work, its figures can be reproduced to about one percent, and one of them is not what it seems to be.

This notebook runs the benchmark again, with two changes. Each request is timed by three clocks in place of one, and the
CPU work is a counted number of loop iterations, so that it does not shrink when the machine is busy. Published figures
stand beside measured ones. It is made by `scripts/part3_notebook.py`; `greenlane lab part3` does the same from the
command line, with more runtimes and a page.
""")

code("""
from greenlane_tools.lab.part3 import shown
from greenlane_tools.lab.part3.cells import Cell, measure, with_baselines
from greenlane_tools.lab.part3.charts import hidden, lanes, latency_curves, lines, picture, speedup_curves
from greenlane_tools.lab.part3.presets import PRESETS
from greenlane_tools.lab.part3.rows import CLOCKS, latencies_ms, longest, rows_of
from greenlane_tools.lab.part3.runtimes import RUNTIMES, Shape, missing
from greenlane_tools.page.charts.curves import Scale
from greenlane_tools.page.charts.histogram import histogram
from greenlane_tools.page.quantities import milliseconds
from tests.reference import queueing  # slow, exact models; of a checkout


def run(shape, places, runtimes=("gevent",), baseline=True, **more):
    "Each runtime with each number of green threads, in a process of its own; gives the runs and their rows."
    here = [RUNTIMES[name] for name in runtimes if not missing(RUNTIMES[name])]
    cells = [Cell(runtime, shape, n, min(requests, 60) if n == 1 else requests) for n in places for runtime in here]
    measured = measure(with_baselines(cells) if baseline else cells, **more)
    return measured, rows_of(measured)


def cell_of(measured, places, name="gevent"):
    "The cell of one runtime with this many green threads."
    return next(cell for cell in measured if (cell.runtime.name, cell.green_threads) == (name, places))
""")

told("""
## Green threads are not threads

A greenlet, a coroutine, a JavaScript promise: each is a piece of work that runs until it waits for something, and then
lets the next one run. All of them share one thread of the operating system. Switching is cheap, since no kernel is
involved, and thousands fit into a process. The price is that nobody interrupts a piece of work that computes: where the
system would take the CPU away from a thread, a green thread keeps it until it lets go.

So they overlap *waiting*. They do not overlap *computing*, and the article says so without a figure. Here are 5 ms of
CPU with nothing to wait for but one switch in the middle, by one and by fifty at a time.
""")

code("""
measured, rows = run(Shape(cpu_ms=5, network_ms=0), [1, 50], ["gevent", "asyncio", "threads"], yields=20_000)
shown.measured_rows(rows)
""")

code("shown.switches(rows)")

told("""
No speed-up for anybody, and each of the fifty now waits for all the others: fifty times 5 ms. What a switch costs is
microseconds; it is the waiting that makes it worse.

## Three fetches

The article begins with the case that green threads are made for: an endpoint that fetches three things, 10 ms each, and
computes next to nothing. One after the other it took 30.7 ms, at once 10.3 ms.
""")

code("""
fetches = PRESETS["serial-parallel"]
rows = [row for part in fetches.parts for row in run(part.shape, [1])[1]]
shown.beside(fetches.beside(rows))
""")

told("""
## Some CPU, some network

Few endpoints are that clean: requests are parsed, answers are serialised, and that is CPU. So the benchmark proper does
half of its CPU work, makes one network call, and does the other half. The first setting is 5 ms of CPU and 55 ms of
network, in a pool of N greenlets, one greenlet a request.

In a known port of the article's program, CPU work is a loop that ends when the wall clock says so. On a machine with
other work that loop does less, and the throughput stays flattering. Here the iterations of 1 ms are counted against the
thread's CPU clock when each process starts.

Three clocks stop at the end of a request and differ in their start:

- **handler**: the first instruction of the request's own code. This is the article's clock, and that of every timer
  inside an application: middleware, decorators, the span of a trace.
- **spawn**: when its greenlet was made.
- **arrival**: when the request could have begun, because the one before it in its place had ended. A caller that waits
  for its answer and then asks again starts its watch here.
""")

code("""
lyft = PRESETS["lyft-5-55"]
measured, rows = run(Shape(cpu_ms=5, network_ms=55), [1, 5, 50])
shown.beside(lyft.beside(rows))
""")

code("shown.measured_rows(rows)")

told("""
With one green thread 92 % of the CPU is idle. With five nothing is lost and everything is five times as fast. With
fifty the throughput is nearly twelve times that of one, and now the latencies part.

The article's table says 182.12 ms at the median (its text says 188). The throughput says something else. Fifty requests
are always in progress, 192.46 of them are done a second: each takes 50 / 192.46 s = 260 ms. That is Little's law, and
it leaves no way out: *number in progress = throughput × latency*. A clock that reads 182 ms has not looked at the whole
request.
""")

code("shown.laws(rows)")

code("""
of_50 = [request for each in measured[cell_of(measured, 50)] for request in each.requests]
series = {clock: latencies_ms(of_50, clock) for clock in CLOCKS}
picture(histogram(series, "fifty green threads by three clocks", Scale("latency", milliseconds), strong="arrival"))
""")

told("""
By the arrival N comes out, except for the places that are empty when the last requests are under way. By the handler's
clock a third of the requests in progress are missing: they waited for their first instruction, and nobody counted.

Two smaller things in the published table. "CPU Utilization" is not measured: 8.24, 40.80 and 96.23 % are throughput
times 5 ms, to the digit. The column *cpu_%* above is what the kernel counted for the process. And 11.60 times is not
192.46 / 16.49 = 11.67; each run seems to have had a baseline of its own.

## Who had the CPU?

Why should a request of 60 ms take so long? The GIL and the garbage collector were suspects. To find out, the article
prints what happened during the longest request, with more work in fewer green threads: 50 ms of CPU and 150 ms of
network, five at a time.
""")

code("""
measured_5, rows_5 = run(Shape(cpu_ms=50, network_ms=150), [5])
longest_run = measured_5[cell_of(measured_5, 5)][-1]
print(*lines(longest_run), "", hidden(longest_run), sep="\\n")
""")

told("""
The same as a picture, from the moment its place was free: violet waits for its first instruction, blue is CPU, green is
network, red is ready but not resumed.
""")

code("picture(lanes(longest_run, longest(longest_run).number))")

told("""
The network took its 150 ms. Then the reply lay there, *ready but not resumed*, while other requests used the CPU: each
red stretch. In the published print the reply came after 228.47 ms, and its explanation is the right one. Only its count
is off: it speaks of eight other bursts where the print shows seven. Four of them had begun before the reply was due,
and the CPU was idle for 50 ms in between: the "97.46 %" beside it cannot be measured.

What the print cannot show is the other wait, before the first line of each request. Five requests at 19.49 a second are
256.5 ms each; the handlers said 230.27.
""")

code('shown.beside(PRESETS["lyft-50-150"].beside(rows_5))')

told("""
## Where 182 comes from

The order in which gevent gives out the CPU explains the figure without any measuring. One turn of its loop runs all
queued callbacks, and only then looks at timers and sockets. New greenlets are callbacks. So is the news that one has
ended and that the pool has room again. They all go before requests whose reply has long been there. Every 50 callbacks
the loop looks at the time, and leaves the rest for later if 5 ms have passed.

`queueing.gevent_loop` is that and nothing else: no overhead, no chance, whole numbers.
""")

code("""
from statistics import median

model = queueing.gevent_loop(bursts_ms=[2.5, 2.5], waits_ms=[55], places=50, requests=500)
{clock: median(getattr(model, f"{clock}_ms")) for clock in CLOCKS} | {"per_s": model.done_per_s}
""")

told("""
180.0 ms in the handler, 207.5 from the spawn, 247.5 from the arrival; with the cost of the switches that is the
published 182. It is the order of one loop, not a property of the work: another loop shows its handlers another share
of the same 250 ms.

## How many are too many?
""")

code("""
mixed = Shape(cpu_ms=5, network_ms=55)
measured_n, rows_n = run(mixed, [1, 3, 6, 9, 11, 12, 13, 16, 20, 24])
picture(speedup_curves(rows_n, mixed))
""")

code("picture(latency_curves(rows_n, mixed))")

told("""
The speed-up bends at 12. The article gets there by Amdahl's law: 55 of 60 ms can overlap, p = 55/60, and 1/(1−p) = 12.
(It prints `1/1-p` and rounds p to 0.92, which would give 12.5.) The same number from the other end: a request keeps
the CPU for C = 5 ms of its C + S = 60, so (C + S)/C = 12 of them fill it. The difference to Amdahl's machines is that
beyond the knee the parallel part no longer costs anything; each further request only makes the queue longer:

- throughput at most min(N / (C+S), 1/C),
- latency at least max(C + S, N·C).

The advice that follows in the article is *network time / CPU time*, with 12 as its example for 5 and 55. That quotient
is 11; the knee is one more, 1 + S/C. For 50/150 it is 4, and the run above with five was already past it.

The dashed line between is exact mean value analysis: the same means, with bursts that vary as in a Poisson world. Real
services vary, so real services are nearer to it: at N = 12 it promises 168 requests a second, not 200. Who sets
the limit to 12 there gives away a sixth of the capacity.

## It is not gevent's fault

The article adds that the same holds for NodeJS, asyncio and every other cooperative system. Fifty at a time:
""")

code("""
_, rows_all = run(mixed, [50], list(RUNTIMES), baseline=False)
shown.measured_rows(rows_all)
""")

told("""
All do what the CPU allows, 1/C. By the arrival all need about 250 ms on average, as they must; what differs is how much
of it the handler sees and how evenly it is spread. Threads are not cooperative, and do not escape: they compete
for the interpreter's lock, and who wins is left to chance, so that some finish early and some very late. A shorter
switch interval slices the bursts. `greenlane` is threads that take turns for the CPU, the oldest request first;
nearly all of its wait stands before the first instruction, where a limit or a deadline can still do something about it,
and where no handler's clock sees it at all. Near the knee that order has a price: while old requests finish, nobody
starts new network calls. With work as constant as here, `queueing.oldest_first_loop` promises only 136 a second at
N = 12.

## What to do about it

The aim, in the article's words turned round: let no process take on more requests than it can carry. Its advice, and
what has become of it:

1. **Even distribution.** Processes that share a listening socket do not get equal shares; it says that epoll favours
   the highest process ids. That the shares are unequal is true, the order is not a law: on other kernels the first
   process gets most. (The sentence about a process with too many "processes" means requests.) The bug in gunicorn, a
   worker that accepts everything it can when it wakes, was repaired by the article's author in 20.1.0.
2. **`--reuse-port`.** Of no use in gunicorn 19.7 to 23, which made one socket before the fork; and never on a Unix
   socket. Since 24 every worker has its own queue, which no other worker can help to empty: the opposite of point 3.
3. **`--worker-connections` at 1 + S/C** instead of 1000. It counts *connections*: with keep-alive it shuts out requests
   while idle connections hold the places. And on a single process a limit makes no caller faster: the wait
   moves from the loop into the accept queue, out of the handler's sight. It pays where another process has room, or
   where what is too much is refused early.
4. **Less CPU** moves the knee to the right. This one has no catch.
5. **Yield less often** in critical code: the same benchmark, with five calls of 11 ms in place of one of 55. Only
   graphs were published, so an exact model stands in.
""")

code("""
_, rows_5x11 = run(Shape(cpu_ms=5, network_ms=55, calls=5), [9, 11, 12, 13], baseline=False)
shown.beside(PRESETS["lyft-5x11"].beside(rows_n + rows_5x11))
""")

told("""
Five calls cost some milliseconds before the knee; beyond it both take N·C. But who yields less holds the CPU for longer
when it has it: the longest wait of *everybody else* grows from one slice of 0.83 ms to one of 5. The common advice to
add `sleep(0)` is the opposite one, for the same reason. Neither changes how much work there is.

All of this is for services that are busy. With one request at a time there is nothing to wait for. If your CPU time
rose and your latencies went through the roof, look at the knee first, then load it again; and start the clock where
your callers start theirs.

## What this does not show

A closed loop of N never asks for more than N at a time; real callers do, and then the queue has no end. The work is
constant, the network is a timer that is never late, and one process has the machine to itself. Latencies here
include the runtime's switches and the timer's grain, below 0.2 ms on an idle machine.
""")


def notebook(requests: int) -> nbformat.NotebookNode:
    """The notebook, not run yet; identifiers of cells do not change from one making to the next."""
    parameters = nbformat.v4.new_code_cell(f"# Of each run; fewer is faster and less exact.\nrequests = {requests}")
    parameters["metadata"]["tags"] = ["parameters"]
    made = nbformat.v4.new_notebook()
    made["metadata"] = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for number, (kind, text) in enumerate(STORY):
        new = nbformat.v4.new_markdown_cell if kind == "markdown" else nbformat.v4.new_code_cell
        made["cells"].append(new(text))
        if number == 0:
            made["cells"].append(parameters)
    for number, cell in enumerate(made["cells"]):
        cell["id"] = f"part3-{number:02}"
    return made


def main(argv: list[str]) -> int:
    """Run every cell and write the notebook."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=300, help="requests of each run (300)")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "part3.ipynb")
    given = parser.parse_args(argv)
    made = notebook(given.requests)
    client = nbclient.NotebookClient(
        made, timeout=_CELL_S, kernel_name="python3", resources={"metadata": {"path": ROOT}}
    )
    try:
        client.execute()
    except nbclient.exceptions.CellExecutionError as error:
        print(error, file=sys.stderr)
        return 1
    for cell in made["cells"]:
        cell["metadata"].pop("execution", None)  # when it ran
    nbformat.validate(made)
    given.output.write_text(nbformat.writes(made) + "\n", encoding="utf-8")
    print(f"{given.output}: {len(made['cells'])} cells")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
