"""The tools that are measured beside `greenlane record`, in an environment of their own: no dependency of Greenlane.

It is made once, with the CPython and the very versions of Flask, gunicorn, gevent, greenlet and numpy that run here,
so that a rival differs from `stock` by nothing but itself; `stock-again` runs in it without any tool and shows by how
much two equal services differ.
"""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from importlib import metadata
from pathlib import Path

# The newest of today; what was installed is printed with the result.
TOOLS = (
    "ddtrace", "viztracer", "yappi", "opentelemetry-distro", "opentelemetry-instrumentation-flask",
    "opentelemetry-instrumentation-requests", "opentelemetry-instrumentation-urllib3",
)  # fmt: skip
# What the service runs on, each pinned to the version of this interpreter.
SHARED = ("flask", "werkzeug", "jinja2", "gunicorn", "gevent", "greenlet", "numpy")
_SHOWN = ("ddtrace", "viztracer", "yappi", "opentelemetry-sdk", "opentelemetry-instrumentation-flask")
# Some 60 MB of wheels over a slow line.
_INSTALL_S = 600.0


def made(folder: Path) -> Path:
    """Its interpreter; made if it is not there or has other versions of what is shared.

    Raises:
        CalledProcessError, TimeoutExpired: pip could not install it (no network, no wheel for this CPython).
    """
    python = folder / "bin" / "python"
    wanted = [f"{name}=={metadata.version(name)}" for name in SHARED]
    stamp = folder / "shared.json"
    if not (stamp.exists() and json.loads(stamp.read_text()) == wanted):
        venv.create(folder, with_pip=True, clear=True)
        command = [python, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", *TOOLS, *wanted]
        subprocess.run(command, check=True, timeout=_INSTALL_S, stdout=sys.stderr)
        stamp.write_text(json.dumps(wanted))
    return python


def versions(python: Path) -> dict[str, str]:
    """Versions of the tools in that environment."""
    source = "import json, sys; from importlib import metadata; "
    source += "print(json.dumps({name: metadata.version(name) for name in sys.argv[1:]}))"
    done = subprocess.run([python, "-c", source, *_SHOWN], check=True, capture_output=True, text=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found
