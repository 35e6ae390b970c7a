"""The demo's command line: `greenlane demo offers [options]`. A wrong value is a SettingsError, exit code 2."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from greenlane_tools.lab.arguments import Values, number, options, path, switch, whole, words
from offers.contenders import CONTENDERS, FIXES
from offers.table import Region, read

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
        utilisations_frac: shares of one core at which I/O endpoints' added wait is measured; empty = offers are.
    """

    contenders: tuple[str, ...] = tuple(FIXES[fix] for fix in _UNSAID)
    regions: tuple[str, ...] = ()
    utilisations_frac: tuple[float, ...] = ()
    # A burst comes every 36 s: less has no shape.
    seconds: float = number(60.0, 1, 3_600, "riders in each run, after the warm-up")
    repetitions: int = whole(1, 1, 100, "interleaved runs that make up a row")
    cancel: bool = switch("offerservice cancels calls whose offer is late")
    propagate_deadline: bool = switch("offerservice sends its deadline to pricingservice")
    seed: str = words("1", "of all load")
    json: bool = switch("one JSON object on stdout in place of the table")
    page: bool = switch("serve the page: stock and fixed side by side, the fix switched live")
    port: int = whole(0, 0, _LAST_PORT, "of the page; 0 = a free one")
    open_s: float = number(0.0, 0, 86_400, "the page ends after this many seconds; 0 = at Ctrl-C")
    out: Path = path("out/demo/offers", "folder for raw results and rows")


def parse(argv: Sequence[str]) -> Options | str:
    """The options, or the text of --help when that was asked for.

    Raises:
        SettingsError: an unknown option, a value outside its rule, or one that nothing would come of.
    """
    regions = read().regions
    said = (
        "Riders poll offerservice, which gives each offer 500 ms and asks pricingservice for bikes and scooters: how "
        "many offers are missing, under the stock server and with each fix. All runs on this machine and ends with the "
        "demo."
    )
    others = (
        ("--fix", f"one of {', '.join(FIXES)}"),
        ("--fixes", f"some of them, with commas ({','.join(_UNSAID)})"),
        ("--contenders", f"named by server: some of {', '.join(CONTENDERS)}"),
        ("--region", f"some of {', '.join(regions)} ({bad(regions)}, the bad one; the page: all; --utilisations: "
                     f"{well(regions)})"),
        ("--utilisations", "such as 0.7,0.8,0.9: added wait of offers at these shares of one core"),
    )  # fmt: skip
    found = options(Options, _VALUES, "greenlane demo offers", said, argv, others)
    if isinstance(found, str):
        return found
    named, given = found
    utilisations = _VALUES.numbers("--utilisations", given.utilisations, 0.3, 0.95) if given.utilisations else ()
    unsaid = tuple(regions) if given.page else (well(regions) if utilisations else bad(regions),)
    chosen = Options(
        contenders=_contenders(given.fix, given.fixes, given.contenders) or Options().contenders,
        regions=unsaid if given.region is None else _VALUES.names("--region", given.region, tuple(regions)),
        utilisations_frac=utilisations, **named,
    )  # fmt: skip
    if chosen.page:
        _for_the_page(given)
    elif utilisations:
        _for_one_service(given, chosen)
    return chosen


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
