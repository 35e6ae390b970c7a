"""What the suites need: one virtual environment with pinned wheels, and unpacked source distributions.

Both are kept under `target/ecosystem` and made again when a pin changes. A source distribution is used only where the
installed package has no tests.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CACHE = ROOT / "target" / "ecosystem"
#: What a source distribution needs while pip asks it for its name; none is compiled.
_BUILD = {
    "PIP_BUILD_CONSTRAINT": str(HERE / "build-requirements.txt"),
    "DISABLE_SQLALCHEMY_CEXT": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
}
_INSTALL_LIMIT_S = 600
_DOWNLOAD_LIMIT_S = 120


def python(say: Callable[[str], None], pins: Path = HERE / "requirements.txt") -> Path:
    """Give the interpreter of an environment which has the pinned packages and sees the checkout's guest."""
    base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    key = hashlib.sha256(pins.read_bytes() + str(base).encode() + sys.version.encode()).hexdigest()[:12]
    folder = CACHE / f"venv-{key}"
    found = folder / "bin" / "python"
    if not (folder / "complete").exists():
        say(f"installing the packages of {pins.name} (some 80 MB) …")
        shutil.rmtree(folder, ignore_errors=True)
        _run([str(base), "-m", "venv", str(folder)], _INSTALL_LIMIT_S)
        _run([str(found), "-m", "pip", "install", "--quiet", "pip>=25.3"], _INSTALL_LIMIT_S)
        install = ["install", "--quiet", "--no-deps", "--prefer-binary", "-r", str(pins)]
        _run([str(found), "-m", "pip", *install], _INSTALL_LIMIT_S)
        (folder / "complete").touch()
    site = next(folder.glob("lib/python3*/site-packages"))
    # No line of Python: nothing runs and nothing is imported at start.
    (site / "ecosystem.pth").write_text(f"{HERE / 'inside'}\n{ROOT / 'packages' / 'greenlane' / 'src'}\n")
    return found


def source(name: str, drop: list[str], interpreter: Path, say: Callable[[str], None]) -> Path:
    """Give the folder of a source distribution that `sources.txt` pins, without the folders of `drop`."""
    pin = next(line for line in (HERE / "sources.txt").read_text().splitlines() if line.startswith(f"{name}=="))
    key = hashlib.sha256(pin.encode()).hexdigest()[:12]
    folder = CACHE / "sources" / f"{name}-{key}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Suites that run side by side may share a source.
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            say(f"downloading {pin.split()[0]} …")
            making = folder.with_suffix(".making")
            shutil.rmtree(making, ignore_errors=True)
            making.mkdir()
            (making / "pin.txt").write_text(f"{pin}\n")
            download = ["download", "--quiet", "--no-binary", ":all:", "--no-deps", "--require-hashes"]
            download += ["-d", str(making), "-r", str(making / "pin.txt")]
            _run([str(interpreter), "-m", "pip", *download], _DOWNLOAD_LIMIT_S)
            with tarfile.open(next(making.glob("*.tar.gz"))) as archive:
                archive.extractall(making, filter="data")
            making.rename(folder)
        found = next(each for each in folder.iterdir() if each.is_dir())
        for each in drop:
            shutil.rmtree(found / each, ignore_errors=True)
    return found


def _run(command: list[str], limit_s: float) -> None:
    subprocess.run(command, check=True, timeout=limit_s, env={**os.environ, **_BUILD}, stdin=subprocess.DEVNULL)
