"""The whole of a scenario."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from greenlane.settings.setting import declare
from greenlane_tools.lab.scenario.parts import (
    FORMULA,
    MAYBE_NAME,
    NAME,
    SENTENCE,
    Bound,
    Contender,
    Contrast,
    Fault,
    Phase,
    RequestClass,
    Service,
)


@dataclass(frozen=True)
class Level:
    """How much load: one of a scenario's utilisations, or one of its factors."""

    # Of one core, by the calibration; None = the rates that the classes say.
    utilisation_frac: float | None
    rate_factor: float = 1.0

    @property
    def label(self) -> str:
        """As it stands in file names and messages: "0.9", or "x2"."""
        return f"{self.utilisation_frac}" if self.utilisation_frac is not None else f"x{self.rate_factor:g}"


@dataclass(frozen=True)
class Scenario:
    """A scenario file. The fields that are declared are its keys; the others its tables."""

    name: str = declare("", "The file's own name.", reason="found by it", pattern=NAME)
    question: str = declare("", "What it is to find out.", reason="written before the run", pattern=SENTENCE)
    expected: str = declare("", "The answer that is expected.", reason="written before the run", pattern=SENTENCE)
    bounds: tuple[str, ...] = declare(
        (), "Expectations that the run checks: see Bounds.", reason="an answer in words may do"
    )
    seconds: float = declare(
        10.0,
        "Load per cell, all its repetitions together. With phases their lengths say it.",
        reason="arbitrary: hundreds of requests",
        unit="s",
        low=0.1,
        high=36_000.0,
    )
    repetitions: int = declare(
        3, "Interleaved runs that make up a cell.", reason="a drift of the machine meets all alike", low=1, high=100
    )
    seed: int = declare(
        1, "Of arrivals and amounts of work; the same for all contenders.", reason="arbitrary", low=0, high=2**31
    )
    utilisations_frac: tuple[float, ...] = declare(
        (),
        "Shares of one core that the classes with a share shall take; each is a cell.",
        reason="only classes with a share need one",
        low=0.01,
        high=4.0,
    )
    rate_factors: tuple[float, ...] = declare(
        (), "Factors of the classes' rates; each is a cell; none = 1.", reason="the rates as they are", low=0.001,
        high=1_000.0,
    )  # fmt: skip
    calibrated_on: str = declare(
        "", "The contender whose CPU per job sets the rates; nothing = the first.", reason="one for all",
        pattern=MAYBE_NAME,
    )  # fmt: skip
    calibrated_s: float = declare(
        0.9,
        "Load per class while it is calibrated.",
        reason="a mean within a few percent",
        unit="s",
        low=0.1,
        high=60.0,
    )
    work: str = declare(
        "",
        "A function that burns CPU, called with a number of iterations, in one of the files that are copied: it is "
        "measured how many make 1 ms, and `{iterations_per_ms}` stands for that number. Work counted so stays the "
        "same on a service that gets less of the CPU.",
        reason="not every service burns",
        pattern=FORMULA,
    )
    warm_s: float = declare(
        1.0, "Load before the first repetition, at half the rate, not kept; 0 = none.", reason="imports, threads",
        unit="s", low=0.0, high=60.0,
    )  # fmt: skip
    settle_s: float = declare(
        4.0,
        "How long a contender may go on with what a run left it with before it is restarted.",
        reason="two thirds of a time-out",
        unit="s",
        low=0.0,
        high=60.0,
    )
    services: tuple[Service, ...] = ()
    classes: tuple[RequestClass, ...] = ()
    phases: tuple[Phase, ...] = ()
    faults: tuple[Fault, ...] = ()
    contenders: tuple[Contender, ...] = ()
    contrast: Contrast = field(default_factory=Contrast)
    # `bounds`, read.
    expectations: tuple[Bound, ...] = ()
    # The folder that relative names start at.
    folder: Path = Path()
    # The file as it was read.
    text: str = ""

    def levels(self) -> tuple[Level, ...]:
        """How much load is offered, in the order of the file."""
        if self.utilisations_frac:
            return tuple(Level(frac) for frac in self.utilisations_frac)
        return tuple(Level(None, factor) for factor in self.rate_factors or (1.0,))

    def target(self) -> Service:
        """The service that the load asks."""
        return next(one for one in self.services if not one.shared)

    def service_of(self, contender: Contender) -> Service:
        """The service that a contender changes."""
        return self.service(contender.service)

    def service(self, name: str) -> Service:
        """The service of that name; "" = the one that the load asks."""
        return next((one for one in self.services if one.name == name), None) or self.target()

    def request_class(self, name: str) -> RequestClass:
        """The class of that name."""
        return next(one for one in self.classes if one.name == name)

    def stretches(self) -> tuple[Phase, ...]:
        """Its phases; one without a name when the file has none."""
        return self.phases or (Phase(name="all", seconds=self.seconds / self.repetitions),)

    def run_seconds(self) -> float:
        """Load of one run."""
        return sum(phase.seconds for phase in self.stretches())

    def begins_s(self, phase: str) -> float:
        """When a phase begins, from the start of the run; "" = the first."""
        at_s = 0.0
        for one in self.stretches():
            if one.name == phase:
                return at_s
            at_s += one.seconds
        return 0.0

    def calibrates(self) -> bool:
        """A class has its rate by a share."""
        return any(one.cpu_share_frac or one.request_share_frac for one in self.classes)

    def chosen(self, names: Sequence[str]) -> tuple[Contender, ...]:
        """The contenders of these names, in that order."""
        return tuple(next(one for one in self.contenders if one.name == name) for name in names)
