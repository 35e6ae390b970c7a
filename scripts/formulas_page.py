"""Writes docs/formulas.md from greenlane/plan/formulas.py; `--check` only tells whether it is stale.

Exit 0: written, or up to date. Exit 1: stale (the remedy is printed).
"""

# ruff: noqa: E501 (rows of the page's tables)

from __future__ import annotations

import sys
from pathlib import Path

from generated import written_or_checked

from greenlane_tools.plan.formulas import FORMULAS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "formulas.md"

HEAD = """\
# What theory says, and where it stops

<!-- Written by `make docs` from packages/greenlane-tools/src/greenlane_tools/plan/formulas.py and the text in scripts/formulas_page.py. -->

    greenlane plan bounds --cpu 5 --io 55 --at-once 12 --rate 170
    greenlane plan bounds shop.json --route bikes

Bounds and queueing theory answer in a millisecond what would take a simulation seconds, and say why. Each answer carries
its formula, the values that went into it, and where it stops holding; where that is said of *your* numbers (more comes
than can be served, arrivals in bursts, work too wild for two moments) the answer says it itself. Percentiles of a
service with permits, lanes, limits and deadlines have no formula: those are simulated.

C = CPU of a request that needs the GIL or the loop, S = its I/O until the reply is there, N = requests in progress,
X = ended a second, R = latency from arrival, W = its wait, λ = arrivals a second, ρ = share of the time in which a server
works, k = servers, cv = standard deviation of the work over its mean, P = processes.

```python
from greenlane_tools.plan import bounds
from greenlane_tools.plan.waiting import Waiting

assert bounds.knee(5, 55).value == 12  # ms of CPU, ms of I/O
assert bounds.at_once(5, 55).value == 18  # with work that varies
one, each = Waiting.exponential(720, 5, 4), Waiting.exponential(180, 5)  # four processes: one queue, or one each
assert 3 < each.quantile_ms(0.99).value / one.quantile_ms(0.99).value < 5
```

## Stay, pool, shared memory, native code, or a service of its own

    greenlane plan decide --rate 20 --cpu 60 --heavy 50 --io 120 --waits 3 --mb 4

For work that computes beside an event loop: what each way costs, with your numbers. A loop is one server that a request
visits again each time it comes back from I/O, so its latency is `loop` below; what leaves the loop pays for its way there
and back, half of it on the loop. What nobody has told is taken from measurements of ours, and each way says which.
Beside it stands the rule by which Avito decided to rewrite (much CPU, much I/O, much to send), and where it does not hold
for your numbers: what its rewrite won is compiled code and data that never become Python objects, and shares of savings
multiply, they do not add.
"""


def page() -> str:
    """The whole page as Markdown."""
    parts = (
        f"\n## {each.name}\n\n{each.words[0].upper()}{each.words[1:]}.\n\n    {each.symbols}\n\n"
        f"- holds: {each.holds}\n- stops: {each.stops}\n- source: {each.source}\n"
        for each in FORMULAS.values()
    )
    return HEAD + "".join(parts)


def main(arguments: list[str]) -> int:
    """Write the page, or with `--check` compare it; the exit code."""
    return written_or_checked(PAGE, page, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
