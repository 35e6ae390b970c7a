"""The demo's command line: `greenlane demo offers [options]`. A wrong value is a SettingsError, exit code 2."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from greenlane_tools.lab.arguments import Parser, Values
from offers.contenders import CONTENDERS, FIXES
from offers.table import Region, read

__all__ = ["ATTEMPTED", "Options", "bad", "parse", "well"]

ATTEMPTED: Final = "run the offers demo"
_VALUES: Final = Values(ATTEMPTED, "greenlane demo offers --help lists every option")
_UNSAID: Final = ("none", "permits")
_LAST_PORT: Final = 65_535


@dataclass(frozen=True)
class Options:
    """What is to be run.

    Args:
        contenders: who serves pricingservice, in the order of the tables.
        regions: measured one after the other; the page shows them beside each other.
        seconds: of riders in each run, after the warm-up.
        repetitions: interleaved runs that make up a row.
        utilisations_frac: shares of one core at which I/O endpoints' added wait is measured; empty = offers are.
        cancel: offerservice ends calls whose offer came too late.
        propagate_deadline: it tells pricingservice how long it will wait.
        seed: of all load.
        json: one object on stdout in place of the tables.
        page: serve the page in place of measuring.
        port: of the page; 0 = a free one.
        open_s: the page ends after so many seconds; 0 = at Ctrl-C.
        out: folder of the result.
    """

    contenders: tuple[str, ...] = tuple(FIXES[fix] for fix in _UNSAID)
    regions: tuple[str, ...] = ()
    # A burst comes every 36 s: less has no shape.
    seconds: float = 60.0
    repetitions: int = 1
    utilisations_frac: tuple[float, ...] = ()
    cancel: bool = False
    propagate_deadline: bool = False
    seed: str = "1"
    json: bool = False
    page: bool = False
    port: int = 0
    open_s: float = 0.0
    out: Path = Path("out/demo/offers")


def parse(argv: Sequence[str]) -> Options | str:
    """The options, or the text of --help when that was asked for.

    Raises:
        SettingsError: an unknown option, a value outside its rule, or one that nothing would come of.
    """
    regions = read().regions
    given = _parser(regions).given(argv)
    if isinstance(given, str):
        return given
    default, utilisations = Options(), _utilisations(given.utilisations)
    unsaid = tuple(regions) if given.page else (well(regions) if utilisations else bad(regions),)
    options = Options(
        contenders=_contenders(given.fix, given.fixes, given.contenders) or default.contenders,
        regions=unsaid if given.region is None else _VALUES.names("--region", given.region, tuple(regions)),
        seconds=_VALUES.number("--seconds", given.seconds, 1, 3_600),
        repetitions=_VALUES.whole("--repetitions", given.repetitions, 1, 100),
        utilisations_frac=utilisations,
        cancel=given.cancel,
        propagate_deadline=given.propagate_deadline,
        seed=given.seed,
        json=given.json,
        page=given.page,
        port=_VALUES.whole("--port", given.port, 0, _LAST_PORT),
        open_s=_VALUES.number("--open-s", given.open_s, 0, 86_400),
        out=given.out,
    )
    if options.page:
        _for_the_page(given)
    elif utilisations:
        _for_one_service(given, options)
    return options


def bad(regions: Mapping[str, Region]) -> str:
    """The region in which callers come in bursts."""
    return max(regions.values(), key=lambda region: len(region.bursts)).name


def well(regions: Mapping[str, Region]) -> str:
    """The first of those in which they do not."""
    return min(regions.values(), key=lambda region: len(region.bursts)).name


def _contenders(fix: str | None, fixes: str | None, contenders: str | None) -> tuple[str, ...]:
    """In the order of the tables, whatever the order in which they were named."""
    named: list[str] = []
    if fix is not None:
        named += (FIXES[one] for one in _VALUES.names("--fix", fix, tuple(FIXES), at_most=1))  # type: ignore[index]
    if fixes is not None:
        named += (FIXES[one] for one in _VALUES.names("--fixes", fixes, tuple(FIXES)))  # type: ignore[index]
    if contenders is not None:
        named += _VALUES.names("--contenders", contenders, tuple(CONTENDERS))
    return tuple(name for name in CONTENDERS if name in named)


def _for_the_page(given: argparse.Namespace) -> None:
    """It measures nothing, and what is named is the fix of its right side. Raises SettingsError."""
    if given.utilisations is not None:
        raise _VALUES.wrong("--utilisations", given.utilisations, "it left out beside --page, which measures nothing")
    named = {"--fix": given.fix, "--fixes": given.fixes, "--contenders": given.contenders}
    right = [name for name in _contenders(*named.values()) if name != FIXES["none"]]
    for flag, text in named.items():
        if text is not None and not (len(right) == 1 and right[0] in FIXES.values()):
            fixes = ", ".join(fix for fix in FIXES if fix != "none")
            raise _VALUES.wrong(flag, text, f"one of {fixes} beside --page, for its right side")


def _for_one_service(given: argparse.Namespace, options: Options) -> None:
    """Added wait is of one region's pricingservice, asked without offerservice. Raises SettingsError."""
    if len(options.regions) > 1:
        raise _VALUES.wrong("--region", given.region, "one region beside --utilisations")
    for flag, is_given in (("--cancel", given.cancel), ("--propagate-deadline", given.propagate_deadline)):
        if is_given:
            raise _VALUES.wrong(flag, "on", "it left out beside --utilisations, which asks no offerservice")


def _utilisations(text: str | None) -> tuple[float, ...]:
    if text is None:
        return ()
    return tuple(_VALUES.number("--utilisations", part, 0.3, 0.95) for part in text.split(","))


def _parser(regions: Mapping[str, Region]) -> Parser:
    default = Options()
    parser = Parser(
        _VALUES,
        prog="greenlane demo offers",
        description="Riders poll offerservice, which gives each offer 500 ms and asks pricingservice for bikes and "
        "scooters: how many offers are missing, under the stock server and with each fix. All runs on this machine and "
        "ends with the demo.",
    )
    add = parser.add_argument
    add("--fix", help=f"one of {', '.join(FIXES)}")
    add("--fixes", help=f"some of them, with commas ({','.join(_UNSAID)})")
    add("--contenders", help=f"by who serves: some of {', '.join(CONTENDERS)}")
    add("--region", help=f"some of {', '.join(regions)} ({bad(regions)}, the bad one; the page: all; --utilisations: "
        f"{well(regions)})")  # fmt: skip
    add("--seconds", default=f"{default.seconds:g}", help="riders in each run (60)")
    add("--repetitions", default=str(default.repetitions), help="interleaved runs that make up a row (1)")
    add("--utilisations", help="such as 0.7,0.8,0.9: what offers wait beyond their own time at so much of one core")
    add("--cancel", action="store_true", help="offerservice ends calls that came too late")
    add("--propagate-deadline", action="store_true", help="offerservice tells pricingservice how long it will wait")
    add("--seed", default=default.seed, help="of all load (1)")
    add("--json", action="store_true", help="one JSON object on stdout in place of the table")
    add("--page", action="store_true", help="serve the page: stock and fixed side by side, the fix switched live")
    add("--port", default=str(default.port), help="of the page (a free one)")
    add("--open-s", default=f"{default.open_s:g}", help="the page ends after so many seconds (0 = at Ctrl-C)")
    add("--out", type=Path, default=default.out, help=f"folder for raw results and rows ({default.out})")
    return parser
