"""Runs the situations of docs/oncall.md and pastes what `greenlane report` says of each; also docs/applications.md.

    python scripts/oncall_page.py [--only q01,q14 | --commands] [--keep FOLDER]

A block that is made stands behind a comment that names its situation and the tables that are shown:

    <!-- recorded: q01; - Spans; upstream's clock beside yours -->
    ```text
    ...
    ```

The sentences of a report are always shown, notes ("- Spans ...") and the first rows of tables only if their beginning
is named. "rows VIEW: name, name" shows fields of `--json` instead, "rows VIEW name=value: ..." only of such rows.
"q26-after" is q26 with its remedy, compared. A block behind `<!-- run -->` is what the command in its first line
writes to stdout; behind `<!-- run: NAME; NAME -->` the first paragraph of that, and those that begin so. What is pasted
satisfies the question's own tests; after three runs that do not, the page stays as it was. About three minutes for
all; run it on a machine that has nothing else to do, else "os" is a culprit.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.where import IMPORT_PATH  # noqa: E402

sys.path[:0] = IMPORT_PATH.split(os.pathsep)  # `tests` is one namespace package over all distributions

from tests.oncall import test_oncall  # noqa: E402 # a script of the checkout: its tests are its neighbours
from tests.oncall.evidence import Evidence, gathered, report  # noqa: E402
from tests.oncall.remedies import REMEDIES, Remedy  # noqa: E402
from tests.oncall.situation import SITUATIONS, run  # noqa: E402
from tests.record.foreign.application import APPLICATIONS  # noqa: E402
from tests.record.foreign.run import recorded  # noqa: E402

PAGES = (ROOT / "docs" / "oncall.md", ROOT / "docs" / "applications.md")
BLOCK = re.compile(
    r"(<!-- recorded: (?P<name>[\w-]+)(?P<tables>[^>]*?) -->\n)```text\n.*?^```$", re.MULTILINE | re.DOTALL
)
RUN = re.compile(
    r"(<!-- run(?:: (?P<wanted>.+?))? -->\n)```text\n\$ (?P<command>.+?)\n.*?^```$", re.MULTILINE | re.DOTALL
)
#: Columns of a page; longer lines are cut.
WIDTH = 120
#: Runs of a situation until its tests hold.
_TRIES = 3
#: Rows of a table that are shown.
_MOST = 3

#: Records into a file; gives what is wrong with it.
Record = Callable[[Path], str]
#: Commands, text of the report, its rows.
Made = tuple[list[str], str, list[dict[str, Any]]]
#: A situation recorded again, with its remedy, and compared.
_AFTER = re.compile(r"q(\d+)-after")


def main(argv: list[str]) -> int:
    """Refresh the blocks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="names, separated by commas; empty = all")
    parser.add_argument("--commands", action="store_true", help="only what commands say; nothing is recorded")
    parser.add_argument("--keep", type=Path, help="folder for the recordings and pages")
    given = parser.parse_args(argv)
    wanted = set(filter(None, given.only.split(",")))
    with tempfile.TemporaryDirectory(prefix="oncall-page-") as temporary:
        folder = given.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        untrue: list[str] = []
        for page in PAGES:
            text = page.read_text("utf-8")
            names = [] if given.commands else [name for name in _names(text) if not wanted or name in wanted]
            said = {name: _said(name, folder) for name in names}
            text = _filled(text, {name: made for name, made in said.items() if made is not None})
            untrue += [name for name, made in said.items() if made is None]
            page.write_text(text if wanted else RUN.sub(_run, text), "utf-8")
    return 1 if untrue else 0


def _filled(text: str, made: dict[str, Made]) -> str:
    return BLOCK.sub(lambda match: _block(match, made), text)


def _run(match: re.Match[str]) -> str:
    """The block of a command; as it was where the command fails (an environment that it names is not there)."""
    command = match["command"]
    print(command, file=sys.stderr, flush=True)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    env = {**os.environ, "PATH": path, "PYTHONPATH": IMPORT_PATH}
    done = subprocess.run(shlex.split(command), capture_output=True, text=True, env=env, cwd=ROOT, check=False)
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        return match[0]
    shown = done.stdout.rstrip()
    if match["wanted"]:
        first, *others = shown.split("\n\n")
        shown = "\n\n".join([first, *(one for one in others if one.startswith(_names_in(match["wanted"])))])
    return f"{match[1]}```text\n$ {command}\n{_cut(shown.splitlines())}\n```"


def _names(text: str) -> list[str]:
    return list(dict.fromkeys(match["name"] for match in BLOCK.finditer(text)))


def _said(name: str, folder: Path) -> Made | None:
    file = folder / f"{name}.glr"
    print(name, file=sys.stderr, flush=True)
    if after := _AFTER.fullmatch(name):
        return _compared(REMEDIES[int(after[1])], name, file)
    command, record = _subject(name)
    for _ in range(_TRIES):
        file.unlink(missing_ok=True)
        wrong = record(file)
        if not wrong:
            return [_recording(name, command)], report(file), json.loads(report(file, "--json"))["rows"]
        print(f"{name} does not satisfy its test: {wrong}", file=sys.stderr, flush=True)
    return None


def _compared(remedy: Remedy, name: str, after: Path) -> Made:
    """What `greenlane report --compare` says of the situation before and after its remedy."""
    before = after.with_name(f"{name.removesuffix('-after')}.glr")
    shown = []
    for situation, file in ((remedy.before, before), (remedy.after, after)):
        file.unlink(missing_ok=True)
        run(situation, file)
        shown.append(_recording(file.stem, " ".join(situation.command(8000))))
    return (
        [*shown, f"$ greenlane report {after.name} --compare {before.name}"],
        report(after, "--compare", str(before)),
        [],
    )


def _recording(name: str, command: str) -> str:
    command = command.replace("tests.oncall.situations.", "").replace("127.0.0.1:8000", ":8000")
    return f"$ greenlane record -o {name}.glr -- {command.replace(' --no-control-socket --graceful-timeout 2', '')}"


def _untrue(name: str, file: Path) -> str:
    """Run a situation; why a test that asks for it alone does not hold; "" = all do."""
    evidence = gathered(name, file)

    def ask(asked: str) -> Evidence:
        return evidence if asked == name else gathered(asked, file.with_name(f"{asked}.glr"))

    for test in vars(test_oncall).values():
        if inspect.isfunction(test) and f'ask("{name}")' in inspect.getsource(test):
            try:
                test(ask)
            except AssertionError as error:
                return f"{test.__name__}: {str(error) or traceback.format_exc(limit=-1)}"
    return ""


def _subject(name: str) -> tuple[str, Record]:
    """What a user would type, and what does it."""
    if name in SITUATIONS:
        situation = SITUATIONS[name]
        module = situation.command(8000)
        shown = ["python", "-m", *module] if not situation.serve else module
        return " ".join(shown), lambda file: _untrue(name, file)
    application = next(one for one in APPLICATIONS if one.name == name)
    parts = [part.format(bin="", port=8000).removeprefix("/") for part in application.command]
    return " ".join(parts), lambda file: _one(recorded(application, file))


def _one(_outcome: object) -> str:
    """A run's outcome is the tests' matter."""
    return ""


def _block(match: re.Match[str], made: dict[str, Made]) -> str:
    if match["name"] not in made:
        return match[0]
    commands, text, rows = made[match["name"]]
    tables = _names_in(match["tables"])
    shown = [
        *commands,
        *_chosen(text, tables),
        *(line for table in tables if table.startswith("rows ") for line in _fields(rows, table)),
    ]
    return f"{match[1]}```text\n{_cut(shown)}\n```"


def _names_in(wanted: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in wanted.split(";") if part.strip())


def _cut(lines: list[str]) -> str:
    return "\n".join(line if len(line) <= WIDTH else line[: WIDTH - 1] + "…" for line in lines)


def _chosen(text: str, wanted: tuple[str, ...]) -> list[str]:
    """The sentences, the notes and the first rows of the tables that are wanted."""
    sentences, *sections = re.split(r"\n\s*\n", text.strip())
    skipped = ("page:", "note:", "- ")
    lines = [
        line.rstrip() for line in sentences.splitlines() if line.startswith(wanted) or not line.startswith(skipped)
    ]
    for section in sections:
        if section.strip().startswith(wanted):
            lines += ["", *(line.rstrip() for line in section.splitlines()[: 2 + _MOST])]
    return _wrapped(lines)


def _fields(rows: list[dict[str, Any]], table: str) -> list[str]:
    """Some fields of the rows of a view, as a table."""
    which, _, names = table.removeprefix("rows ").partition(":")
    view, *values = which.split()
    wanted = {"view": view, **dict(value.split("=") for value in values)}
    columns = [name.strip() for name in names.split(",")]
    # A stack is shown by its innermost frame.
    chosen = [row for row in rows if wanted.items() <= row.items()][:_MOST]
    cells = [[str(row[name]).rpartition(";")[2] for name in columns] for row in chosen]
    widths = [max(len(row[place]) for row in [columns, *cells]) for place in range(len(columns))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in [columns, *cells]]
    heading = ", ".join(f'"{name}": "{value}"' for name, value in wanted.items())
    return ["", f"rows of --json, {heading}", *(line.rstrip() for line in lines)]


def _wrapped(lines: list[str]) -> list[str]:
    """Sentences fit the page."""
    found: list[str] = []
    table = False
    for line in lines:
        table = table or not line
        indent = "  " if line.startswith("- ") else ""
        found += [line] if table or len(line) <= 120 else textwrap.wrap(line, 120, subsequent_indent=indent)
    return found


if __name__ == "__main__":
    if shutil.which("redis-server") is None:
        sys.exit("redis-server is missing: `make test-system` installs it")
    sys.exit(main(sys.argv[1:]))
