"""The calibrated work of one job: what an endpoint's own function takes on a thread to itself, without a server."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from greenlane_tools.lab.run.work_unit import cpu_ms
from greenlane_tools.lab.scenario.scenario import Scenario

__all__ = ["alone_ms"]

_ROUNDS = 9


def alone_ms(scenario: Scenario, iterations_per_ms: int) -> dict[str, float]:
    """By class. Where the amount is drawn it is the mean asked for, by definition of the iterations."""
    from greenlane_tools.demo import pricing  # late: it needs Flask and numpy, which only the demo has

    fixed: Mapping[str, Callable[[], object]] = {
        "receipt": _in_application(pricing.receipt_text),
        "report": pricing.report_text,
        "search": lambda: pricing.search_nearest(0.4, 0.6),
    }
    offer_ms = pricing.OFFER_STEPS * pricing.OFFER_STEP_MS
    burned = cpu_ms(lambda: pricing.burn(iterations_per_ms), _ROUNDS)  # 1 ms, as this run has it
    return {
        one.name: cpu_ms(fixed[one.name], _ROUNDS) if one.name in fixed else (one.work_mean_ms or offer_ms) * burned
        for one in scenario.classes
    }


def _in_application(call: Callable[[], object]) -> Callable[[], object]:
    from greenlane_tools.demo import pricing

    def inside() -> object:
        with pricing.app.app_context():
            return call()

    return inside
