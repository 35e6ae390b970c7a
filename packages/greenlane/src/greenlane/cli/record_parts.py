"""The folder in which a recording grows: `FILE.parts`, until its segments are merged into FILE.

| name | what |
|---|---|
| `<pid>-<process>-<nnnn>.glr` | segments, each a valid recording: some chunks of one process |
| `<pid>.sock` | control sockets, unless they are in a directory of their own |
| `control` | the directory of the control sockets, as text, if it is another one |
| `skipped-*` | why some process was not recorded |
| `server-*` | empty: a module of a server that is not observed, which some process has loaded |
| `ended` | the recording is over: processes that start from now on do not record |
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from greenlane.control.protocol import PATH_MAX_BYTES, PID_MAX
from greenlane.errors import ArgumentError, RecordError
from greenlane.record.recorder import ENDED, PARTS

__all__ = ["CONTROL", "Parts", "boot_of", "concatenate", "segments_in"]

CONTROL: Final = "control"
_SEGMENT: Final = re.compile(r"(\d+)-([0-9a-f]{16})-(\d+)\.glr")
_SKIPPED: Final = "skipped-"
_SERVER: Final = "server-"
_MB: Final = 1_000_000
#: Where a chunk's header has the base of its times.
_BASE: Final = slice(24, 32)
#: Each file begins with what describes its process.
_BOOT: Final = re.compile(rb'[^\\]"boot": "([^"]+)"')
_BOOT_WITHIN_BYTES: Final = 1 << 18
#: Copied at once.
_PIECE_BYTES: Final = 1 << 30
_ATTEMPT: Final = "prepare the recording"


class Parts:
    """The folder of one recording.

    Args:
        file: what its segments will be merged into.
    """

    def __init__(self, file: Path) -> None:
        self.file = file.absolute()
        self.folder = Path(f"{self.file}{PARTS}")

    def make(self, *, force: bool) -> None:
        """Make the folder.

        Raises:
            SettingsError: there is a recording already, and not `force`; or the folder cannot be made.
        """
        for there in (self.file, self.folder):
            if os.path.lexists(there):
                self._refuse_or_remove(there, force=force)
        try:
            self.folder.mkdir(mode=0o700)
        except (OSError, ValueError) as error:
            reason = (isinstance(error, OSError) and error.strerror) or str(error)
            rule = f"a file in a folder that can be written to ({reason})"
            hint = "name another file with -o FILE"
            raise ArgumentError("FILE", str(self.file), rule, hint, attempted=_ATTEMPT) from None

    def segments(self) -> list[Path]:
        """Give the segments: processes in the order in which they began, each in its own order."""
        return segments_in(self.folder)

    def written(self) -> dict[int, float]:
        """Give the ids of the processes that have segments, and when each wrote last (Unix, s)."""
        found: dict[int, float] = {}
        for path in self.segments():
            with contextlib.suppress(OSError):
                pid = int(path.name.partition("-")[0])
                found[pid] = max(found.get(pid, 0.0), path.stat().st_mtime)
        return found

    def process_count(self) -> int:
        """Give how many processes have segments; a process that forks makes another."""
        matches = (_SEGMENT.fullmatch(path.name) for path in self.segments())
        return len({match[2] for match in matches if match})

    def size_mb(self) -> float:
        """Give how much the segments hold."""
        total = 0
        for path in self.segments():
            with contextlib.suppress(OSError):
                total += path.stat().st_size
        return total / _MB

    def skipped(self) -> list[str]:
        """Give why some processes were not recorded, in words."""
        reasons = []
        with contextlib.suppress(OSError):
            for path in sorted(self.folder.glob(f"{_SKIPPED}*")):
                reasons.append(path.read_text(encoding="utf-8", errors="replace").strip())
        return [reason for reason in reasons if reason]

    def servers(self) -> set[str]:
        """Give the modules of servers that are not observed, which processes without a recording have loaded."""
        return {path.name.removeprefix(_SERVER) for path in self.folder.glob(f"{_SERVER}*")}

    def fits_sockets(self) -> bool:
        """Whether the path of a control socket in the folder is short enough for the kernel."""
        return len(os.fsencode(self.folder / f"{PID_MAX}.sock")) <= PATH_MAX_BYTES

    def control_dir(self) -> Path:
        """Give the directory of the control sockets."""
        with contextlib.suppress(OSError):
            return Path((self.folder / CONTROL).read_text(encoding="utf-8"))
        return self.folder

    def end(self) -> None:
        """Mark the recording as ended: no further process starts recording here."""
        with contextlib.suppress(OSError):
            (self.folder / ENDED).touch()

    def merge(self) -> float:
        """Put the segments behind each other into the file, which appears as a whole or not at all; give its MB.

        The segments are removed only when the file is on the disk.

        Raises:
            RecordError: it cannot be written, or the segments' clocks are not the same. The segments are kept.
        """
        segments = self.segments()
        boots = {boot for segment in segments if (boot := boot_of(segment))}
        if len(boots) > 1:
            raise RecordError(
                "merge the recording",
                name="boots",
                value=len(boots),
                rule="processes of one machine, since one start of it: their clocks are not the same",
                hint=f"move the files of each boot out of {self.folder} into a folder of their own",
            )
        growing = Path(f"{self.file}.new")
        try:
            if len(segments) == 1:
                os.replace(segments[0], self.file)
            else:
                concatenate(segments, growing)
                os.replace(growing, self.file)
        except OSError as error:
            with contextlib.suppress(OSError):
                growing.unlink()
            raise RecordError(
                "merge the recording",
                name="FILE",
                value=str(self.file),
                rule=f"a file that can be written ({error.strerror or error}); the segments are kept",
                hint=f"`greenlane report {self.folder}` reads them; `greenlane record --merge {self.file}` tries again",
            ) from None
        for segment in segments:
            with contextlib.suppress(OSError):
                segment.unlink()
        return self.file.stat().st_size / _MB

    def remove(self) -> None:
        """Remove the folder and what is left in it, but no segment."""
        if not self.segments():
            shutil.rmtree(self.folder, ignore_errors=True)

    def _refuse_or_remove(self, there: Path, *, force: bool) -> None:
        if not force:
            rule = "a recording that is not there yet"
            merge = f"; `greenlane record --merge {self.file}` keeps what is in it" if there == self.folder else ""
            hint = f"name another file with -o FILE, or --force to write over it{merge}"
            raise ArgumentError("FILE", str(there), rule, hint, attempted=_ATTEMPT)
        try:
            if there.is_dir() and there == self.folder:
                shutil.rmtree(there)
            else:
                there.unlink()
        except OSError as error:
            rule = f"a file that can be replaced ({error.strerror})"
            raise ArgumentError("FILE", str(there), rule, "name another file", attempted=_ATTEMPT) from None


def segments_in(folder: Path) -> list[Path]:
    """Give the segments in a folder: processes in the order in which they began, each in its own order."""
    found = []
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            match = _SEGMENT.fullmatch(entry.name)
            if match:
                found.append((match[2], int(match[3]), entry.path))
    began: dict[str, int] = {}
    for process, _number, name in sorted(found):
        began.setdefault(process, _base_ns(name))
    return [Path(path) for process, _, path in sorted(found, key=lambda each: (began.get(each[0], 0), *each))]


def boot_of(segment: Path) -> str:
    """Which start of which machine its times count from; "" = it does not say."""
    with contextlib.suppress(OSError), segment.open("rb") as stream:
        found = _BOOT.search(stream.read(_BOOT_WITHIN_BYTES))
        return found[1].decode("latin-1") if found else ""
    return ""


def _base_ns(segment: str) -> int:
    """The moment that a segment's first chunk begins with; 0 = it is empty."""
    with contextlib.suppress(OSError), open(segment, "rb") as stream:
        return int.from_bytes(stream.read(_BASE.stop)[_BASE], "little")
    return 0


def _private(path: str, flags: int) -> int:
    """Routes, hosts and names of code are the owner's to show."""
    return os.open(path, flags, 0o600)


def concatenate(segments: Iterable[Path], target: Path) -> None:
    """Put files behind each other into one that only its owner may read. Raises: OSError."""
    with open(target, "wb", opener=_private) as whole:
        for segment in segments:
            with open(segment, "rb") as part:
                while os.sendfile(whole.fileno(), part.fileno(), None, _PIECE_BYTES):
                    pass
        whole.flush()
        os.fsync(whole.fileno())
