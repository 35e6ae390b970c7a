"""DoorDash's account of their move from prefork to gevent: what they printed, and what of it cannot hold together.

Restelli, Improving Scalability, Reliability, and Efficiency of a Python Service with Gevent, DoorDash Engineering,
19 January 2021. Time is divided by ten here: an order that held a slot for 32 s holds it for 3.2 s. Orders per hour are
those of the article's time, so our 1.25 orders a second are their 450 an hour.
"""

from __future__ import annotations

from typing import Final

from greenlane_tools.page.quantities import share

#: Ours are this many times shorter.
FASTER: Final = 10.0
#: Little's law: four processes that do 450 orders an hour hold each for 4 x 3600 / 450 = 32 s.
CALL_MS: Final = 4 * 3_600 / 450 * 1e3 / FASTER
#: At 6,000 an hour 30 % of a core is 0.18 s an order, of which pool, broker and HTTP need about 1 ms here.
WORK_MS: Final = 0.30 * 3_600 / 6_000 * 1e3 / FASTER - 1.0
BEFORE_PER_H, AFTER_PER_H = 450.0, 6_000.0
BEFORE_CPU_FRAC, AFTER_CPU_FRAC = 0.05, 0.30
#: Whose rate was printed as the rate before: four in the text, three in the command.
_BEFORE: Final = ("prefork-3", "prefork-4")


def per_h(per_s: float) -> float:
    """Orders per hour of the article's time."""
    return per_s * 3_600 / FASTER


def offered_per_s(contender: str) -> float:
    """The printed rate of a pod, in our time: before for the few processes, after for everybody else."""
    return (BEFORE_PER_H if contender in _BEFORE else AFTER_PER_H) / 3_600 * FASTER


def slot_s(processes: int) -> float:
    """How long an order holds its slot when this many processes are never idle at the rate before (Little's law)."""
    return processes * 3_600 / BEFORE_PER_H


def busy_slots(rate_per_h: float) -> float:
    """Slots that are in use on average at this rate (Little's law)."""
    return rate_per_h / 3_600 * CALL_MS * FASTER / 1e3


def cannot_hold() -> list[str]:
    """Sentences about the printed figures."""
    ratio = AFTER_PER_H / BEFORE_PER_H
    used = 0.1 * AFTER_CPU_FRAC / BEFORE_CPU_FRAC
    cpu, before = share(AFTER_CPU_FRAC), f"{BEFORE_CPU_FRAC * 100:.0f} %"
    cpu_s = AFTER_CPU_FRAC * 3_600 / AFTER_PER_H
    return [
        f"A pod went from {BEFORE_PER_H:.0f} to {AFTER_PER_H:,.0f} orders an hour, {ratio:.1f} times; a tenth of the "
        f"pods then do {ratio / 10:.2f} times as much in all. Capacity up by 600 % is 7 times in all, which would need "
        "70 times per pod; and elsewhere the text has 10 times.",
        f"CPU down by 90 % can only be what was allocated: a tenth of the pods at {cpu} instead of "
        f"{before} use {used:.1f} of what was used, {share(1 - used)} less; and not even that if an order "
        f"costs what it did: {cpu_s:.2f} s of CPU each are {share(cpu_s * BEFORE_PER_H / 3_600)} at "
        f"{BEFORE_PER_H:.0f} an hour, which is below {before} too, and {ratio / 10:.2f} times the "
        f"orders cost {ratio / 10:.2f} times the CPU.",
        f"The text has four processes, the command --concurrency=3: {BEFORE_PER_H:.0f} an hour are "
        f"{slot_s(4):.0f} s a slot or {slot_s(3):.0f}. From 3 to 200 is 67 times, where the text has two orders of "
        "magnitude.",
        f"{AFTER_PER_H:,.0f} an hour at 32 s each keep {busy_slots(AFTER_PER_H):.0f} of 200 slots busy: what was "
        "printed as the result is what was asked for, not what the new worker can do.",
        f"200 slots at 32 s would do {200 * 3_600 / 32:,.0f} an hour; but if {AFTER_PER_H:,.0f} cost {cpu} of a core, "
        f"that core is used up at {AFTER_PER_H / AFTER_CPU_FRAC:,.0f}: CPU is the limit then, not slots.",
    ]
