"""Virtual environments of other people: made once under `target/environments`, with packages from the index."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.where import ROOT

CACHE = ROOT / "target" / "environments"
_LIMIT_S = 100


def environment(packages: Sequence[str], python: str = sys.executable) -> Path:
    """Give the `bin` of an environment that has these packages only; tests that run side by side share it.

    Args:
        packages: pip's arguments.
        python: what it is made by.
    """
    key = hashlib.sha256("\n".join([python, *packages]).encode()).hexdigest()[:12]
    folder = CACHE / key
    CACHE.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            _run([python, "-m", "venv", "--without-pip", folder])
            pip = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "--quiet"]
            _run([*pip, "--no-input", *packages])
            (folder / "complete").touch()
    return folder / "bin"


def _run(command: Sequence[str | Path]) -> None:
    done = subprocess.run(command, timeout=_LIMIT_S, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, command))}: {(done.stdout + done.stderr).decode()}"
