"""Builds the native parts of the system on this machine: `python -m feed.build`, or by whoever needs one, at its first
need.

Each part is built by its own tool (cargo, go) and copied to where it is looked for. A part that is newer than its
sources is left alone, so asking is cheap (about 1 ms). Progress of a build goes to stderr.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).resolve().parent
NATIVE: Final = PACKAGE.parent / "native"
_CHECKOUT: Final = PACKAGE.parents[2]
# Cargo's results: beside Greenlane's own, never among them.
TARGET: Final = Path(os.environ.get("CARGO_TARGET_DIR", _CHECKOUT / "target")).resolve() / "feed"


class BuildError(Exception):
    """A part could not be built: the message names it, the tool's own words and one hint."""


@dataclass(frozen=True)
class Part:
    """Something that is built.

    Args:
        name: as messages call it.
        product: where it is found once built.
        sources: folders and files that it is made of, below NATIVE.
        command: makes `made`.
        made: what the command leaves; copied to product when it is another file.
        tool: program that must be installed, and the hint if it is not.
        folder: where the command runs.
    """

    name: str
    product: Path
    sources: tuple[str, ...]
    command: tuple[str, ...]
    made: Path
    tool: tuple[str, str]
    folder: Path = NATIVE

    def is_fresh(self) -> bool:
        """Whether the product is newer than each source."""
        if not self.product.exists():
            return False
        built_ns = self.product.stat().st_mtime_ns
        return all(path.stat().st_mtime_ns <= built_ns for path in self._files())

    def _files(self) -> Iterator[Path]:
        for source in self.sources:
            path = NATIVE / source
            yield from path.rglob("*.*") if path.is_dir() else [path]


_RUST: Final = ("cargo", "install Rust 1.85 or newer: scripts/toolchain build names the command")
_GO: Final = ("go", "install Go 1.22 or newer (Debian: apt-get install golang-go)")


def _cargo(package: str) -> tuple[str, ...]:
    manifest = str(NATIVE / "Cargo.toml")
    return ("cargo", "build", "--release", "--locked", "--quiet", "--manifest-path", manifest, "--package", package)


EXTENSION: Final = Part(
    name="features and evaluator (Rust)",
    product=PACKAGE / f"_native{sysconfig.get_config_var('EXT_SUFFIX')}",
    sources=("Cargo.toml", "Cargo.lock", "core", "python"),
    command=_cargo("feed-native"),
    made=TARGET / "release" / "lib_native.so",
    tool=_RUST,
)
SERVICE: Final = Part(
    name="the compiled service (Rust)",
    product=TARGET / "feed-service",
    sources=("Cargo.toml", "Cargo.lock", "core", "service"),
    command=_cargo("feed-service"),
    made=TARGET / "release" / "feed-service",
    tool=_RUST,
)
GO_LIBRARY: Final = Part(
    name="features (Go)",
    product=TARGET / "libfeed_go.so",
    sources=("go",),
    command=("go", "build", "-buildmode=c-shared", "-trimpath", "-o", str(TARGET / "libfeed_go.so.made"), "."),
    made=TARGET / "libfeed_go.so.made",
    tool=_GO,
    folder=NATIVE / "go",
)
PARTS: Final = (EXTENSION, SERVICE, GO_LIBRARY)


def build(part: Part) -> Path:
    """The part's product, built when it is older than its sources.

    Raises:
        BuildError: the tool is missing or failed.
    """
    if part.is_fresh():
        return part.product
    with _alone():
        if not part.is_fresh():
            _make(part)
    return part.product


def _make(part: Part) -> None:
    tool, hint = part.tool
    if shutil.which(tool) is None:
        raise BuildError(f"building {part.name}: {tool} not found, expected it on PATH\nhint: {hint}")
    sys.stderr.write(f"building {part.name} …\n")
    environment = os.environ | {"CARGO_TARGET_DIR": str(TARGET), "PYO3_PYTHON": sys.executable}
    ended = subprocess.run(
        part.command, env=environment, cwd=part.folder, stderr=subprocess.PIPE, text=True, check=False
    )
    if ended.returncode:
        raise BuildError(
            f"building {part.name}: {tool} ended with {ended.returncode}\n{ended.stderr.rstrip()}\nhint: {hint}"
        )
    # Renamed into place: a process that has the old one loaded keeps it.
    fresh = part.product.with_name(part.product.name + ".new")
    shutil.copyfile(part.made, fresh)
    shutil.copymode(part.made, fresh)
    fresh.replace(part.product)


@contextmanager
def _alone() -> Iterator[None]:
    """One build at a time, whoever asks."""
    TARGET.mkdir(parents=True, exist_ok=True)
    with (TARGET / "build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> None:
    """Builds all parts."""
    for part in PARTS:
        sys.stdout.write(f"{build(part)}\n")


if __name__ == "__main__":
    main()
