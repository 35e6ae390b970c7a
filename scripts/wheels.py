"""Builds the release: wheels for each CPython and processor, and source distributions; then installs and tries them.

    python scripts/wheels.py [--python 3.13] [--arch x86_64] [--no-build] [--no-try] [--must-try] [--out dist]

The C compiler and linker is zig (from the index), told to use glibc 2.17: manylinux2014, old enough for every
supported distribution. For another processor than this one, rustc and its standard library come from Debian's
packages, unpacked below target/cross: nothing is installed on the machine. No interpreter but the one that runs this is
needed to build; each one found on this machine tries its own wheel, in a fresh environment and without cargo.

Not abi3: the guest reads structs that the limited API hides (thread state, frames, method tables).

Exit 0: every file was built, is what it says, and was tried where it can run. Exit 2: something is missing here.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from debian import CannotError, PrivateApt

ROOT: Final = Path(__file__).resolve().parent.parent
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14", "3.15", "3.14t", "3.15t")
ARCHES: Final = ("x86_64", "aarch64")
NATIVE: Final = ("greenlane", "greenlane-tools")
PURE: Final = ("greenlane-serve", "greenlane-work")
POLICY: Final = "manylinux_2_17"
#: What a service downloads, in megabytes.
GUEST_AT_MOST_MB: Final = 2.5

_CROSS: Final = ROOT / "target" / "cross"
_DEBIAN_ARCH: Final = {"x86_64": "amd64", "aarch64": "arm64"}
#: What of PEP 599's list a module in Rust may load; not libpython, which the interpreter is.
_ALLOWED: Final = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libgcc_s.so.1"} | {
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
}
_MACHINE: Final = {"x86_64": "Advanced Micro Devices X86-64", "aarch64": "AArch64"}


def main() -> int:
    """Run it; see the module."""
    options = _options()
    out: Path = options.out.resolve()
    try:
        if options.build:
            _build(out, options.python, options.arch)
        wheels = sorted(out.glob("greenlane*.whl"))
        _look_at(wheels)
        if options.tries:
            tried = _try_all(out, options.python)
            if options.must_try and (missing := set(options.python) - tried):
                raise CannotError(f"no interpreter here to try {', '.join(sorted(missing))}")
        _write_sums(out)
    except CannotError as error:
        print(f"wheels: {error}", file=sys.stderr)
        return 2
    except subprocess.CalledProcessError as error:
        print(f"wheels: {' '.join(map(str, error.cmd))} failed with {error.returncode}", file=sys.stderr)
        return 1
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="wheels", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--python", action="append", choices=PYTHONS, help="only this version; may be given again")
    parser.add_argument("--arch", action="append", choices=ARCHES, help="only this processor; may be given again")
    parser.add_argument("--no-build", dest="build", action="store_false", help="look at and try what is there")
    parser.add_argument("--no-try", dest="tries", action="store_false", help="install nothing")
    parser.add_argument("--must-try", action="store_true", help="a version without an interpreter here fails")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder (default: dist)")
    options = parser.parse_args()
    options.python = options.python or list(PYTHONS)
    options.arch = options.arch or list(ARCHES)
    return options


# --- building ---------------------------------------------------------------------------------------------------------


def _build(out: Path, pythons: Sequence[str], arches: Sequence[str]) -> None:
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    for name in PURE:
        _run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", out, ROOT / "packages" / name])
        _run([_tool("hatchling"), "build", "-t", "sdist", "-d", out], cwd=ROOT / "packages" / name, quiet=True)
    for name in NATIVE:
        _run([_tool("maturin"), "sdist", "--out", out], cwd=ROOT / "packages" / name, quiet=True)
    _build_from_sources(out)
    for arch in arches:
        # maturin asks the first python3 for its zig.
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = os.environ | {"CARGO_TARGET_DIR": str(ROOT / "target" / "wheels"), "PATH": path}
        if not _has_standard_library(arch):
            environment["RUSTC"] = str(_rustc_for(arch))
        for python in pythons:
            for name in NATIVE:
                begun = time.monotonic()
                how = ["--release", "--locked", "--quiet", "--zig", "--compatibility", "manylinux2014"]
                what = ["--target", f"{arch}-unknown-linux-gnu", "-i", python]
                _run(
                    [_tool("maturin"), "build", *how, *what, "--out", str(out)],
                    cwd=ROOT / "packages" / name,
                    env=environment,
                )
                print(f"built {name} for CPython {python} on {arch} in {time.monotonic() - begun:.0f} s", flush=True)
    # What an index would show: strict, so that a page that is not rendered fails.
    _run([_tool("twine"), "check", "--strict", *sorted(out.glob("greenlane*"))])


def _build_from_sources(out: Path) -> None:
    """Build a wheel of each source distribution as pip would, for this interpreter; the wheels are thrown away."""
    begun = time.monotonic()
    environment = os.environ | {"CARGO_TARGET_DIR": str(ROOT / "target" / "wheels")}
    with tempfile.TemporaryDirectory() as name:
        for source in sorted(out.glob("greenlane*.tar.gz")):
            _run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", name, source], env=environment)
    print(f"built each source distribution in {time.monotonic() - begun:.0f} s", flush=True)


def _has_standard_library(arch: str) -> bool:
    """Whether this machine's rustc builds for `arch`; rustup's does after `rustup target add`."""
    asked = ["rustc", "--print", "target-libdir", "--target", f"{arch}-unknown-linux-gnu"]
    return any(Path(_told(asked).strip()).glob("libstd-*"))


def _rustc_for(arch: str) -> Path:
    """Give a rustc whose standard library is there for `arch`; Debian's packages, unpacked."""
    rustc, root = _CROSS / "rustc", _CROSS / "root"
    if not (root / f"usr/lib/rustlib/{arch}-unknown-linux-gnu").is_dir():
        host, other = _DEBIAN_ARCH[platform.machine()], _DEBIAN_ARCH[arch]
        apt = PrivateApt(_CROSS / "apt", [host, other])
        standard = apt.depends("libstd-rust-web-dev", "libstd-rust-web-")
        llvm = standard and apt.depends(standard, "libllvm")
        if not standard or not llvm:
            raise CannotError(f"this suite of Debian has no rustc-web to take {arch} from; --arch leaves it out")
        compiler = ["rustc-web", standard, llvm]
        apt.unpack([*compiler, f"libstd-rust-web-dev:{host}", f"libstd-rust-web-dev:{other}"], root)
    rustc.write_text(
        f'#!/bin/sh\nexport LD_LIBRARY_PATH="{root}/usr/lib/{platform.machine()}-linux-gnu"\n'
        f'exec "{root}/usr/bin/rustc" "$@"\n'
    )
    rustc.chmod(0o755)
    return rustc


# --- looking ----------------------------------------------------------------------------------------------------------


def _look_at(wheels: Sequence[Path]) -> None:
    """Print each wheel's size and what its native module is; raise on what is not as its name says."""
    for wheel in wheels:
        size = wheel.stat().st_size / 1e6
        with zipfile.ZipFile(wheel) as opened:
            if cached := [name for name in opened.namelist() if name.endswith(".pyc")]:
                raise CannotError(f"{wheel.name} has compiled files of this checkout, such as {cached[0]}")
        told = "plain Python"
        if not wheel.name.endswith("-none-any.whl"):
            arch = wheel.stem.rpartition(f"{POLICY}_")[2]
            told = _elf(wheel, arch)
            if wheel.name.startswith("greenlane-") and size > GUEST_AT_MOST_MB:
                raise CannotError(f"{wheel.name} has {size:.2f} MB, more than {GUEST_AT_MOST_MB}")
        print(f"{size:6.2f} MB  {wheel.name}: {told}")


def _elf(wheel: Path, arch: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        shutil.unpack_archive(wheel, folder, "zip")
        module = next(Path(folder).rglob("_native*.so"))
        header = _told(["readelf", "-h", module])
        versions = set(re.findall(r"GLIBC_([\d.]+)", _told(["readelf", "-V", module])))
        libraries = set(re.findall(r"NEEDED.*\[(.+)\]", _told(["readelf", "-d", module])))
    needs = {tuple(map(int, version.split("."))) for version in versions}
    if _MACHINE.get(arch, "?") not in header:
        raise CannotError(f"{wheel.name}: its native module is for another processor")
    if foreign := libraries - _ALLOWED:
        raise CannotError(f"{wheel.name}: needs {', '.join(sorted(foreign))}, which {POLICY} does not allow")
    newest = max(needs)
    if newest > (2, 17):
        raise CannotError(f"{wheel.name}: needs glibc {newest}, {POLICY} allows 2.17")
    needed = ", ".join(sorted(libraries))
    return f"{arch}, {POLICY}: glibc {'.'.join(map(str, newest))} at most, {needed}"


# --- trying -----------------------------------------------------------------------------------------------------------

_SERVE: Final = """
from wsgiref.util import setup_testing_defaults
from greenlane.hosts.wsgi import Greenlane
def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"hello"]
app = Greenlane(app)
environ = {}
setup_testing_defaults(environ)
assert b"".join(app(environ, lambda *_: None)) == b"hello"
"""


def _try_all(out: Path, pythons: Sequence[str]) -> set[str]:
    tried = set()
    for version, python in _interpreters():
        if version in pythons:
            _try(out, version, python)
            tried.add(version)
    return tried


def _interpreters() -> Iterator[tuple[str, str]]:
    # Those that are missing are told on its stderr, and no failure.
    found = subprocess.run([ROOT / "scripts/toolchain", "interpreters"], text=True, stdout=subprocess.PIPE, check=False)
    for line in found.stdout.splitlines():
        version, _, python = line.partition(" ")
        yield version, python


def _try(out: Path, version: str, python: str) -> None:
    """Install in a fresh environment without a compiler, and run the README's first commands."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _run([python, "-m", "venv", folder / "venv"])
        tools = {"PATH": f"{folder}/venv/bin:/usr/bin:/bin", "HOME": name}
        if shutil.which("cargo", path=tools["PATH"]):
            raise CannotError("cargo stands in /usr/bin: an installation without a compiler cannot be shown here")
        begun = time.monotonic()
        pip: list[str | Path] = [f"{folder}/venv/bin/python", "-m", "pip", "install", "-q", "--find-links", out]
        # The diagnosis needs no package but ours.
        _run([*pip, "--no-index", "greenlane[tools]"], env=tools)
        installed = time.monotonic()
        (folder / "served.py").write_text(_SERVE)
        command = f"{folder}/venv/bin/greenlane"
        _run([command, "doctor"], cwd=folder, env=tools, quiet=True)
        _run(["python", "served.py"], cwd=folder, env=tools)
        _run([command, "record", "-o", "try.glr", "--", "python", "served.py"], cwd=folder, env=tools, quiet=True)
        _run([command, "report", "--json", "try.glr"], cwd=folder, env=tools, quiet=True)
        _run([*pip, "greenlane[gunicorn]"], env=tools)
        _run([command, "doctor"], cwd=folder, env=tools, quiet=True)
        print(
            f"CPython {version}: installed in {installed - begun:.0f} s, "
            f"check, middleware, recording and report in {time.monotonic() - installed:.0f} s",
            flush=True,
        )


# --- small things -----------------------------------------------------------------------------------------------------


def _write_sums(out: Path) -> None:
    files = sorted([*out.glob("greenlane*.whl"), *out.glob("greenlane*.tar.gz")])
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (out / "SHA256SUMS").write_text("".join(lines))
    print(f"{len(files)} files in {out}, their sums in SHA256SUMS")


def _tool(name: str) -> Path:
    tool = Path(sys.executable).parent / name
    if not tool.exists():
        raise CannotError(f"{name} is missing: pip install --group release")
    return tool


def _told(command: Sequence[str | Path]) -> str:
    return subprocess.run(command, text=True, capture_output=True, check=True).stdout


def _run(
    command: Sequence[str | Path], *, cwd: Path = ROOT, env: dict[str, str] | None = None, quiet: bool = False
) -> None:
    output = subprocess.DEVNULL if quiet else None
    subprocess.run(command, cwd=cwd, env=env, check=True, stdout=output, stderr=output)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
