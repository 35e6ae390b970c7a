"""What is learned of the phases, kept over a restart in a small JSON file.

Format, `greenlane.learned/2`:

    {"schema": "greenlane.learned/2",
     "routes": {"GET /quote": {"0": {"mean_ms": 40.1, "samples": 120, "weights": [...], "looks": 8, "free": 0}}}}

and, of functions under `@placed`, what was chosen:

     "placed": {"run pricing.quote": {"placement": "process", "why": "calmer", "took_ms": 49.0, "calls": 80, "code": 7}}

A phase is filed under the place where it begins (`crates/permits/src/places.rs`); 0 is the job's first. Up to schema 1
it was its number in the job, of which only the first means the same. `weights` are those of the burst histogram
(`crates/policy/src/burst.rs`), `looks` and `free` the looks of waiters at the GIL; `code` tells one version of a
function from another. Several workers share one file: each write merges with what is there, the better-known phase and
the latest choice win, under a lock file and by an atomic rename, so that a reader never sees half a file.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from greenlane._native import Descriptor
from greenlane.errors import LearnedFileError
from greenlane.lanes.permits import MOST_SAMPLES, NS_PER_MS, StoredPhase
from greenlane.threads.unpatched import sleep

__all__ = ["SCHEMA", "StoredChoice", "load", "load_placed", "merge_into"]

SCHEMA: Final = "greenlane.learned/2"
_BY_NUMBER: Final = "greenlane.learned/1"
#: A larger file is not ours: 512 routes of 64 phases take about 6 MB.
_LARGEST_BYTES: Final = 16 * 2**20
#: How long a write waits for another's: the exit of a process must not hang on it.
_LOCK_S: Final = 1.0

#: Places of deleted code would stay for ever.
_MOST_PHASES: Final = 64

_Stored = TypeVar("_Stored")


@dataclasses.dataclass(frozen=True)
class StoredChoice:
    """Where the calls of one placed function run, as it is stored."""

    placement: str
    # Core's word for the reason.
    why: str
    # Median of what callers waited there.
    took_ns: int
    calls: int
    # Checksum of the function's code.
    code: int


def load(path: Path) -> dict[str, list[StoredPhase]]:
    """Read a file; an absent one is empty.

    Raises:
        LearnedFileError: unreadable, too large, not JSON, or not of this schema.
    """
    return _read(path, _parsed)


def load_placed(path: Path) -> dict[str, StoredChoice]:
    """Read what was chosen for placed functions; an absent file is empty. Raises as `load`."""
    return _read(path, _parsed_placed)


def _read(path: Path, parsed: Callable[[Any], dict[str, _Stored]]) -> dict[str, _Stored]:
    try:
        size = path.stat().st_size
        if size > _LARGEST_BYTES:
            raise _wrong(path, f"at most {_LARGEST_BYTES} bytes (it has {size})")
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        _check_folder(path)
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise _wrong(path, f"a readable UTF-8 file ({error})") from None
    try:
        return parsed(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise _wrong(path, f'JSON with "schema": "{SCHEMA}" ({type(error).__name__}: {error})') from None


def merge_into(
    path: Path, ours: Mapping[str, list[StoredPhase]], placed: Mapping[str, StoredChoice] | None = None
) -> None:
    """Write `ours` into the file, and what was chosen, merged with what other processes have put there.

    Raises:
        LearnedFileError: it cannot be read or written.
    """
    try:
        with _locked(path):
            merged = _merged(load(path), ours)
            document: dict[str, object] = {"schema": SCHEMA}
            document["routes"] = {route: _shown(merged[route]) for route in sorted(merged)}
            choices = {**load_placed(path), **(placed or {})}
            if choices:
                document["placed"] = {name: _shown_choice(choices[name]) for name in sorted(choices)}
            text = json.dumps(document)
            fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
            _write(fresh, text + "\n")
            fresh.replace(path)
    except OSError as error:
        raise _wrong(path, f"a writable file ({error})") from None


def _merged(
    there: Mapping[str, list[StoredPhase]], ours: Mapping[str, list[StoredPhase]]
) -> dict[str, list[StoredPhase]]:
    merged: dict[str, list[StoredPhase]] = {}
    for route in {**there, **ours}:
        best: dict[int, StoredPhase] = {}
        for one in [*there.get(route, ()), *ours.get(route, ())]:
            if one.place not in best or one.samples >= best[one.place].samples:
                best[one.place] = one
        merged[route] = sorted(best.values(), key=lambda one: -one.samples)[:_MOST_PHASES]
    return merged


def _shown(phases: list[StoredPhase]) -> dict[str, dict[str, object]]:
    return {
        str(one.place): {
            "mean_ms": round(one.mean_ns / NS_PER_MS, 6),
            "samples": one.samples,
            "weights": list(one.weights),
            "looks": one.looks,
            "free": one.free,
        }
        for one in phases
    }


def _parsed(document: Any) -> dict[str, list[StoredPhase]]:
    by_number = document["schema"] == _BY_NUMBER
    if document["schema"] != SCHEMA and not by_number:
        raise ValueError(f"schema {document['schema']!r}")
    return {
        str(route): [_phase(int(place), values) for place, values in phases.items() if place == "0" or not by_number]
        for route, phases in document["routes"].items()
    }


def _phase(place: int, values: Mapping[str, Any]) -> StoredPhase:
    weights = tuple(int(weight) for weight in values["weights"])
    mean_ns = round(float(values["mean_ms"]) * NS_PER_MS)
    counts = [min(int(values["samples"]), MOST_SAMPLES), int(values["looks"]), int(values["free"])]
    if place >= 2**64 or min(place, mean_ns, *counts, *weights) < 0 or max(*counts, *weights) >= 2**32:
        raise ValueError(f"phase {place} has a value out of range")
    return StoredPhase(place, weights, mean_ns, *counts)


def _shown_choice(one: StoredChoice) -> dict[str, object]:
    return {
        "placement": one.placement,
        "why": one.why,
        "took_ms": round(one.took_ns / NS_PER_MS, 6),
        "calls": one.calls,
        "code": one.code,
    }


def _parsed_placed(document: Any) -> dict[str, StoredChoice]:
    if document["schema"] not in (SCHEMA, _BY_NUMBER):
        raise ValueError(f"schema {document['schema']!r}")
    return {str(name): _choice(values) for name, values in document.get("placed", {}).items()}


def _choice(values: Mapping[str, Any]) -> StoredChoice:
    took_ns = round(float(values["took_ms"]) * NS_PER_MS)
    numbers = [min(int(values["calls"]), MOST_SAMPLES), int(values["code"])]
    if min(took_ns, *numbers) < 0 or max(*numbers) >= 2**32:
        raise ValueError("a choice has a value out of range")
    return StoredChoice(str(values["placement"]), str(values["why"]), took_ns, *numbers)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    descriptor = Descriptor(os.open(path.with_name(path.name + ".lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    try:
        until = time.monotonic() + _LOCK_S
        while not _taken(_number(descriptor)):
            if time.monotonic() >= until:
                raise TimeoutError(f"another process keeps its lock for over {_LOCK_S:g} s")
            sleep(0.02)
        try:
            yield
        finally:
            fcntl.flock(_number(descriptor), fcntl.LOCK_UN)
    finally:
        descriptor.close()


def _write(path: Path, text: str) -> None:
    descriptor = Descriptor(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o666))
    try:
        left = text.encode()
        while left:
            left = left[os.write(_number(descriptor), left) :]
    finally:
        descriptor.close()


def _number(descriptor: Descriptor) -> int:
    if not descriptor.is_ours():
        raise OSError(errno.EBADF, "the program has closed it")
    return descriptor.fileno()


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _check_folder(path: Path) -> None:
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise _wrong(path, "a file in a folder that exists and is writable")


def _wrong(path: Path, rule: str) -> LearnedFileError:
    return LearnedFileError(
        "use the learned file",
        name="learned_file",
        value=str(path),
        rule=rule,
        hint="delete the file to learn again, or set learned_file to another",
    )
