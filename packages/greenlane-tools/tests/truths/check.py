"""Records services whose truth is known, and says which part of the report's verdict is right.

    python -m tests.truths.check [--keep FOLDER] [--again] [--measured] [--page] [NAME ...]

A line a service, then what was found beside what is true where they differ. --keep leaves the recordings in FOLDER;
with --again those that are there are read, and nothing is run. --measured applies each remedy instead, unrecorded, and
prints the victim's p99 before and after. --page writes the table of docs/report.md, with those times as FOLDER has
them. Exit 1: something is wrong.
"""

from __future__ import annotations

import argparse
import json
import re
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
_ROOT = Path(__file__).resolve().parents[4]
_PAGE = _ROOT / "docs" / "report.md"
_COMMAND = "python -m tests.truths.check --page"


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
    parser.add_argument("--page", action="store_true")
    parser.add_argument("names", nargs="*", choices=[[], *TRUTHS])
    options = parser.parse_args(argv)
    names = options.names or [*TRUTHS]
    with Postgres() as database, tempfile.TemporaryDirectory(prefix="truths-") as folder:
        if options.measured:
            return _measure(names, database.url, options.keep or Path(folder))
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
        if options.page:
            _write([_row(*row, options.keep or Path(folder)) for row in rows])
    return 0 if right == len(rows) else 1


def _print(name: str, parts: list[Part], brief: str) -> None:
    print(f"{name:<22} {' '.join(('+' if part.right else '-') + part.name for part in parts)}")
    for part in parts:
        if not part.right:
            print(f"    {part.name}: {part.found!r}, expected {part.expected}")
    if not all(part.right for part in parts):
        print("".join(f"    | {line}\n" for line in brief.splitlines()[:12]), end="", flush=True)


def _row(name: str, parts: list[Part], brief: str, folder: Path) -> str:
    wrong = [part.name for part in parts if not part.right]
    do = next((line.removeprefix("do ").strip() for line in brief.splitlines() if line.startswith("do ")), "")
    times = folder / f"{name}.p99"
    p99 = times.read_text() if times.exists() else "-"
    cells = (name, TRUTHS[name].cause, brief.partition("\n")[0], do, ", ".join(wrong) or "-", p99)
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _write(rows: Sequence[str]) -> None:
    """Puts the table in place of the page's."""
    tree = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], cwd=_ROOT, check=True, capture_output=True, text=True
    )
    of = "packages/greenlane-tools/src/greenlane_tools/report"
    head = f"<!-- measured: {_COMMAND}; tree: {tree.stdout.strip()}; of: {of} -->\n"
    titles = ("service", "its cause", "first sentence of `--brief`", "do", "wrong", "p99 before, after")
    lines = [f"| {' | '.join(titles)} |", f"|{'---|' * len(titles)}", *rows]
    old = rf"<!-- measured: {_COMMAND}; .*?\n\n(?=#|\Z)"
    _PAGE.write_text(re.sub(old, lambda _: "\n".join([head, *lines, "", ""]), _PAGE.read_text(), flags=re.DOTALL))


def _measure(names: Sequence[str], postgres: str, folder: Path) -> int:
    print(f"{'service':<22} {'p99 before':>10} {'after':>8}   what is changed")
    wrong = 0
    for name in names:
        truth = TRUTHS[name]
        if truth.changed is None:
            continue
        before, after = measured(truth, postgres)
        helps = after <= truth.most_frac * before
        wrong += not helps
        (folder / f"{name}.p99").write_text(f"{before:.0f}, {after:.0f} ms: {truth.change}")
        print(
            f"{name:<22} {before:>7.0f} ms {after:>5.0f} ms   {truth.change}{'' if helps else '   DOES NOT HELP'}",
            flush=True,
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
