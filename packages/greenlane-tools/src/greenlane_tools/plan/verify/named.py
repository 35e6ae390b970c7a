"""A scenario of the lab with a profile's rates: the real service, where the lab has it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from greenlane.errors import PlanError
from greenlane_tools.lab.scenario import catalogue, file
from greenlane_tools.lab.scenario.scenario import Scenario
from greenlane_tools.plan.profile import Profile

__all__ = ["application_of", "matched", "named"]

_ATTEMPT: Final = "verify the plan in the lab"
_APPLICATION: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*(\(\))?")


def named(name: str, profile: Profile, limits_ms: dict[str, float], *, seconds: float, repetitions: int) -> Scenario:
    """The scenario without its contenders, each class that is a route of the profile at that route's rate.

    Raises: SettingsError: there is no such scenario. PlanError: its classes are not the profile's routes.
    """
    scenario = file.read(catalogue.found(name))
    routes = matched(scenario, profile)
    left = [route.route for route in profile.routes if route.route not in routes]
    if left:
        has = ", ".join(one.path for one in scenario.classes)
        rule = f"a scenario that asks {', '.join(left[:3])} too; its classes are {has}"
        hint = "without a name the profile's own twin is served"
        raise PlanError(_ATTEMPT, name="--verify", value=name, rule=rule, hint=hint)
    by_class = {class_: route for route, class_ in routes.items()}
    rates = {route.route: route.rate_per_s for route in profile.routes}
    classes = tuple(
        replace(
            one, rate_per_s=rates[by_class[one.name]], cpu_share_frac=0.0, request_share_frac=0.0, same_work_as="",
            deadline_ms=limits_ms.get(by_class[one.name], one.deadline_ms),
        )
        for one in scenario.classes
        if one.name in by_class
    )  # fmt: skip
    return replace(
        scenario, classes=classes, contenders=(), bounds=(), expectations=(), utilisations_frac=(), rate_factors=(),
        phases=(), faults=(), calibrated_on="", seconds=seconds, repetitions=repetitions,
    )  # fmt: skip


def matched(scenario: Scenario, profile: Profile) -> dict[str, str]:
    """Class by route: `GET /bikes` is the class that asks /bikes with GET."""
    asked = {f"{one.method} {one.path.partition('?')[0]}": one.name for one in scenario.classes}
    return {route.route: asked[route.route] for route in profile.routes if route.route in asked}


def application_of(scenario: Scenario) -> str:
    """`module:app` of the service that is asked."""
    for part in reversed(scenario.target().command):
        if _APPLICATION.fullmatch(part):
            return part
    rule = "a command that ends with module:app"
    raise PlanError(_ATTEMPT, name="command", value=" ".join(scenario.target().command), rule=rule)
