"""Records services whose truth is known, and says which part of the report's verdict is right.

    python -m tests.truths.check [--keep FOLDER] [--again] [--measured] [--state FILE] [NAME ...]

A line a service, then what was found beside what is true where they differ. --keep leaves the recordings in FOLDER;
with --again those that are there are read, and nothing is run. --measured applies each remedy instead, unrecorded, and
prints the victim's p99 before and after. --state writes a table of all into FILE. Exit 1: something is wrong.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.oncall.evidence import report
from tests.oncall.situation import Seen, run
from tests.truths import cores, elsewhere, pools, shop, threads
from tests.truths.truth import Part, Truth, Verdict, compared

from tests.servers import Postgres

TRUTHS: Mapping[str, Truth] = {
    **pools.TRUTHS, **threads.TRUTHS, **cores.TRUTHS, **elsewhere.TRUTHS, **shop.TRUTHS,
}  # fmt: skip
#: Those of the table in which this began.
SIX = ("pool_dependency", "pool_stats", "c_regex", "executor_resolver", "gil_metrics", "loop_boto")


def recorded(truth: Truth, file: Path, postgres: str = "") -> Seen:
    """Runs the service under `greenlane record`."""
    file.unlink(missing_ok=True)
    seen = run(truth.service, file, postgres)
    assert file.exists(), seen.output
    return seen


def told(truth: Truth, file: Path) -> tuple[list[Part], str]:
    """What the report of a recording says beside the truth, and its first screen."""
    brief = report(file, "--brief")
    return compared(truth, verdict(file), brief), brief


def verdict(file: Path) -> Verdict | None:
    """That of the report of a recording."""
    found: Verdict | None = json.loads(report(file, "--json")).get("verdict")
    return found


def measured(truth: Truth, postgres: str = "") -> tuple[float, float]:
    """The victim's p99 before and after its change, in ms, by its clients; unrecorded."""
    assert truth.changed is not None
    return tuple(
        1000 * run(each, None, postgres).clients.share(truth.path, 0.99) for each in (truth.service, truth.changed)
    )  # type: ignore[return-value]


def main(argv: Sequence[str]) -> int:
    """Run some or all of them."""
    parser = argparse.ArgumentParser(prog="check")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--measured", action="store_true")
    parser.add_argument("--state", type=Path)
    parser.add_argument("names", nargs="*", choices=[[], *TRUTHS])
    options = parser.parse_args(argv)
    names = options.names or [*TRUTHS]
    with Postgres() as database, tempfile.TemporaryDirectory(prefix="truths-") as folder:
        if options.measured:
            return _measure(names, database.url)
        rows = []
        for name in names:
            file = (options.keep or Path(folder)) / f"{name}.glr"
            try:
                if not (options.again and file.exists()):
                    recorded(TRUTHS[name], file, database.url)
                parts, brief = told(TRUTHS[name], file)
            except (AssertionError, OSError, subprocess.SubprocessError) as error:
                parts, brief = [Part("run", False, str(error), "one that ends")], ""
            rows.append((name, parts, brief))
            _print(name, parts, brief)
    right = sum(all(part.right for part in parts) for _, parts, _ in rows)
    print(f"{right} of {len(rows)} are right")
    if options.state:
        options.state.write_text(
            "\n".join(["| service | truth | first sentence | wrong |", "|---|---|---|---|", *map(_row, rows), ""])
        )
    return 0 if right == len(rows) else 1


def _print(name: str, parts: list[Part], brief: str) -> None:
    print(f"{name:<22} {' '.join(('+' if part.right else '-') + part.name for part in parts)}")
    for part in parts:
        if not part.right:
            print(f"    {part.name}: {part.found!r}, expected {part.expected}")
    if not all(part.right for part in parts):
        print("".join(f"    | {line}\n" for line in brief.splitlines()[:12]), end="", flush=True)


def _row(row: tuple[str, list[Part], str]) -> str:
    name, parts, brief = row
    wrong = "; ".join(f"{part.name}: {part.found} (expected {part.expected})" for part in parts if not part.right)
    cells = (name, TRUTHS[name].cause, " ".join(brief.split("\n\n")[0].split()), wrong or "nothing")
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _measure(names: Sequence[str], postgres: str) -> int:
    print(f"{'service':<22} {'p99 before':>10} {'after':>8}   what is changed")
    wrong = 0
    for name in names:
        truth = TRUTHS[name]
        if truth.changed is None:
            continue
        before, after = measured(truth, postgres)
        helps = after <= truth.most_frac * before
        wrong += not helps
        print(
            f"{name:<22} {before:>7.0f} ms {after:>5.0f} ms   {truth.change}{'' if helps else '   DOES NOT HELP'}",
            flush=True,
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
