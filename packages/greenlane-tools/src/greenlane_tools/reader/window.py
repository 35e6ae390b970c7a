"""A part of a recording, by the clock on the wall (UTC): the last minutes of it, or from one moment to another."""

from __future__ import annotations

import datetime
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from greenlane.errors import RecordingError, SettingsError

#: Of a chunk's header: magic, length of the header, base of its times, length of the payload.
_HEADER: Final = struct.Struct("<4s2xH16xQI")
_MAGIC: Final = b"\x89GLR"
_CLOCKS: Final = re.compile(rb'"started_ns": (\d+), "started_unix_ns": (\d+)')
#: The first chunk of a file says when its process began by both clocks.
_CLOCKS_WITHIN_BYTES: Final = 1 << 18
_UNITS_S: Final = {"": 1, "s": 1, "m": 60, "h": 3600}
_S: Final = 1_000_000_000
_LATEST_NS: Final = 2**64 - 1


def duration_s(text: str) -> float:
    """Seconds of `90`, `90s`, `5m` or `2h`. Raises: ValueError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if found is None or float(found[1]) == 0:
        raise ValueError(f"{text!r}, expected a time such as 90s, 5m or 2h")
    return float(found[1]) * _UNITS_S[found[2]]


def moment_of(text: str, about_s: float) -> float:
    """Unix time, s, of `14:02`, `14:02:30` (the one nearest to `about_s`) or ISO 8601; UTC unless it says.

    Raises: ValueError.
    """
    near = datetime.datetime.fromtimestamp(about_s, datetime.UTC)
    if re.fullmatch(r"\d{1,2}:\d\d(:\d\d(\.\d+)?)?", text):
        of_day = datetime.time.fromisoformat(text if text[1] != ":" and text[2] == ":" else f"0{text}")
        days = [near.date() + datetime.timedelta(days=days) for days in (-1, 0, 1)]
        moments = [datetime.datetime.combine(day, of_day, datetime.UTC).timestamp() for day in days]
        return min(moments, key=lambda moment: abs(moment - about_s))
    found = datetime.datetime.fromisoformat(text)
    return (found if found.tzinfo else found.replace(tzinfo=datetime.UTC)).timestamp()


@dataclass(frozen=True)
class Chosen:
    """What is to be read."""

    #: Those that have something of it.
    paths: Sequence[Path]
    #: Its first and last moment, ns of the monotonic clock.
    from_ns: int
    to_ns: int
    #: What was asked for in all; what is read of it where that is less, else 0.
    asked_bytes: int = 0
    read_bytes: int = 0


@dataclass(frozen=True)
class Window:
    """The requested part; empty: all.

    Attributes:
        last_s: up to the recording's end.
        since: as [moment_of][] reads it; "" = its begin.
        until: likewise; "" = its end.
    """

    last_s: float | None = None
    since: str = ""
    until: str = ""

    def chosen(self, paths: Sequence[Path], most_bytes: int) -> Chosen:
        """What of these files is to be read: the last of it, where it is more than `most_bytes`.

        Raises:
            SettingsError: a moment that is none.
            RecordingError: the recording does not say what time it was, or has nothing of that time.
        """
        large = sum(path.stat().st_size for path in paths) > most_bytes
        if self == Window() and not large:
            return Chosen(paths, 0, _LATEST_NS)
        chunks = {path: found for path in paths if (found := _chunks(path))}
        if not chunks:
            return Chosen(paths, 0, _LATEST_NS)
        spans = {path: (min(found)[0], max(found)[0]) for path, found in chunks.items()}
        first_ns, last_ns = min(first for first, _ in spans.values()), max(last for _, last in spans.values())
        if self.last_s is not None:
            from_ns, to_ns = max(0, last_ns - round(self.last_s * _S)), _LATEST_NS
        else:
            offset_ns = _unix_offset_ns(paths)
            from_ns = self._moment_ns("--from", self.since, first_ns, offset_ns) if self.since else 0
            to_ns = self._moment_ns("--to", self.until, last_ns, offset_ns) if self.until else _LATEST_NS
        sizes = sorted(
            (each for found in chunks.values() for each in found if from_ns <= each[0] <= to_ns), reverse=True
        )
        asked_bytes, read_bytes = sum(size for _, size in sizes), 0
        if asked_bytes > most_bytes:
            for base_ns, size in sizes:
                if read_bytes + size > most_bytes:
                    break
                from_ns, read_bytes = base_ns, read_bytes + size
        inside = [path for path, (first, last) in spans.items() if first <= to_ns and last >= from_ns]
        return Chosen(inside or list(spans), from_ns, to_ns, asked_bytes, read_bytes)

    @staticmethod
    def _moment_ns(flag: str, text: str, about_ns: int, offset_ns: int) -> int:
        try:
            moment_s = moment_of(text, (about_ns + offset_ns) / _S)
        except ValueError:
            rule = "a time such as 14:02, 14:02:30 or 2026-11-23T14:02 (UTC)"
            raise SettingsError(flag, text, rule, "the page's timeline shows them", attempted="choose a part") from None
        return max(0, round(moment_s * _S) - offset_ns)


def _chunks(path: Path) -> list[tuple[int, int]]:
    """When each chunk of a file was begun, and its bytes. Reads headers only."""
    found: list[tuple[int, int]] = []
    with path.open("rb") as file:
        while len(head := file.read(_HEADER.size)) == _HEADER.size:
            magic, length, base_ns, payload = _HEADER.unpack(head)
            if magic != _MAGIC or length < _HEADER.size:
                break
            found.append((base_ns, payload))
            file.seek(length - _HEADER.size + payload, 1)
    return found


def _unix_offset_ns(paths: Sequence[Path]) -> int:
    for path in paths:
        with path.open("rb") as file:
            if found := _CLOCKS.search(file.read(_CLOCKS_WITHIN_BYTES)):
                return int(found[2]) - int(found[1])
    rule = "a recording that says what time it was"
    raise RecordingError("choose a part of the recording", name="path", value=str(paths[0]), rule=rule, hint="--last")
