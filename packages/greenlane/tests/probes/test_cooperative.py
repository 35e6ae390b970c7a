"""A monkey-patched process is refused with what to do about it; gevent merely imported is not."""

from __future__ import annotations

from typing import Any

import pytest

from greenlane import probes

PATCHED = """
from gevent import monkey
monkey.patch_all()
from greenlane import probes
from greenlane.errors import HostError
import socket
theirs = dict(vars(socket.socket))
assert "gunicorn -k greenlane.hosts.gunicorn.Worker" in probes.explain_gevent()
try:
    probes.install()
except HostError as refused:
    assert refused.code == "host" and "gevent.monkey" in str(refused) and "\\nhint: " in str(refused), refused
else:
    raise SystemExit("not refused")
assert dict(vars(socket.socket)) == theirs
"""

IMPORTED = """
import gevent.monkey
from greenlane import probes
assert probes.explain_gevent() is None
probes.install()
probes.uninstall()
"""


def test_nothing_is_said_without_green_threads() -> None:
    assert probes.explain_gevent() is None


@pytest.mark.slow
@pytest.mark.parametrize("program", [PATCHED, IMPORTED])
def test_gevent(program: str, run_python: Any) -> None:
    pytest.importorskip("gevent")
    # Its import looks for distributions in a way that setuptools warns about.
    run_python("import warnings; warnings.simplefilter('ignore')\n" + program)
