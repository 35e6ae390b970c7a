"""The native parts of the system, built on this machine at their first need, or by `python -m feed.native`.

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
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

from feed.features import FEATURES
from feed.record import RECORD_BYTES

if TYPE_CHECKING:
    from feed import _native

    Array = _native.Array
    Asking = _native.Asking
    Fetched = _native.Fetched
    Forest = _native.Forest
    Matrix = _native.Matrix
    Ranking = _native.Ranking
    Replies = _native.Replies
    candidates = _native.candidates
    features = _native.features
    rank = _native.rank
    ranked = _native.ranked


PACKAGE: Final = Path(__file__).resolve().parent
NATIVE: Final = PACKAGE.parent / "native"
_CHECKOUT: Final = PACKAGE.parents[2]
# Cargo's profile: "release" is what is measured; "quick" computes the same and is compiled in half the time.
PROFILE: Final = os.environ.get("FEED_PROFILE", "release")
# Cargo's results: beside Greenlane's own, never among them. The same from whichever folder a program is started.
TARGET: Final = _CHECKOUT / os.environ.get("CARGO_TARGET_DIR", "target") / "feed"
_READY: Final = TARGET / "ready" / PROFILE


class BuildError(Exception):
    """A part could not be built: the message names it, the tool's own words and one hint."""

    #: What a command ends with.
    exit_code = 1


@dataclass(frozen=True)
class Tool:
    """A program that builds.

    Args:
        name: of the program.
        command: its argument vector.
        folder: where it runs.
        hint: what to do where it is not installed.
    """

    name: str
    command: tuple[str, ...]
    folder: Path
    hint: str


@dataclass(frozen=True)
class Part:
    """Something that is built.

    Args:
        name: as messages call it.
        product: where it is found once built.
        sources: folders and files that it is made of, below NATIVE.
        made: what its tool leaves, and what the product is a copy of.
        tool: what makes it.
        package: which part of its tool's project it is; "" = all of it.
    """

    name: str
    product: Path
    sources: tuple[str, ...]
    made: Path
    tool: Tool
    package: str = ""

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


_GO_MADE: Final = TARGET / "libfeed_go.so"
CARGO: Final = Tool(
    "cargo",
    ("cargo", "build", "--profile", PROFILE, "--locked", "--quiet"),
    NATIVE,
    "install Rust 1.85 or newer: scripts/toolchain build names the command",
)
GO: Final = Tool(
    "go",
    ("go", "build", "-buildmode=c-shared", "-trimpath", "-o", str(_GO_MADE), "."),
    NATIVE / "go",
    "install Go 1.22 or newer: scripts/toolchain go names the command",
)
EXTENSION: Final = Part(
    name="features and evaluator (Rust)",
    product=_READY / f"_native{sysconfig.get_config_var('EXT_SUFFIX')}",
    sources=("Cargo.toml", "Cargo.lock", "core", "python"),
    made=TARGET / PROFILE / "lib_native.so",
    tool=CARGO,
    package="feed-native",
)
SERVICE: Final = Part(
    name="the compiled service (Rust)",
    product=_READY / "feed-service",
    sources=("Cargo.toml", "Cargo.lock", "core", "service"),
    made=TARGET / PROFILE / "feed-service",
    tool=CARGO,
    package="feed-service",
)
GO_LIBRARY: Final = Part(
    name="features (Go)", product=_READY / "libfeed_go.so", sources=("go",), made=_GO_MADE, tool=GO
)
PARTS: Final = (EXTENSION, SERVICE, GO_LIBRARY)


def build(*parts: Part) -> Path:
    """The last part's product; each is built when it is older than its sources, what different tools build at once.

    Raises:
        BuildError: a tool is missing or failed.
    """
    if not all(part.is_fresh() for part in parts):
        with _alone():
            _make([part for part in parts if not part.is_fresh()])
    return parts[-1].product


def _make(parts: list[Part]) -> None:
    by_tool = {tool: [part for part in parts if part.tool is tool] for tool in (CARGO, GO)}
    by_tool = {tool: theirs for tool, theirs in by_tool.items() if theirs}
    for tool, theirs in by_tool.items():
        if shutil.which(tool.name) is None:
            raise _failed(tool, theirs, f"{tool.name} not found, expected it on PATH")
    running = {tool: _started(tool, theirs) for tool, theirs in by_tool.items()}
    said = {tool: process.communicate()[1].rstrip() for tool, process in running.items()}
    for tool, theirs in by_tool.items():
        if status := running[tool].returncode:
            raise _failed(tool, theirs, f"{tool.name} ended with {status}\n{said[tool]}")
        for part in theirs:
            _deliver(part)


def _started(tool: Tool, parts: list[Part]) -> subprocess.Popen[str]:
    sys.stderr.write(f"building {_names(parts)} …\n")
    packages = [word for part in parts if part.package for word in ("--package", part.package)]
    environment = os.environ | {"CARGO_TARGET_DIR": str(TARGET), "PYO3_PYTHON": sys.executable}
    return subprocess.Popen(
        [*tool.command, *packages], env=environment, cwd=tool.folder, stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def _failed(tool: Tool, parts: list[Part], why: str) -> BuildError:
    return BuildError(f"building {_names(parts)}: {why}\nhint: {tool.hint}")


def _names(parts: list[Part]) -> str:
    return " and ".join(part.name for part in parts)


def _deliver(part: Part) -> None:
    """Renamed into place: a process that has the old one loaded keeps it."""
    part.product.parent.mkdir(parents=True, exist_ok=True)
    fresh = part.product.with_name(part.product.name + ".new")
    shutil.copyfile(part.made, fresh)
    shutil.copymode(part.made, fresh)
    fresh.replace(part.product)


@contextmanager
def _alone() -> Iterator[None]:
    """One build at a time, for all callers."""
    TARGET.mkdir(parents=True, exist_ok=True)
    with (TARGET / "build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> None:
    """Builds all parts; those whose tool is not installed are named and left out."""
    there = [part for part in PARTS if shutil.which(part.tool.name)]
    try:
        build(*there)
    except BuildError as error:
        sys.exit(str(error))
    for part in PARTS:
        sys.stdout.write(f"{part.product if part in there else f'not built: {part.name}: {part.tool.hint}'}\n")


# --- The system's native module, built at its first need: features, evaluator, ranking. `_native.pyi` is its manual.


def _loaded() -> ModuleType:
    loader = ExtensionFileLoader("feed._native", str(build(EXTENSION)))
    spec = spec_from_loader("feed._native", loader)
    assert spec is not None
    module = sys.modules["feed._native"] = module_from_spec(spec)
    loader.exec_module(module)
    if tuple(module.FEATURES) != FEATURES or module.RECORD_BYTES != RECORD_BYTES:
        raise ImportError(
            "loading feed._native: it was built for other features or another record layout, expected those of "
            "features.py and record.py\nhint: python -m feed.layout && python -m feed.native"
        )
    return module


_module = _loaded()
for _name in (
    "Array", "Asking", "Fetched", "Forest", "Matrix", "Ranking", "Replies", "candidates", "features", "rank", "ranked",
):  # fmt: skip
    globals()[_name] = getattr(_module, _name)


if __name__ == "__main__":
    main()
