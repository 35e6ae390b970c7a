"""What only several keys together can get wrong: names that nobody has, rates said twice, shares that miss 1."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NoReturn

from greenlane.errors import SettingsError
from greenlane.settings.refusal import nearest
from greenlane_tools.lab.scenario.parts import RequestClass, Service
from greenlane_tools.lab.scenario.scenario import Scenario

_ROUNDING = 1e-6


def check(scenario: Scenario, stem: str, attempted: str) -> None:
    """Raises SettingsError for the first rule that the scenario breaks.

    Args:
        stem: the file's name without its suffix.
        attempted: for the message.
    """
    checker = _Checker(scenario, attempted)
    if scenario.name != stem:
        checker.fail("name", scenario.name, f"the file's own, {stem!r}")
    checker.names()
    checker.services()
    checker.classes()
    checker.shares()
    checker.phases_and_faults()
    checker.contenders()
    checker.bounds()


class _Checker:
    def __init__(self, scenario: Scenario, attempted: str) -> None:
        self._scenario = scenario
        self._attempted = attempted
        self._classes = [one.name for one in scenario.classes]
        self._services = [one.name for one in scenario.services]
        self._phases = [one.name for one in scenario.phases]
        self._contenders = [one.name for one in scenario.contenders]

    def fail(self, name: str, value: object, rule: str, hint: str = "") -> NoReturn:
        raise SettingsError(name, value, rule, hint, attempted=self._attempted)

    def names(self) -> None:
        """There is one of each, and no name twice."""
        for key, found in (("service", self._services), ("class", self._classes), ("contender", self._contenders)):
            if not found:
                self.fail(key, [], f"at least one [[{key}]]")
        for key, found in (
            ("service", self._services), ("class", self._classes), ("contender", self._contenders),
            ("phase", self._phases),
        ):  # fmt: skip
            for name, count in Counter(found).items():
                if count > 1:
                    self.fail(f"{key}.name", name, "a name that no other has")
        for key, found in (("class", self._classes), ("phase", self._phases)):
            if "all" in found:
                self.fail(f"{key}.name", "all", "another name: this one means all of them")

    def services(self) -> None:
        """There is a load, its files exist, and every placeholder is known."""
        if all(one.shared for one in self._scenario.services):
            self.fail("service.shared", True, "false for at least one: the load asks the first that is not shared")
        above: list[str] = []
        for one in self._scenario.services:
            if not one.command:
                self.fail(f"service.{one.name}.command", [], "a list of texts, the program first")
            for name in one.files:
                if not (self._scenario.folder / name).exists():
                    self.fail(f"service.{one.name}.files", name, f"a file or folder in {self._scenario.folder}")
            self._braces(f"service.{one.name}", one, [*one.command, *one.env.values()], above)
            above.append(one.name)
        self._work()

    def _work(self) -> None:
        work = self._scenario.work
        copied = {Path(name).name for one in self._scenario.services for name in one.files}
        if work and work.partition(":")[0] not in copied:
            self.fail("work", work, "a function in one of the files that are copied", "name it in a service's `files`")

    def _braces(self, prefix: str, service: Service, texts: Iterable[str], above: Collection[str]) -> None:
        there = {*MEANINGS, *(f"{name}.{what}" for name in above for what in OF_SERVICE)}
        there -= {"unix"} if service.listen == "tcp" else {"port"}
        if not self._scenario.work:
            there -= {"iterations_per_ms"}
        for name in used(texts):
            if name not in there:
                hint = nearest(name, there) or "a service must stand above the one that asks it"
                self.fail(prefix, f"{{{name}}}", f"one of {', '.join(sorted(there))} in braces", hint)

    def classes(self) -> None:
        """Each class has its rate said once, in the way of its arrivals."""
        for one in self._scenario.classes:
            prefix = f"class.{one.name}"
            ways = [name for name in ("rate_per_s", "cpu_share_frac", "request_share_frac") if getattr(one, name)]
            if one.arrivals in ("poisson", "constant") and len(ways) != 1:
                said = " and ".join(ways) or "none"
                self.fail(f"{prefix}.rate_per_s", said, "one of rate_per_s, cpu_share_frac and request_share_frac")
            if one.arrivals in ("burst", "recorded") and ways:
                self.fail(f"{prefix}.{ways[0]}", getattr(one, ways[0]), f"none: {one.arrivals} arrivals have no rate")
            self._arrivals(prefix, one)
            if one.most_connections and one.connections == "new":
                self.fail(f"{prefix}.most_connections", one.most_connections, "0 unless connections are keep-alive")
            if one.same_work_as:
                self._one_of(f"{prefix}.same_work_as", one.same_work_as, self._classes)
                other = self._scenario.request_class(one.same_work_as)
                if other is one or other.same_work_as or not _by_share(other):
                    self.fail(f"{prefix}.same_work_as", one.same_work_as, "another class that is calibrated itself")

    def _arrivals(self, prefix: str, one: RequestClass) -> None:
        if (one.burst_size > 0) != (one.arrivals == "burst"):
            rule = "1 or more" if one.arrivals == "burst" else "0 unless arrivals are burst"
            self.fail(f"{prefix}.burst_size", one.burst_size, rule)
        if bool(one.recorded) != (one.arrivals == "recorded"):
            self.fail(f"{prefix}.recorded", one.recorded, 'a file, with arrivals = "recorded", and only then')
        if one.recorded and not (self._scenario.folder / one.recorded).exists():
            self.fail(f"{prefix}.recorded", one.recorded, f"a file in {self._scenario.folder}")
        if one.arrivals == "recorded" and any(phase.rate_factor != 1 for phase in self._scenario.phases):
            self.fail(f"{prefix}.arrivals", "recorded", "a load whose phases leave the rate as it was recorded")

    def shares(self) -> None:
        """Shares of one kind, that add up to 1, with utilisations; or neither."""
        scenario = self._scenario
        sums = {
            name: sum(getattr(one, name) for one in scenario.classes)
            for name in ("cpu_share_frac", "request_share_frac")
        }
        if all(sums.values()):
            self.fail("class.request_share_frac", sums["request_share_frac"], "shares of one kind in all classes")
        for name, total in sums.items():
            if total and abs(total - 1) > _ROUNDING:
                self.fail(f"class.{name}", round(total, 6), "shares that add up to 1")
        if scenario.calibrates() and not scenario.utilisations_frac:
            self.fail("utilisations_frac", [], "at least one: classes have their rate by a share")
        if scenario.utilisations_frac and not scenario.calibrates():
            self.fail("utilisations_frac", list(scenario.utilisations_frac), "none: every class says its rate itself")
        if scenario.utilisations_frac and scenario.rate_factors:
            self.fail("rate_factors", list(scenario.rate_factors), "none beside utilisations_frac")

    def phases_and_faults(self) -> None:
        """Faults fall into phases that exist, and hit services that exist and that they can hit."""
        scenario = self._scenario
        if scenario.phases and not any(one.counted and one.rate_factor for one in scenario.phases):
            self.fail("phase.counted", False, "a phase with load that is counted")
        for number, fault in enumerate(scenario.faults, 1):
            prefix = f"fault.{number}"
            if fault.phase:
                self._one_of(f"{prefix}.phase", fault.phase, self._phases)
            if fault.service:
                self._one_of(f"{prefix}.service", fault.service, self._services)
            if fault.kind == "kill" and scenario.service(fault.service).shared:
                self.fail(f"{prefix}.service", fault.service, "one that is not shared: a kill would end it for all")
            left_s = scenario.run_seconds() - scenario.begins_s(fault.phase)
            if fault.at_s >= left_s:
                self.fail(f"{prefix}.at_s", fault.at_s, f"a time within the load, below {left_s:g} s")
            if fault.kind in ("slow", "refuse") and scenario.service(fault.service).listen == "unix":
                self.fail(f"{prefix}.service", fault.service, f"one that listens on a port: {fault.kind} is done there")

    def contenders(self) -> None:
        """What contenders and the contrast name exists."""
        scenario = self._scenario
        for one in scenario.contenders:
            prefix = f"contender.{one.name}"
            if one.service:
                self._one_of(f"{prefix}.service", one.service, self._services)
            if scenario.service_of(one).shared:
                self.fail(f"{prefix}.service", one.service, "one that is not shared")
            for name in one.apart:
                self._one_of(f"{prefix}.apart", name, self._classes)
            service = scenario.service_of(one)
            above = self._services[: self._services.index(service.name)]
            self._braces(prefix, service, [*one.command, *one.arguments, *one.env.values()], above)
            if one.arguments and ARGUMENTS not in (one.command or service.command):
                self.fail(f"{prefix}.arguments", list(one.arguments), f"none: the command has no {ARGUMENTS}")
        if scenario.calibrated_on:
            self._one_of("calibrated_on", scenario.calibrated_on, self._contenders)
        if scenario.contrast.endpoint:
            self._one_of("contrast.endpoint", scenario.contrast.endpoint, self._classes)

    def bounds(self) -> None:
        """What bounds name exists."""
        labels = [level.label for level in self._scenario.levels()]
        tools = self._scenario.contrast.tools
        for number, one in enumerate(self._scenario.expectations):
            prefix = f"bounds[{number}]"
            self._one_of(prefix, one.endpoint, [*self._classes, "all"])
            self._one_of(prefix, one.contender, self._contenders)
            for name, among in (
                (one.rival, self._contenders), (one.level, labels), (one.phase, self._phases), (one.tool, tools),
            ):  # fmt: skip
                if name:
                    self._one_of(prefix, name, among)

    def _one_of(self, key: str, name: str, among: Collection[str]) -> None:
        if name not in among:
            self.fail(key, name, f"one of {', '.join(among) or 'none that there are'}", nearest(name, among))


def _by_share(one: RequestClass) -> bool:
    return bool(one.cpu_share_frac or one.request_share_frac)


# --- What braces in commands and environments stand for.

#: A part of a command that is exactly this becomes the contender's arguments, however many.
ARGUMENTS: Final = "{arguments}"
MEANINGS: Final[Mapping[str, str]] = {
    "python": "the interpreter that runs the lab",
    "address": "where this process shall listen: `127.0.0.1:PORT`, or `unix:PATH`",
    "port": "its port",
    "unix": "the path of its Unix socket",
    "folder": "the temporary folder with the files of all services: where it runs",
    "own": "a temporary folder of this contender alone, with a short path",
    "iterations_per_ms": "how many iterations of `work` make 1 ms of CPU",
    "arguments": "the contender's arguments; in a command, as a part by itself",
}
#: Of a service that stands above in the file: `{NAME.address}` and `{NAME.port}`.
OF_SERVICE: Final = ("address", "port")
_BRACES: Final = re.compile(r"\{([A-Za-z0-9_.-]+)\}")


def used(texts: Iterable[str]) -> Iterator[str]:
    """Names in braces."""
    for text in texts:
        yield from _BRACES.findall(text)


def filled(text: str, values: Mapping[str, str]) -> str:
    """The text with values in place of the names that `values` has."""
    return _BRACES.sub(lambda found: values.get(found[1], found[0]), text)


def filled_command(command: Iterable[str], arguments: Iterable[str], values: Mapping[str, str]) -> list[str]:
    """A command with its arguments and values in place."""
    parts = [one for part in command for one in (arguments if part == ARGUMENTS else (part,))]
    return [filled(part, values) for part in parts]
