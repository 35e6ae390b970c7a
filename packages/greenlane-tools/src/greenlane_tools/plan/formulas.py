"""Every formula that the plan answers with: in words, in symbols, where it is exact and where it stops holding.

Symbols: C = CPU of a request that needs the GIL or the loop, S = its I/O until the reply is there, N = requests in
progress, X = ended a second, R = latency from arrival, W = its wait, λ = arrivals a second, ρ = share of the time in
which a server works, k = servers, cv = standard deviation of the work over its mean, P = processes.
"""

from __future__ import annotations

from typing import Final

from greenlane_tools.plan.answer import Formula

__all__ = ["FORMULAS"]

_OPERATIONAL: Final = "P. Denning, J. Buzen, The Operational Analysis of Queueing Network Models, 1978"

KNEE: Final = Formula(
    name="knee",
    words="so many requests in progress fill the CPU if none ever waits",
    symbols="N* = 1 + S/C = (C + S)/C",
    holds="exact for constant work",
    stops="work that varies leaves the CPU idle in between: at N* it loses 16 to 24 % of its capacity, and 1.6 to 1.7 "
    "N* are needed; measured under load S must be the time until the reply is there, else the rule confirms any N",
    source=_OPERATIONAL,
)
MOST: Final = Formula(
    name="most",
    words="the throughput that N requests in progress cannot exceed",
    symbols="X <= min(N/(C + S), 1/C)",
    holds="a bound for any distribution and any order",
    stops="reached only by constant work; knows neither switching costs nor other processes on the cores",
    source=_OPERATIONAL,
)
LEAST: Final = Formula(
    name="least",
    words="the mean latency that N requests in progress cannot go below",
    symbols="R >= max(C + S, N C)",
    holds="a bound for any distribution and any order; equal for constant work of one call",
    stops="a mean: says nothing of percentiles; several calls a request cost latency before the knee",
    source=_OPERATIONAL,
)
SPEED_UP: Final = Formula(
    name="speed-up",
    words="requests side by side get so many times more done than one after the other, at most",
    symbols="1/(1 - p) with p = S/(C + S)",
    holds="exact for constant work; the same number as the knee",
    stops="one process: further ones bring further CPUs",
    source="G. Amdahl, AFIPS 1967",
)
LITTLE: Final = Formula(
    name="little",
    words="requests in progress are those that come in a second times how long each stays",
    symbols="L = λ R",
    holds="exact for means of whatever comes and goes, in any order and of any distribution",
    stops="a mean: with no more places than that the queue for one grows; needs a clock that starts "
    "at arrival and a rate that does not change meanwhile",
    source="J. Little, Operations Research 9 (1961)",
)
MVA: Final = Formula(
    name="mva",
    words="means of N requests in progress that take turns on one CPU and wait beside it",
    symbols="R(N) = C (1 + Q(N-1)) + S, X = N/R, Q = X (R - S)",
    holds="exact for exponential bursts first come first served, for any bursts under an even share; I/O of any kind",
    stops="means only; constant work needs fewer requests (the bounds say how many), cv over 1 first come first "
    "served waits longer",
    source="M. Reiser, S. Lavenberg, JACM 27 (1980)",
)
AT_ONCE: Final = Formula(
    name="at-once",
    words="the smallest number of requests in progress with which the CPU works nearly all the time",
    symbols="min N: X(N) C >= u, X by mean value analysis",
    holds="as mva",
    stops="a limit on requests holds places of those that only wait: with very different routes in one process limit "
    "what computes, not what is in progress; without shedding a limit only moves the wait to where nobody sees it",
    source="M. Reiser, S. Lavenberg, JACM 27 (1980)",
)
ERLANG: Final = Formula(
    name="m/m/k",
    words="the wait in one queue for k servers",
    symbols="W = C(k, λS) / (k/S - λ), P(R > t) in closed form",
    holds="exact for arrivals at random and exponential work",
    stops="arrivals in bursts; work that varies less or more waits (1 + cv²)/2 as long; a queue for each process "
    "(accept, SO_REUSEPORT) waits k times as long and more",
    source="A. K. Erlang, 1917",
)
PK: Final = Formula(
    name="m/g/1",
    words="the mean wait for one server, whatever the work",
    symbols="W = λ E[S²] / (2 (1 - ρ)) = ρ/(1 - ρ) (1 + cv²)/2 E[S]",
    holds="exact for arrivals at random, first come first served",
    stops="arrivals in bursts; requests that come back after I/O (the order of their returns is nearly at random, not "
    "quite); one interrupted by the GIL's interval is between this and an even share",
    source="F. Pollaczek 1930, A. Khinchine 1932",
)
PK_TAIL: Final = Formula(
    name="m/g/1 percentile",
    words="the wait is a sum of remainders of bursts, a geometric number of them; the request's own work comes on top",
    symbols="W = R1 + … + RN, P(N = n) = (1 - ρ) ρ^n",
    holds="exact up to a grid for arrivals at random, first come first served, and work as it was sampled",
    stops="as m/g/1; beyond the longest burst in the sample nothing is known",
    source="V. Beneš 1957; H. Panjer, ASTIN 12 (1981)",
)
MD1: Final = Formula(
    name="m/d/1",
    words="the mean wait for one server when all work is the same: half of what exponential work waits",
    symbols="W = ρ/(1 - ρ) S/2",
    holds="exact for arrivals at random",
    stops="arrivals in bursts; cv above some 0.3",
    source="A. K. Erlang, 1909",
)
MGK: Final = Formula(
    name="m/g/k",
    words="the mean wait in one queue for k servers, whatever the work",
    symbols="cv² <= 1: cv² W(M/M/k) + (1 - cv²) W(M/D/k); above: (1 + cv²)/2 W(M/M/k)",
    holds="an approximation: within 2 % for constant and exact for exponential work; for cv² of 4 within some 10 %",
    stops="rare huge work among small, many servers and little load: two moments do not say how it waits. Simulate it",
    source="A. Lee, P. Longton 1959; G. Cosmetatos 1975; T. Kimura 1996 compares",
)
MGK_TAIL: Final = Formula(
    name="m/g/k percentile",
    words="waits are taken as exponential with their mean; the request's own work comes on top",
    symbols="P(W > t) = C(k, λS) exp(-t C/W)",
    holds="an approximation: within 10 % of p99 for cv² up to 1, within 25 % at cv² of 4",
    stops="rare huge work among small, and the far tail (p99.9) of cv² over 1. Simulate it",
    source="J. Abate, G. Choudhury, W. Whitt 1995",
)
SHARED: Final = Formula(
    name="m/g/1-ps",
    words="where all that are there share one server evenly each takes as many times longer as the server is filled",
    symbols="R(x) = x/(1 - ρ)",
    holds="exact in the mean for each size, for arrivals at random and any work",
    stops="slices as long as the work itself (5 ms of the GIL against bursts of 5 ms); percentiles have no such "
    "formula: simulate them",
    source="L. Kleinrock 1967; M. Sakata, S. Noguchi, J. Oizumi 1971",
)
HARD_LANE: Final = Formula(
    name="hard lane",
    words="the utilisation of all processes up to which a lane with processes of its own leaves everybody served",
    symbols="ρ < min((P - p)/(P (1 - s)), p/(P s))",
    holds="exact for means: s = the lane's share of all CPU work, p of P processes its own",
    stops="says when queues grow without end, not how long they are before: p95 is lost at some 0.9 of it",
    source="conservation of work",
)
TRANSFER: Final = Formula(
    name="transfer",
    words="bytes a request times requests a second",
    symbols="λ B 8",
    holds="exact for what is sent; frames and headers add some 3 %",
    stops="compression changes B, and costs CPU",
    source="arithmetic",
)
LOOP: Final = Formula(
    name="loop",
    words="each time a request comes back from I/O it waits for the loop once more",
    symbols="R = C + S + v W, W = λ E[Σ b²]/(2 (1 - ρ)), v visits with bursts b",
    holds="an upper estimate, m/g/1 for every visit as if visits came at random: above a loop's mean by some 5 % at "
    "ρ of 0.3, 15 % at 0.6, 40 % at 0.8",
    stops="a loop that runs new requests before those that are ready, bursts of arrivals, ρ over 0.8. Simulate it",
    source="Pollaczek and Khinchine, applied to visits",
)

#: By name.
FORMULAS: Final[dict[str, Formula]] = {
    each.name: each
    for each in (
        KNEE, MOST, LEAST, SPEED_UP, LITTLE, MVA, AT_ONCE, ERLANG, PK, PK_TAIL, MD1, MGK, MGK_TAIL,
        SHARED, HARD_LANE, TRANSFER, LOOP,
    )
}  # fmt: skip
