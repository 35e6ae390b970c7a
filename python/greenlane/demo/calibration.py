"""What one job of each endpoint costs: its work alone, and what stock gthread spends around it.

Run once before the comparison, on this machine and interpreter; a few seconds.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from greenlane.demo import work
from greenlane.demo.arena import Arena
from greenlane.demo.contenders import CONTENDERS, Server, environment
from greenlane.demo.plan import Plan, Stream
from greenlane.demo.rates import ENDPOINTS, Endpoint, JobCost
from greenlane.demo.samples import Sample, read_samples
from greenlane.errors import HostError
from greenlane.lab import processes

# Load while one endpoint is measured: under half a core, so that jobs overlap a little, as they will.
_CALIBRATED_FRAC: Final = 0.4
# Long enough for a mean within a few percent, short enough for a demo that has four minutes in all.
CALIBRATED_S: Final = 0.9
# First jobs of an endpoint, not counted: imports, templates, threads.
_WARM_S: Final = 0.15
_ROUNDS: Final = 9
_STOCK: Final = "gthread-64"


def alone(endpoints: Iterable[str], iterations_per_ms: int) -> dict[str, float]:
    """The calibrated work of one job in ms: what the endpoint's own function takes on a thread to itself.

    Where the amount is drawn it is the mean asked for, by definition of the iterations.
    """
    from greenlane.demo import pricing

    fixed: Mapping[str, Callable[[], object]] = {
        "receipt": _in_application(pricing.receipt_text),
        "report": pricing.report_text,
        "search": lambda: pricing.search_nearest(0.4, 0.6),
    }
    offer_ms = pricing.OFFER_STEPS * pricing.OFFER_STEP_MS
    burned = work.cpu_ms(lambda: pricing.burn(iterations_per_ms), _ROUNDS)  # 1 ms, as this run has it
    return {
        name: work.cpu_ms(fixed[name], _ROUNDS)
        if name in fixed
        else (ENDPOINTS[name].work_mean_ms or offer_ms) * burned
        for name in endpoints
    }


def on_gthread(arena: Arena, alone_ms: Mapping[str, float], seconds: float = CALIBRATED_S) -> dict[str, JobCost]:
    """The cost of one job of each endpoint on stock gthread: the running one, or one started for this.

    Args:
        alone_ms: `alone()` of the endpoints wanted.
        seconds: load per endpoint; 0.9 is a few percent of uncertainty, enough to set rates.
    """
    running = arena.servers.get(_STOCK)
    if running is not None:
        return costs(running, alone_ms, seconds)
    with Server(CONTENDERS[_STOCK], arena.service) as server:
        return costs(server, alone_ms, seconds)


def costs(server: Server, alone_ms: Mapping[str, float], seconds: float = CALIBRATED_S) -> dict[str, JobCost]:
    """The cost of one job of each endpoint on a running server: work, and what is measured beyond it.

    bikes and scooters are the same code; they are measured once.
    """
    found: dict[str, JobCost] = {}
    for name, ms in alone_ms.items():
        if name == "scooters" and "bikes" in found:
            found[name] = replace(found["bikes"], endpoint=name)
        else:
            measured = _measured_ms(server, ENDPOINTS[name], ms, seconds)
            found[name] = JobCost(name, min(ms, measured), max(0.0, measured - ms))
    return found


def generate(plan: Plan) -> list[Sample]:
    """Runs the load generator on a plan, in its own process, to the end.

    Raises:
        HostError: the generator failed.
    """
    with subprocess.Popen(
        [sys.executable, "-m", "greenlane.demo.load"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, env=environment(), preexec_fn=processes.die_with_parent, process_group=0,
    ) as generator:  # fmt: skip
        try:
            out, said = generator.communicate(plan.as_json())
        except BaseException:
            generator.kill()
            raise
    if generator.returncode:
        raise HostError("run the load generator", name="exit code", value=generator.returncode, rule=f"0:\n{said}")
    return read_samples(out.splitlines())


def _measured_ms(server: Server, endpoint: Endpoint, expected_ms: float, seconds: float) -> float:
    per_s = _CALIBRATED_FRAC * 1000 / (expected_ms + 1)
    # The amount is held at its mean: what is looked for is what the server adds.
    path = f"{endpoint.path}?ms={endpoint.work_mean_ms}" if endpoint.work_mean_ms else endpoint.path
    stream = Stream(endpoint.name, server.address(endpoint.name), path, per_s, cost_ms=expected_ms)
    generate(Plan("warm", _WARM_S, (stream,)))
    before_ns = processes.cpu_ns(server.pids())
    samples = generate(Plan("calibrate", seconds, (stream,)))
    spent_ns = processes.cpu_ns(server.pids()) - before_ns
    done = sum(sample.status == 200 for sample in samples)
    if done < len(samples) or not done:
        raise HostError("calibrate", name=endpoint.name, value=f"{done} of {len(samples)} answered", rule="all",
                        hint="look at what the service says: " + server.said())  # fmt: skip
    return spent_ns / done / 1e6


def _in_application(call: Callable[[], object]) -> Callable[[], object]:
    from greenlane.demo import pricing

    def inside() -> object:
        with pricing.app.app_context():
            return call()

    return inside
