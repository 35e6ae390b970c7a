"""What the lab serves for a proof: the profile's twin, or a scenario of the lab with the profile's rates."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Final

from greenlane.errors import PlanError
from greenlane.settings import Settings
from greenlane_tools.lab.scenario import catalogue
from greenlane_tools.lab.scenario.parts import RequestClass, Service
from greenlane_tools.lab.scenario.scenario import Scenario
from greenlane_tools.plan.profile import Profile
from greenlane_tools.plan.route import Route, simulated_route

APPLICATION: Final = "played:app"
_PROGRAM: Final = "played.py"
_SEQUENCES: Final = "sequences.json"
#: Fewer requests than this in the whole run say nothing: such routes are left out, and their CPU with them.
_LEAST: Final = 1.0
#: Until permits have learned what each route needs.
_WARM_S: Final = 4.0
#: The number that a request brings. Large, so that its three digits behind the point tell a million apart: with few
#: numbers a rare sequence would be played three times too often, or never.
_NUMBER: Final = 1000.0
_ATTEMPT: Final = "verify the plan in the lab"
_APPLICATION: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*(\(\))?")


def classes_of(profile: Profile) -> dict[str, str]:
    """Name of the load's class by route: routes have characters that names may not."""
    return {route.route: f"r{number}" for number, route in enumerate(profile.routes)}


def twin(profile: Profile, limits_ms: dict[str, float], folder: Path, *, seconds: float, repetitions: int) -> Scenario:
    """The scenario, without contenders. Writes what it needs into `folder`.

    Args:
        limits_ms: by route, what counts as in time.
        seconds: of load for each contender, over all repetitions.

    Raises: PlanError when the profile's work cannot be played.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(Path(__file__).with_name(_PROGRAM), folder / _PROGRAM)
    played = [_played(route) for route in _exact(profile)]
    (folder / _SEQUENCES).write_text(json.dumps(played), encoding="utf-8")
    service = Service(
        name="played",
        command=(
            "{python}", "-m", "gunicorn", "--bind", "{address}", "--log-level", "warning", "--no-control-socket",
            "{arguments}", APPLICATION,
        ),
        files=(_PROGRAM, _SEQUENCES),
        env={"PLAYED_ITERATIONS_PER_MS": "{iterations_per_ms}"},
        ready="/empty",
        ready_s=60.0,
    )  # fmt: skip
    names = classes_of(profile)
    classes = tuple(
        RequestClass(
            name=names[route.route], path=f"/{number}", rate_per_s=route.rate_per_s, work_mean_ms=_NUMBER, work_cv=1.0,
            work_parameter="w", headers=_headers(route),
            deadline_ms=limits_ms.get(route.route, route.deadline_ms or 0.0),
            timeout_s=max(10.0, 4 * limits_ms.get(route.route, 0.0) / 1000),
        )
        for number, route in enumerate(profile.routes)
        if route.rate_per_s * seconds >= _LEAST
    )  # fmt: skip
    return Scenario(
        name="plan", question="Does what was predicted hold under load?", expected="Within the predicted intervals.",
        seconds=seconds, repetitions=repetitions, work=f"{_PROGRAM}:burn", warm_s=_WARM_S, services=(service,),
        classes=classes, folder=folder,
    )  # fmt: skip


def _headers(route: Route) -> dict[str, str]:
    """What the recorded requests brought: a server that keeps deadlines must see them."""
    return {Settings().deadline_headers[0]: f"{route.deadline_ms:.0f}"} if route.deadline_ms else {}


def _exact(profile: Profile) -> tuple[Route, ...]:
    """Sequences with the exact means, `held` as it is; the server's own overhead is there in any case."""
    return tuple(simulated_route(route, "held", 0.0, unlocked=True) for route in profile.routes)


def _played(route: Route) -> dict[str, object]:
    sequences = [
        {"weight": each.weight, "steps": [(step.kind, step.ms) for step in each.steps]} for each in route.sequences
    ]
    return {"route": route.route, "sequences": sequences}


def named(name: str, profile: Profile, limits_ms: dict[str, float], *, seconds: float, repetitions: int) -> Scenario:
    """The scenario without its contenders, each class that is a route of the profile at that route's rate.

    Raises: SettingsError: there is no such scenario. PlanError: its classes are not the profile's routes.
    """
    scenario = catalogue.read(catalogue.found(name))
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
    """Class by route: `GET /bikes` is the class that asks /bikes with GET, `GET /quote/<int:id>` that of /quote/7.
    Of several routes that a path could be, it is the longest."""
    found: dict[str, str] = {}
    for one in scenario.classes:
        path = one.path.partition("?")[0]
        could = [route.route for route in profile.routes if _is(route.route, one.method, path)]
        if could:
            found.setdefault(max(could, key=len), one.name)
    return found


def _is(route: str, method: str, path: str) -> bool:
    """Whether a route's rule, of Flask (`/quote/<int:id>`) or Django (`/^quote/(?P<id>[0-9]+)$`), is this path's."""
    asked, _, rule = route.partition(" ")
    if asked != method:
        return False
    if not rule.startswith("/^"):
        parts = re.split(r"<[^<>]+>", rule)
        return re.fullmatch("[^/]+".join(map(re.escape, parts)), path) is not None
    try:
        return re.fullmatch(rule.removeprefix("/"), path.removeprefix("/")) is not None
    except re.error:
        return False


def application_of(scenario: Scenario) -> str:
    """`module:app` of the service that is asked."""
    for part in reversed(scenario.target().command):
        if _APPLICATION.fullmatch(part):
            return part
    rule = "a command that ends with module:app"
    raise PlanError(_ATTEMPT, name="command", value=" ".join(scenario.target().command), rule=rule)
