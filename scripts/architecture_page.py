"""Writes docs/architecture.md: its table from processes that `tests.inside` starts; `--check` only compares.

Exit 0: written, or up to date. Exit 1: stale (the remedy is printed). It starts gunicorn, Celery, uvicorn and HAProxy.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from generated import written_or_checked

from tests.inside.rows import LIMITS, row_of
from tests.inside.starting import look_inside

PAGE = Path(__file__).resolve().parent.parent / "docs" / "architecture.md"

#: Kinds of process, as `tests.inside` names them, and what runs there.
PROCESSES: Final = {
    "wsgi": "middleware",
    "asgi": "ASGI",
    "gunicorn": "gunicorn worker",
    "serve": "`serve` worker",
    "work": "`work`",
    "record": "recorded",
}
#: Parts in the order of the layers; each is a package or module of that name.
PARTS: Final = {
    "greenlane.probes": "sees blocking calls",
    "greenlane.policy": "decisions, from Rust",
    "greenlane.lanes": "permits and lanes",
    "greenlane.placement": "work beside a loop",
    "greenlane.record": "the recorder",
    "greenlane.control": "control socket",
    "greenlane.export": "metrics",
    "greenlane.settings": "settings",
    "greenlane.wiring": "puts the parts together",
    "greenlane.hosts.wsgi": "middleware",
    "greenlane.hosts.asgi": "ASGI host",
    "greenlane.hosts.gunicorn": "gunicorn's worker",
    "greenlane.hosts.observed": "servers, watched",
    "greenlane_work": "Celery pool, store",
    "greenlane_serve": "a `serve` worker's part",
    "greenlane_tools": "everything offline",
}

HEAD = """\
# What runs inside a service, and what outside

<!-- Written by `make docs` from scripts/architecture_page.py and from processes that tests/inside starts. -->

A web service loads one distribution, `greenlane`. A Celery worker loads `greenlane_work` beside it, and a worker of
`greenlane serve` loads `greenlane_serve.worker`. Everything else runs outside, in processes of its own. The two sides
share two things: the recording file and the control socket.

```text
        INSIDE: your processes                                  OUTSIDE: an engineer's, or a supervisor's

  +---------------------------------+      recording file      +----------------------------------------+
  | greenlane                       | -----------------------> | greenlane-tools                        |
  |   hosts    probes    record     |         (.glr)           |   reader   report   plan               |
  |   policy   lanes     placement  |                          |   lab      demo     page               |
  |   settings control   export     |      control socket      |   greenlane_tools._native              |
  |   greenlane._native             | <----------------------> |                                        |
  +---------------------------------+     (control_dir)        +----------------------------------------+
  | greenlane-work                  |                          | greenlane-serve                        |
  |   Celery pool, store, diversion |                          |   HAProxy tree, exports                |
  +---------------------------------+                          |   (its workers load greenlane and      |
                                                               |    greenlane_serve.worker, no more)    |
                                                               +----------------------------------------+
```

- **Recording file.** The recorder writes it, the reader opens it: [recording-format.md](recording-format.md).
- **Control socket.** One line of JSON each way. A process opens it only if `control_dir` is set. `greenlane top`,
  `mode` and `record --on|--off` use it.

`lint-imports` enforces this border and the layers (`[tool.importlinter]` in pyproject.toml), `tests/test_crates.py`
those of the crates. Native code is split in the same way: `greenlane._native` has no reader, simulator or load
generator.

## What each kind of process loads

Each was started, got requests, and listed what it had loaded (tests/inside). A dot means: loaded after the first
requests, with default settings.

"""


def page() -> str:
    """The whole page as Markdown."""
    loaded = {host: _modules(host) for host in PROCESSES}
    lines = [f"| part | what it is | {' | '.join(PROCESSES.values())} |", f"|---|---|{'---|' * len(PROCESSES)}"]
    for part, what in PARTS.items():
        dots = ["•" if any(f"{name}.".startswith(f"{part}.") for name in loaded[host]) else "" for host in PROCESSES]
        lines.append(f"| `{part}` | {what} | {' | '.join(dots)} |")
    for title, number in (("modules, at most", 0), ("lines of code, at most", 1)):
        most = [f"{LIMITS[host][number]:,}" if host in LIMITS else "" for host in PROCESSES]
        lines.append(f"| {title} | | {' | '.join(most)} |")
    return HEAD + "\n".join(lines) + "\n"


def _modules(host: str) -> list[str]:
    return [one["module"] for one in row_of(host, look_inside(host))["listed"]]


if __name__ == "__main__":
    sys.exit(written_or_checked(PAGE, page, sys.argv[1:]))
