"""The worker follows private parts of one release of gunicorn: every other one is refused by name, before any use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

LOOK = """
import sys
sys.path.insert(0, sys.argv[1])
from greenlane.errors import HostError
try:
    from greenlane.hosts.gunicorn import Worker
except HostError as error:
    assert not any(name.startswith("gunicorn") for name in sys.modules)
    print(error)
else:
    print("known")
"""


@pytest.mark.parametrize(
    ("release", "is_known"), [("23.0.0", False), ("26.2.0", False), ("27.0.1", True), ("27.9", True), ("28.0.0", False)]
)
def test_other_releases_are_refused_before_gunicorn_is_imported(
    release: str, is_known: bool, run_python: Callable[..., CompletedProcess[str]], tmp_path: Path
) -> None:
    (tmp_path / f"gunicorn-{release}.dist-info").mkdir()
    metadata = f"Metadata-Version: 2.1\nName: gunicorn\nVersion: {release}\n"
    (tmp_path / f"gunicorn-{release}.dist-info" / "METADATA").write_text(metadata)
    said = run_python(LOOK, str(tmp_path)).stdout
    if is_known:
        assert said == "known\n"
    else:
        assert f"gunicorn={release!r}, expected release 27" in said
        assert "pip install 'gunicorn>=27,<28'" in said and "greenlane.hosts.wsgi" in said
