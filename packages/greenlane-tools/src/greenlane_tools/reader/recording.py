"""A recording on disk, read and accounted for: the file that `greenlane record` has written, or the folder."""

from __future__ import annotations

import datetime
import json
from functools import cached_property
from pathlib import Path
from typing import Final

from greenlane.errors import RecordingError
from greenlane_tools import _native
from greenlane_tools.reader.rows import (
    Blame,
    Call,
    Cost,
    Held,
    Job,
    Look,
    Own,
    Process,
    Resource,
    ResourceHolder,
    ResourceVictim,
    Sample,
    Segment,
    Stack,
    Turns,
    Unfinished,
)
from greenlane_tools.reader.window import Chosen, Window

#: The whole recording.
ALL: Final = Window()
#: Of the files that make up a recording.
SUFFIX: Final = ".glr"

#: A recording of more is looked at first: this many rows of jobs and calls take 2 GB of memory. What has more is
#: read from its end.
LARGE_BYTES: Final = 100_000_000
_MOST_ROWS: Final = 800_000
_LOOKED_AT_BYTES: Final = 16_000_000

_READ: Final = "read the recording"

# By what the native reader says: the rule and the hint.
_UNREADABLE: Final = {
    "empty": (
        "a file with at least one chunk",
        "the recorded program ended within its first quarter of a second, or never started: look at its output",
    ),
    "foreign": ("a file that `greenlane record` has written", "give the file named after `-o`"),
    "outside": (
        "a time of which something was recorded",
        "without --last, --from and --to the report shows its times",
    ),
    "damaged": ("at least one whole chunk", "the file was changed or cut after it was written: copy it again"),
}


class Recording:
    """A recording. Rows are computed at their first use, and kept.

    Cost: about a second a million events, once; memory: about 2 KB a job, at most 2 GB.
    """

    def __init__(self, source: Path | bytes, window: Window = ALL) -> None:
        chosen = Chosen([], 0, 0)
        if isinstance(source, bytes):
            self._native = _native.Recording(source)
        else:
            self._native, chosen = _read(source, window)
        parts = self._native.processes()
        #: In the order in which they began.
        self.processes: list[Process] = [
            Process(number, pid, _about(about), *rest) for (number, pid, about, *rest), _, _ in parts
        ]
        _check_one_clock(self.processes, source)
        #: (process, when, what) for "on", "off" and what else the recorder wrote down.
        self.marks: list[tuple[int, int, str]] = [
            (number, at_ns, what) for number, (_, _, marks) in enumerate(parts) for at_ns, what in marks
        ]
        counts, skipped = [counts for _, counts, _ in parts], self._native.skipped()
        unread = bool(skipped["damaged_bytes"] or skipped["newer_chunks"])
        #: What the recorder itself could not keep; each a sentence. Empty = it kept everything.
        self.lost: list[str] = _lost(self.processes, counts, unread=unread)
        #: What a reader must know about what is missing, `lost` too; each a sentence. Empty = nothing is.
        self.notes: list[str] = [*_cut(chosen, self.processes), *self.lost, *_notes(self.processes, counts, skipped)]

    @cached_property
    def jobs(self) -> list[Job]:
        """Jobs whose begin and end are in the recording, by arrival."""
        return [Job._make(row) for row in self._native.jobs()]

    @cached_property
    def blame(self) -> list[Blame]:
        """Who made whom wait, most first. Its sum is the sum of the jobs' waits."""
        return [Blame._make(row) for row in self._native.blame()]

    @cached_property
    def calls(self) -> list[Call]:
        """Calls of upstreams, by begin."""
        return [Call._make(row) for row in self._native.calls()]

    @cached_property
    def held(self) -> list[Held]:
        """Calls that blocked a whole loop, most first."""
        return [Held._make(row) for row in self._native.held(True)]

    @cached_property
    def blocked(self) -> list[Held]:
        """Calls that kept a thread for long, as far as one was looked at, most first."""
        return [Held._make(row) for row in self._native.held(False)]

    @cached_property
    def unfinished(self) -> list[Unfinished]:
        """Jobs in progress when their process ended, by process; those that ran first."""
        return [Unfinished._make(row) for row in self._native.unfinished()]

    @cached_property
    def costs(self) -> list[Cost]:
        """What the recording cost, by process; none of processes that were killed in their first second."""
        return [Cost._make(row) for row in self._native.costs()]

    @cached_property
    def stacks(self) -> list[Stack]:
        """Where culprits were while somebody waited, most first."""
        return [Stack._make(row) for row in self._native.stacks()]

    @cached_property
    def own(self) -> list[Own]:
        """Where jobs were while they computed, by process and job."""
        return [Own._make(row) for row in self._native.own()]

    @cached_property
    def looks(self) -> list[Look]:
        """Jobs that were looked at while they computed; none where stacks were not wanted, or by earlier releases."""
        return [Look._make(row) for row in self._native.looks()]

    @cached_property
    def resources(self) -> list[Resource]:
        """What jobs waited for a place of, such as pools of connections, most first; none by earlier releases."""
        return [
            Resource(*row, list(map(ResourceVictim._make, victims)), list(map(ResourceHolder._make, holders)))
            for row, victims, holders in self._native.resources()
        ]

    @cached_property
    def turns(self) -> list[Turns]:
        """How heavy phases took turns, by route; none without permits, or by earlier releases."""
        return [Turns._make(row) for row in self._native.turns()]

    @cached_property
    def samples(self) -> list[Sample]:
        """Each process in each second, by time."""
        return [Sample._make(row) for row in self._native.samples()]

    def segments(self, process: int, job: int) -> list[Segment]:
        """Give the life of one job stretch by stretch, by begin; empty if the recording does not have all of it."""
        return [Segment(*row) for row in self._native.segments(process, job) or ()]

    def culprits(self, process: int, job: int, from_ns: int, to_ns: int) -> list[tuple[str, int]]:
        """Say who made one job wait between two moments: (culprit, ns), most first."""
        return self._native.culprits(process, job, from_ns, to_ns)


def open_recording(path: Path | str, window: Window = ALL) -> Recording:
    """Read a recording: one file, or a folder with the files of its processes; all of it, or a part.

    Raises: RecordingError if there is none, or none of it can be read. Of a damaged one the readable part is read;
    `Recording.notes` says what is missing.
    """
    return Recording(Path(path), window)


def _read(path: Path, window: Window) -> tuple[_native.Recording, Chosen]:
    paths = sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path]
    if not paths:
        rule = f"a folder with files named *{SUFFIX}"
        hint = "nothing was recorded there: did the program run under `greenlane record`?"
        raise RecordingError(_READ, name="path", value=str(path), rule=rule, hint=hint)
    try:
        chosen = window.chosen(paths, LARGE_BYTES)
        if chosen.read_bytes:
            chosen = window.chosen(paths, _most_bytes(window.chosen(paths, min(_LOOKED_AT_BYTES, LARGE_BYTES))))
        return _native.Recording(chosen.paths, chosen.from_ns, chosen.to_ns), chosen
    except OSError as error:
        rule = f"a file that can be read ({error.strerror or error})"
        hint = "name the file or folder behind `-o` of `greenlane record`"
        raise RecordingError(_READ, name="path", value=str(path), rule=rule, hint=hint) from error
    except ValueError as error:
        what, version = error.args
        if what == "newer":
            rule, hint = "format version 1", f"it is version {version}: read it with a later release of greenlane"
        else:
            rule, hint = _UNREADABLE[what]
        raise RecordingError(_READ, name="path", value=str(path), rule=rule, hint=hint) from None


def _about(text: str) -> dict[str, object]:
    try:
        about = json.loads(text)
    except (ValueError, RecursionError):  # a file may come from anywhere
        return {}
    return about if isinstance(about, dict) else {}


def _check_one_clock(processes: list[Process], source: Path | bytes) -> None:
    boots = {str(boot) for process in processes if (boot := process.about.get("boot"))}
    if len(boots) > 1:
        rule = "processes of one machine, since one start of it: their clocks are not the same"
        hint = f"give the files of one boot: {'the file' if isinstance(source, bytes) else source} has several"
        raise RecordingError(_READ, name="boots", value=len(boots), rule=rule, hint=hint)


def _lost(processes: list[Process], counts: list[tuple[int, int, int, int]], *, unread: bool) -> list[str]:
    lost = []
    for process, (dropped, missing, _unfinished, _unknown) in zip(processes, counts, strict=True):
        who = f"process {process.pid}"
        if dropped and not unread:
            lost.append(f"{who}: its beginning was dropped to keep the recording within its size ({_chunks(dropped)})")
        elif dropped:
            lost.append(f"{who}: its beginning is missing ({_chunks(dropped)})")
        if missing:
            why = "" if unread else ": no room on the disk, or a limit on files"
            lost.append(f"{who}: {_chunks(missing)} missing in between{why}")
        if process.lost_events:
            lost.append(f"{who}: {process.lost_events} events were lost because a buffer was full")
    return lost


def _most_bytes(end: Chosen) -> int:
    """What has as many rows as fit, by how many the end has."""
    native = _native.Recording(end.paths, end.from_ns, end.to_ns)
    rows = len(native.jobs()) + len(native.calls()) / 2
    return max(LARGE_BYTES, round(_MOST_ROWS * end.read_bytes / max(1, rows)))


def _cut(chosen: Chosen, processes: list[Process]) -> list[str]:
    """Of a recording that is too large to be read at once, what was read."""
    if not chosen.read_bytes:
        return []
    clocks = next((process.about for process in processes if "started_unix_ns" in process.about), {})
    from_ns = chosen.from_ns + int(str(clocks.get("started_unix_ns", 0))) - int(str(clocks.get("started_ns", 0)))
    since = f", from {datetime.datetime.fromtimestamp(from_ns / 1e9, datetime.UTC):%H:%M:%S} (UTC) on" if clocks else ""
    read, asked = chosen.read_bytes / 1e6, chosen.asked_bytes / 1e6
    return [f"this is of its last {read:.0f} MB of {asked:.0f}{since}: --from and --to give another part"]


def _chunks(number: int) -> str:
    return f"{number} chunk{'' if number == 1 else 's'}"


def _notes(processes: list[Process], counts: list[tuple[int, int, int, int]], skipped: dict[str, int]) -> list[str]:
    notes = []
    for process, (_dropped, _missing, unfinished, unknown) in zip(processes, counts, strict=True):
        who = f"process {process.pid}"
        if process.torn_bytes:
            notes.append(f"{who}: its last chunk is cut off ({process.torn_bytes} bytes); it was killed while it wrote")
        if unfinished:
            left = (
                "1 job is left out: its beginning or end is"
                if unfinished == 1
                else (f"{unfinished} jobs are left out: their beginning or end is")
            )
            notes.append(f"{who}: {left} not in the recording")
        if unknown:
            many = "1 thread, greenlet or task" if unknown == 1 else f"{unknown} threads, greenlets or tasks"
            notes.append(f"{who}: {many} of unknown name started before the recording")
    if skipped["damaged_chunks"] or skipped["damaged_bytes"]:
        chunks, size = skipped["damaged_chunks"], skipped["damaged_bytes"]
        notes.append(f"{_chunks(chunks)} damaged; {size} bytes were skipped")
    if skipped["newer_chunks"]:
        notes.append(f"{_chunks(skipped['newer_chunks'])} of a later format skipped")
    if skipped["unknown_records"]:
        notes.append(f"{skipped['unknown_records']} records skipped: this release does not know their kind")
    if skipped["repeated_chunks"]:
        notes.append(f"{_chunks(skipped['repeated_chunks'])} repeated; each counts once")
    return notes
