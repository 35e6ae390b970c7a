"""Writes docs/settings.md from the declarations of all distributions; `--check` tells whether it is stale.

Exit 0: written, or up to date. Exit 1: stale (the remedy is printed).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from generated import written_or_checked

from greenlane.settings import listing
from greenlane.settings.parts import ALIASES, FIRST

PAGE = Path(__file__).resolve().parent.parent / "docs" / "settings.md"

HEAD = """\
# Settings

<!-- Written by `make docs` from greenlane/settings/settings.py and settings.py of the other distributions: change them
there. -->

A value comes from `greenlane.toml` in the current directory (or the file that `GREENLANE_CONFIG` names), then from the
environment, then from a flag. The later one wins. `greenlane config` prints what is in force and where each value came
from. An unknown key, a value out of range or an unreadable file ends the program with exit code 2 and a message that
names the setting, the value, the rule and one remedy.

The environment variable of `interval_ms` is `GREENLANE_INTERVAL_MS`, its flag `--interval-ms`, and so for every
setting. Lists are written comma separated there, and as lists in the file.

Each distribution declares its own settings. A process passes over those of a distribution that it has not loaded, so
one file may serve all of them.

`greenlane config --example > greenlane.toml` writes a commented file with every default. Without a `greenlane.toml` the
table `[tool.greenlane]` of `pyproject.toml` is read. The tables `[serve]`, `[tasks]` and `[record]` group the settings
of a part; their keys leave out `task_` and `record_`. The flat names work everywhere. Names that other servers use are
accepted too: {aliases}.

```toml
interval_ms = 0.5

[serve]
queue_timeout_s = 10        # the same as queue_s = 10 at the top

[tasks]
key = "kwargs.merchant"     # task_key

[lanes.search]
match = ["GET /search*"]
deadline_ms = 500
```
"""
LANES = """
## Lanes

A lane is a table `[lanes.NAME]` of the file; the first lane that matches a job is its lane. Its keys have neither an
environment variable nor a flag.
"""
COLUMNS = "\n| setting | default | expected | what it is, and why this default |\n|---|---|---|---|\n"


def page() -> str:
    """The whole page as Markdown."""
    rows = listing.describe()
    aliases = ", ".join(f"`{other}` (`{name}`)" for other, name in ALIASES.items())
    text = HEAD.replace("{aliases}", aliases)
    by_name = {str(row["setting"]): row for row in rows}
    text += f"\n## The ten that people set first\n\nThey are in no table below.\n{COLUMNS}"
    text += "".join(_row(by_name[name]) for name in FIRST)
    for distribution in listing.by_distribution():
        own = [row for row in rows if row["distribution"] == distribution and row["setting"] not in FIRST]
        text += f"\n## {distribution}\n{COLUMNS}" + "".join(_row(row) for row in own if not _of_lane(row))
    return text + LANES + COLUMNS + "".join(_row(row) for row in rows if _of_lane(row))


def main(arguments: list[str]) -> int:
    """Write the page, or with `--check` compare it; the exit code."""
    return written_or_checked(PAGE, page, arguments)


def _of_lane(row: dict[str, object]) -> bool:
    return str(row["setting"]).startswith("lanes.")


def _row(row: dict[str, object]) -> str:
    cells = (f"`{row['setting']}`", _default(row), str(row["rule"]), f"{row['what']} *{row['reason']}*")
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _default(row: dict[str, object]) -> str:
    unit = f" {row['unit']}" if row["unit"] in ("ms", "s") else ""
    return f"`{json.dumps(row['default'])}`{unit}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
