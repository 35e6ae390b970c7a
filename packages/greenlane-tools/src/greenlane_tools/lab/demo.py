"""What demos share: how one runs and ends, the object of its `--json`, fields of its rows, cells of its tables."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Protocol, TextIO, TypeVar

from greenlane_tools.lab.ending import exit_code
from greenlane_tools.lab.environment import about
from greenlane_tools.lab.run.talk import Talk, give
from greenlane_tools.lab.statistics import quantile, wilson
from greenlane_tools.lab.verdict import Verdict
from greenlane_tools.lab.written import written
from greenlane_tools.page.quantities import amount, milliseconds, share

# --- A table for people: a heading and a line a row, words to the left, numbers to the right.


def columns(
    rows: Sequence[Mapping[str, Any]], shown: Sequence[tuple[str, str]], cell: Callable[[str, Any], str]
) -> str:
    """The rows as text.

    Args:
        shown: heading and field of each column.
        cell: how a field's value is written, by the field's name.
    """
    lines = [[title for title, _ in shown], *([cell(name, row[name]) for _, name in shown] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    words = [any(isinstance(row[name], str) for row in rows) for _, name in shown]
    return "\n".join(
        "  ".join(
            text.ljust(width) if is_word else text.rjust(width)
            for text, width, is_word in zip(line, widths, words, strict=True)
        ).rstrip()
        for line in lines
    )


Json = dict[str, Any]
#: p99.9 of fewer samples is noise.
MOST_EXACT: Final = 10_000
_PERCENTILES: Final = (("p50_ms", 0.5), ("p95_ms", 0.95), ("p99_ms", 0.99), ("p999_ms", 0.999))
_LATENCY: Final = re.compile(r"(^|_)p\d+_(done_)?ms$")

T = TypeVar("T")


class Chosen(Protocol):
    """What every demo can be asked for."""

    @property
    def json(self) -> bool:
        """One object on stdout in place of the tables."""

    @property
    def repetitions(self) -> int:
        """Interleaved runs that make up a row."""

    @property
    def out(self) -> Path:
        """Folder of the result."""


def run(
    argv: Sequence[str], out: TextIO, err: TextIO, attempted: str, parse: Callable[[Sequence[str]], T | str],
    measured: Callable[[T, TextIO, TextIO], int], stopped: str = "stopped; all processes ended",
) -> int:  # fmt: skip
    """A demo's exit code: 0 well, 1 the run failed, 2 a wrong option, 130 Ctrl-C. Blocks until all has ended.

    Args:
        attempted: what it does, as a verb phrase.
        parse: gives its options, or the text of --help.
        measured: does it.
        stopped: its last words at Ctrl-C.
    """

    def demo() -> int:
        options = parse(argv)
        if isinstance(options, str):
            out.write(options)
            return 0
        return measured(options, out, err)

    return exit_code(attempted, demo, err, stopped)


def chosen(options: Any) -> Json:
    """A demo's options as JSON has them."""
    return {name: str(value) if isinstance(value, Path) else value for name, value in asdict(options).items()}


def environment(packages: Iterable[str], options: Any, **said: object) -> Json:
    """`environment` of `--json`: the machine, the options, and what else is to be known of the figures."""
    return {**about(packages), "options": chosen(options), **said}


def left(
    options: Chosen, document: Json, verdicts: Sequence[Verdict], text: str, raw: str, talk: Talk, out: TextIO,
    remarks: Iterable[str] = (),
) -> None:  # fmt: skip
    """Writes rows.json and gives the result: to people the text, with `--json` the object.

    Args:
        document: all but its verdicts.
        raw: what run.json beside it has.
        remarks: what is to be said after it.
    """
    document = finite({**document, "verdicts": [one.row() for one in verdicts]})
    path = options.out / "rows.json"
    written(path, json.dumps(document, indent=1))
    give(document if options.json else None, text, talk, out)
    for remark in remarks:
        talk.say(remark)
    if verdicts and options.repetitions == 1:
        talk.say("one run each: with --repetitions 3 verdicts have intervals")
    talk.say(f"rows {path}, {raw} {options.out / 'run.json'}")


def finite(value: Any) -> Any:
    """JSON knows neither infinity (a ratio to nothing) nor NaN: they become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: finite(one) for name, one in value.items()}
    return [finite(one) for one in value] if isinstance(value, list | tuple) else value


def percentiles(ascending: Sequence[float], of: int | None = None) -> Json:
    """p50_ms, p95_ms, p99_ms, and p999_ms from 10,000 samples.

    Args:
        ascending: latencies in ms.
        of: how many there should be; the rest never came, and a percentile among those is None. None = all came.
    """
    of = len(ascending) if of is None else of
    found = [*ascending, *[math.inf] * (of - len(ascending))]
    wanted = _PERCENTILES if of >= MOST_EXACT else _PERCENTILES[:-1]
    return {name: finite(quantile(found, share)) if of else None for name, share in wanted}


def shares(name: str, part: int, of: int) -> Json:
    """`{name}_frac` with its 95 % interval (Wilson's); None of none."""
    low, high = wilson(part, of) if of else (None, None)
    return {f"{name}_frac": part / of if of else None, f"{name}_low_frac": low, f"{name}_high_frac": high}


def must_show(verdicts: Sequence[Verdict]) -> str:
    """Verdicts for people."""
    return "Must show\n" + "\n".join(verdict.said() for verdict in verdicts)


def cell(name: str, value: object) -> str:
    """A field's value for people, as its name says: a share, a latency, a count, an amount."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    assert isinstance(value, int | float)
    if name.endswith("_frac"):
        return share(value)
    if _LATENCY.search(name):
        return milliseconds(value)
    return f"{value:,}" if isinstance(value, int) else amount(value)
