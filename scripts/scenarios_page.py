"""Writes docs/scenarios.md from the declarations in greenlane/lab/scenario/; `--check` only tells whether it is stale.

Exit 0: written, or up to date. Exit 1: stale (the remedy is printed).
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from generated import written_or_checked

from greenlane.settings.setting import Setting, declarations
from greenlane_tools.lab.scenario import parts, rules
from greenlane_tools.lab.scenario.catalogue import TABLES
from greenlane_tools.lab.scenario.parts import Contrast, Service
from greenlane_tools.lab.scenario.scenario import Scenario

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "scenarios.md"
SCENARIOS = ROOT / "lab" / "scenarios"
SHIPPED = ROOT / "packages/greenlane-tools/src/greenlane_tools/demo"

HEAD = """\
# Scenarios

<!-- Written by `make docs` from the declarations in greenlane_tools/lab/scenario/: change them there. -->

A scenario is a TOML file that asks one question of a service under load: what is started, what is asked of it, what
goes wrong meanwhile, which ways to serve it are compared, and what answer is expected.

```
greenlane lab run --list              # scenarios that have a name
greenlane lab run stall               # one of them
greenlane lab run my/scenario.toml --seconds 30 --contenders gevent,greenlane --json
```

## What a run does

The file is checked whole before anything starts; a wrong key or value ends the command with exit code 2. Then all
contenders are started side by side, the CPU of one job is measured where rates are given as shares, and each contender
is warmed up. In each level and repetition every contender has its turn. All meet the same arrivals and amounts of work,
in an open loop: a request leaves when it is due, and its latency counts from then.

- **What is left** in `--out` (`out/lab/NAME`): `run.json` (what it ran on, which runs are done), `samples/RUN.parquet`
  (every request of a run), `rows.json` (the `--json` object), `page.html`.
- **Interrupted**: every process is ended, finished runs are kept, the same command resumes with the rest. Results of
  another scenario, build or machine are refused: `--fresh` forgets them.
- **A service that dies** of itself: the run is kept and marked, it is restarted, and the rest goes on. A contender that
  does not come up is left out. Either way the exit code is 1. When a shared service or every contender fails, it is 2.
- **Notes with a remedy** are printed when other processes took CPU, the generator came late, the clock was set, a
  contender did not reach its utilisation, requests failed, or a percentile stands on too few requests.
- **Bounds** are judged and printed (holds, fails, not measured); with `--check` one that does not hold gives exit
  code 1.
"""
COLUMNS = "\n| key | default | expected | what it is |\n|---|---|---|---|\n"


#: What the page says once.
_NAME = "a name of letters, digits, dots, dashes and underscores"


def page() -> str:
    """The whole page as Markdown."""
    parts = [
        HEAD,
        _scenarios(),
        "\n## Keys of the file\n\n*A name* has letters, digits, dots, dashes and underscores.\n",
        *_table(Scenario),
    ]
    for key, _, kind in TABLES:
        parts += [f"\n## `[[{key}]]`\n\n{_about(kind)}\n", *_table(kind)]
    parts += [f"\n## `[contrast]`\n\n{_about(Contrast)}\n", *_table(Contrast), _placeholders(), _bounds()]
    return "".join(parts)


def main(arguments: list[str]) -> int:
    """Write the page, or with `--check` compare it; the exit code."""
    return written_or_checked(PAGE, page, arguments)


def _scenarios() -> str:
    lines = ["\n## Those that are here\n\n| name | question |\n|---|---|\n"]
    for path in [*sorted(SCENARIOS.glob("*.toml")), *sorted(SHIPPED.glob("*.toml"))]:
        found = tomllib.loads(path.read_text("utf-8"))
        lines.append(f"| `{found['name']}` | {_line(found['question'])} |\n")
    lines.append(
        "\nEach file says beforehand which answer is expected. `mixed` and `pricing` ship in the wheel; `greenlane "
        "demo pricing` runs the latter with options of its own. The others run from a checkout.\n"
    )
    return "".join(lines)


def _about(kind: type[Any]) -> str:
    """A table's docstring, without its own name in front."""
    said = _line((kind.__doc__ or "").partition(": ")[2] or kind.__doc__ or "")
    return said[:1].upper() + said[1:]


def _table(kind: type[Any]) -> Iterable[str]:
    yield COLUMNS
    for setting in declarations(kind).values():
        # The only list that may not be empty.
        required = setting.required or (kind is Service and setting.name == "command")
        rule = setting.rule.replace(_NAME, "a name")
        cells = (f"`{setting.name}`", "required" if required else _default(setting), rule, setting.what)
        yield "| " + " | ".join(_line(cell).replace("|", "\\|") for cell in cells) + " |\n"


def _default(setting: Setting) -> str:
    value = dict(setting.default) if setting.kind == "table" else setting.default  # type: ignore[call-overload]
    unit = f" {setting.unit}" if setting.unit in ("ms", "s") else ""
    return f"`{json.dumps(value)}`{unit}"


def _placeholders() -> str:
    lines = ["\n## Placeholders\n\nIn commands, arguments and environments:\n\n| written | stands for |\n|---|---|\n"]
    lines += [f"| `{{{name}}}` | {meaning} |\n" for name, meaning in rules.MEANINGS.items()]
    lines.append("| `{NAME.address}`, `{NAME.port}` | where the service NAME, which stands above, is reached |\n")
    return "".join(lines)


def _bounds() -> str:
    return f"""
## Bounds

```
{parts.FORM}
```

A CLASS is one of the file's, or `all`; a FIELD one of {", ".join(f"`{name}`" for name in parts.FIELDS)}; a LEVEL is
written as the tables print it (`0.9`, `x2`); with `* CONTENDER` the number is a factor of that contender's value; a
TOOL is one of the contrast's. What speaks of a contender or tool that did not take part is not judged.

```toml
bounds = [
    "bikes.within_deadline_frac >= 0.999 for greenlane",
    "quote.p99_ms <= 1.25 * gevent for greenlane at 0.9",
    "all.errors == 0 for greenlane in surge",
]
```
"""


def _line(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
