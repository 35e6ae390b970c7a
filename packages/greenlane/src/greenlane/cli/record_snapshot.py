"""`greenlane record --snapshot`: saves what a recording that runs has of the last minutes, now or when it hurts."""

from __future__ import annotations

import contextlib
import re
import shlex
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from greenlane.cli import record_live
from greenlane.cli.output import Output
from greenlane.cli.recent import LAG, LATENCY, Recent, quantile_ms
from greenlane.cli.record_parts import boot_of, concatenate, segments_in
from greenlane.errors import ArgumentError, ControlError, RecordError, SettingsError

__all__ = ["Trigger", "save", "watch"]

#: So often the processes are asked while a trigger is waited for, s; what it looks at is of the last 10 s.
_LOOK_S: Final = 1.0
_SPAN_S: Final = 10.0
#: Of fewer jobs p99 is one of them.
_FEWEST_JOBS: Final = 10
_MB: Final = 1_000_000
_TRIGGER: Final = re.compile(
    r"(?:(?:(?P<route>.+) p(?P<percent>50|90|95|99)|lag)\s*>\s*(?P<ms>\d+(?:\.\d+)?)\s*(?P<unit>ms|s)"
    r"|(?:(?P<failing>.+) )?5xx\s*>\s*(?P<failed>\d+(?:\.\d+)?)\s*%)"
)
_RULE: Final = '"GET /bikes p99 > 500ms", "lag > 100ms", "5xx > 1%" or "GET /bikes 5xx > 1%"'
#: What `Recent` counts for 5xx.
_WELL, _FAILED = 0, 1


@dataclass
class Trigger:
    """Over the last 10 s: a route's percentile, the loops' and threads' lateness at p99, or the share of 5xx."""

    text: str
    route: str = field(init=False)
    _frac: float = field(init=False)
    #: ms; of 5xx, a share.
    _most: float = field(init=False)
    _of_failed: bool = field(init=False)
    _recent: Recent = field(init=False)

    def __post_init__(self) -> None:
        found = _TRIGGER.fullmatch(self.text.strip())
        if found is None:
            raise SettingsError("--when", self.text, _RULE, "write it so", attempted="read the flags")
        self.route = found["route"] or found["failing"] or ""
        self._of_failed = found["failed"] is not None
        self._frac = int(found["percent"] or 99) / 100
        self._most = (
            float(found["failed"]) / 100
            if self._of_failed
            else float(found["ms"]) * (1000 if found["unit"] == "s" else 1)
        )
        self._recent = Recent(_SPAN_S)

    def look(self, records: Sequence[Mapping[str, Any]], now_s: float) -> str:
        """What it saw, in words; "" = what it waits for has not come."""
        counts = Counter[int]()
        for record in records:
            rows = [each for each in record["routes"] if each["route"] == self.route] if self.route else [record]
            for row in rows:
                counts.update(self._row_counts(row))
        recent = self._recent.take(counts, now_s)
        if sum(recent.values()) < _FEWEST_JOBS:
            return ""
        if self._of_failed:
            frac = recent[_FAILED] / sum(recent.values())
            return f"{self.text} (it was {100 * frac:.3g} %)" if frac > self._most else ""
        ms = quantile_ms(recent, self._frac, LATENCY if self.route else LAG)
        return f"{self.text} (it was {ms:g} ms)" if ms is not None and ms > self._most else ""

    def _row_counts(self, row: Mapping[str, Any]) -> Mapping[int, int]:
        if self._of_failed:
            failed = row["failed" if self.route else "failed_jobs"]
            return {_WELL: row["jobs"] - failed, _FAILED: failed}
        found: Mapping[str, int] = row["by_latency" if self.route else "by_lag"]
        return {int(index): count for index, count in found.items()}


def save(target: str, file: Path, last_s: float | None, output: Output, *, force: bool) -> None:
    """Make FILE of what the processes of a target have recorded; they go on.

    Args:
        target: as for `record_live.found`.
        last_s: only files written to in this many last seconds; None = all.

    Raises:
        GreenlaneError: there is no such recording, or FILE cannot be written.
    """
    _save(_records(target, output), file, last_s, output, force=force)


def watch(target: str, file: Path | None, last_s: float | None, triggers: Sequence[Trigger], output: Output) -> None:
    """Save a window each time a trigger says so, and at each SIGUSR1, until Ctrl-C; a window is in one file only."""
    asked = threading.Event()
    signal.signal(signal.SIGUSR1, lambda *_of_the_signal: asked.set())
    quiet_until_s = 0.0
    output.say(f"greenlane: waiting for {' or '.join(each.text for each in triggers) or 'SIGUSR1'}")
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            began_s = time.monotonic()
            with _report(output):
                records = _records(target, output)
                said = [found for each in triggers if (found := each.look(records, began_s))]
                if asked.is_set() or (said and began_s >= quiet_until_s):
                    output.say(f"greenlane: {'SIGUSR1' if asked.is_set() else said[0]}")
                    asked.clear()
                    _save(records, _next_file(file), last_s, output, force=False)
                    quiet_until_s = began_s + (last_s or 60.0)
            asked.wait(max(0.0, _LOOK_S - (time.monotonic() - began_s)))


def _records(target: str, output: Output) -> list[Mapping[str, Any]]:
    """Each process has written what happened so far when it answers."""
    listening = record_live.found(target)
    return [answer["record"] for answer in record_live.ask_all(listening, {"do": "show"}, output)]


def _save(
    records: Sequence[Mapping[str, Any]], file: Path, last_s: float | None, output: Output, *, force: bool
) -> None:
    since_s = 0.0 if last_s is None else time.time() - last_s
    segments: list[Path] = []
    for folder in sorted({str(record["folder"]) for record in records}):
        segments += [path for path in segments_in(Path(folder)) if path.stat().st_mtime >= since_s]
    # The folder may be older than the machine's last boot. Processes that answer have written since then.
    newest = max(segments, key=lambda path: path.stat().st_mtime, default=None)
    if newest is not None:
        segments = [path for path in segments if boot_of(path) in ("", boot_of(newest))]
    if not segments:
        raise RecordError("save a snapshot", hint="nothing was recorded in that time: is recording on?")
    if file.exists() and not force:
        rule = "a recording that is not there yet"
        raise ArgumentError("FILE", str(file), rule, "name another with -o, or --force", attempted="save a snapshot")
    concatenate(segments, file)
    output.say(f"greenlane: saved {file.stat().st_size / _MB:.1f} MB of {len(records)} processes: {file}")
    output.say(f"next: greenlane report {shlex.quote(str(file))}" + (f" --last {last_s:g}s" if last_s else ""))


def _next_file(file: Path | None) -> Path:
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    return Path(f"greenlane-{stamp}.glr") if file is None else file.with_name(f"{file.stem}-{stamp}{file.suffix}")


@contextlib.contextmanager
def _report(output: Output) -> Iterator[None]:
    """A service that restarts comes back; a full disk may have room again."""
    try:
        yield
    except (ControlError, RecordError, OSError) as error:
        output.say(f"greenlane: {error}")
