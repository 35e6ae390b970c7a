"""The recorder of one process: starts, switches and ends its recording, and says what there is to show.

The native recorder writes events into rings and its writer thread puts them into segments, files in `record_folder`.
Here stands what surrounds that: the folder, what the recording says about the process, and the ends of a process that
run no exit hooks. A forked child records into a file of its own from its first event on; so does a program that is
executed, by the environment.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import posix
import sys
import time
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from greenlane import _native
from greenlane._native import Recorder, __version__
from greenlane.errors import RecordError
from greenlane.record.redaction import redact

if TYPE_CHECKING:
    from greenlane.settings import Settings

__all__ = ["ENDED", "PARTS", "SITE", "ProcessRecorder", "gil_enabled", "is_over"]

#: File in the folder that says that its recording is over: no process starts another one there.
ENDED: Final = "ended"
#: What the name of the folder of `greenlane record` ends in.
PARTS: Final = ".parts"
#: Where `greenlane record` lets interpreters find our `sitecustomize`.
SITE: Final = str(Path(__file__).resolve().parent / "site")
_MB: Final = 1_000_000
#: At most this many routes in an answer of the control socket, those with most wait.
_MOST_ROUTES: Final = 100


def is_over(folder: Path) -> bool:
    """Whether `greenlane record` has ended there: it says so, then merges and removes its folder."""
    return (folder / ENDED).exists() or (folder.suffix == PARTS and not folder.exists())


class ProcessRecorder:
    """The native recorder with its folder.

    Args:
        settings: those of the recording.
        threads_are_greenlets: whether gevent has replaced `threading`; the recording says so.
        began: called by one of our threads when the process has had its first event, and in each forked child.
    """

    def __init__(
        self, settings: Settings, threads_are_greenlets: Callable[[], bool], began: Callable[[], object]
    ) -> None:
        self.native = Recorder()
        self._settings = settings
        self._threads_are_greenlets = threads_are_greenlets
        self._began = began
        self._folder = Path(settings.record_folder).absolute()
        self._undo: list[Callable[[], None]] = []
        self._server_modules: Sequence[str] = ()
        self._listened: set[str] = set()

    def start(self) -> None:
        """Begin a recording.

        Raises:
            RecordError: the folder cannot be written to.
        """
        self._about = self._describe()
        most_bytes, keep_s = int(self._settings.record_max_mb * _MB), self._settings.record_last_s
        about = json.dumps(self._about, default=str)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.native.start(self._folder, max_bytes=most_bytes, about=about, keep_s=keep_s)
        except OSError as error:
            raise RecordError(
                "start the recording",
                name="record_folder",
                value=str(self._folder),
                rule=f"a folder that can be written to ({error.args[-1]})",
                hint="record into a folder that the service's user owns",
            ) from None
        for name, why in _without():
            _say_once(self._folder, name, why)
        _native.sampler_start(stacks=self._settings.record_stacks, began=self._began)
        _write_before_leaving(self.native, self._undo)
        if not self._settings.record_on:
            self.native.off()

    def describe(self) -> None:
        """Note in the recording that threads are greenlets from now on, or threads again."""
        self._about["threads_are_greenlets"] = self._threads_are_greenlets()
        self.native.describe(json.dumps(self._about, default=str))

    def give_up(self, name: str, why: str) -> None:
        """Record nothing more in this process, and say once why. Never raises."""
        with contextlib.suppress(Exception):
            self.native.off()
            _say_once(self._folder, name, why)

    def name_servers(self, modules: Sequence[str]) -> None:
        """Say in a recording without jobs which of these the program has loaded, and where it listens."""
        # Imported here, not by our threads; other hosts do without it.
        from greenlane.record import servers

        self._server_modules, self._servers = modules, servers

    def finish(self) -> None:
        """Write what there is, and stop recording in this process."""
        _native.sampler_stop()
        self.stop()

    def stop(self) -> None:
        """The same, where our threads end by themselves."""
        self._tell_servers()
        self.native.stop()

    def end(self) -> None:
        """Finish, and give back what was replaced. Never raises."""
        self.finish()
        for undo in reversed(self._undo):
            with contextlib.suppress(Exception):
                undo()

    def shown(self) -> dict[str, object]:
        """Give the field `record` of a control socket's answer; see `greenlane.control`. It is in the file by then."""
        self._tell_servers()
        self.native.flush()
        stats = self.native.stats()
        routes = [_route_row(row) for row in self.native.live()]
        routes.sort(key=lambda row: -float(str(row["wait_ms"])))
        span_ns = time.monotonic_ns() - stats["started_ns"]
        return {
            "on": bool(stats["on"]),
            "jobs": stats["jobs"],
            "failed_jobs": stats["failed_jobs"],
            "in_progress": stats["in_progress"],
            "oldest_s": round((time.monotonic_ns() - stats["oldest_ns"]) / 1e9, 3) if stats["oldest_ns"] else 0.0,
            "lag_ms_p99": _lag_ms(stats["by_lag"], 0.99),
            "by_lag": _nonzero(stats["by_lag"]),
            "busy_ms": round(stats["busy_ns"] / 1e6, 1),
            "busy_frac": round(stats["busy_ns"] / span_ns, 4) if span_ns > 0 else 0.0,
            "file_mb": round(stats["written_bytes"] / _MB, 3),
            "folder": str(self._folder),
            "lost": stats["lost"],
            "failed": stats["failed"],
            "error": stats["error"],
            "routes": routes[:_MOST_ROUTES],
        }

    def _tell_servers(self) -> None:
        """Note servers in a recording that has no jobs. Never raises: the program may be about to end."""
        with contextlib.suppress(Exception):
            if not self._server_modules or not self.native.recording() or self.native.stats()["jobs"]:
                return
            loaded = {name for name in self._server_modules if name in sys.modules}
            loaded = {
                next((short for short in self._servers.OBSERVED if f"{name}.".startswith(f"{short}.")), name)
                for name in loaded
            }
            # What listened a moment ago may be closed by now.
            before = (self._about.get("servers"), self._listened)
            self._listened = self._listened | {*self._servers.listening()}
            if before != (sorted(loaded), self._listened):
                self._about.update(servers=sorted(loaded), listens=sorted(self._listened))
                self.native.describe(json.dumps(self._about, default=str))

    def _describe(self) -> dict[str, object]:
        """Describe this process and its forked children; `docs/recording-format.md` lists the fields."""
        return {
            "schema": "greenlane.about/1",
            "greenlane": __version__,
            "python": sys.version.partition(" ")[0],
            "implementation": "CPython",
            "executable": sys.executable,
            "argv": redact(sys.orig_argv),
            "machine": os.uname().nodename,
            "boot": _boot_id(),
            "cores": len(os.sched_getaffinity(0)),
            "interval_ms": sys.getswitchinterval() * 1000,
            "record_max_mb": self._settings.record_max_mb,
            "record_last_s": self._settings.record_last_s,
            "record_stacks": self._settings.record_stacks,
            "threads_are_greenlets": self._threads_are_greenlets(),
        }


def gil_enabled() -> bool:
    """Whether this interpreter has a GIL now: on a free-threaded build an import may have switched it on."""
    return bool(getattr(sys, "_is_gil_enabled", lambda: True)())


def _without() -> Iterator[tuple[str, str]]:
    """What this CPython cannot record, by name."""
    if sys.version_info[:2] > _native.NEWEST_PYTHON:
        python, newest = (".".join(map(str, version)) for version in (sys.version_info[:2], _native.NEWEST_PYTHON))
        yield "newer", f"CPython {python} is newer than what is known here, {newest}: waits for the GIL are not seen"
    if not gil_enabled():
        yield (
            "nogil",
            "this CPython has no GIL: asyncio's steps, gevent's switches and stacks are not recorded",
        )


def _say_once(folder: Path, name: str, why: str) -> None:
    """Say it once a recording; `greenlane record` repeats it at its end."""
    with contextlib.suppress(OSError), (folder / f"skipped-{name}").open("x", encoding="utf-8") as note:
        note.write(why)
        os.write(2, f"greenlane: {why}\n".encode())


def _boot_id() -> str:
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return ""


# --- ends of the process ----------------------------------------------------------------------------------------------


def _write_before_leaving(recorder: Recorder, undo: list[Callable[[], None]]) -> None:
    """Write what there is before the process leaves without its exit hooks: `os._exit`, `os.exec*`."""

    def ends(status: int) -> None:
        recorder.mark("end")
        recorder.flush()

    def becomes(path: Any, argv: Any, env: Any = os.environ) -> None:
        recorder.flush()
        if isinstance(env, MutableMapping):
            _put_site_first(env)

    for function, listener in ((posix._exit, ends), (posix.execv, becomes), (posix.execve, becomes)):
        with contextlib.suppress(ValueError):  # somebody has replaced it
            _native.listen_to(function, listener)
            undo.append(functools.partial(_native.stop_listening, function))


def _put_site_first(environ: MutableMapping[str, str]) -> None:
    """Let our `sitecustomize` run in the next program: some launchers put one first that does not chain to others."""
    entries = environ.get("PYTHONPATH", "").split(os.pathsep)
    if SITE in entries[1:]:
        environ["PYTHONPATH"] = os.pathsep.join([SITE, *(entry for entry in entries if entry != SITE)])


# --- what is shown ----------------------------------------------------------------------------------------------------


def _route_row(row: tuple[str, int, int, int, int, int, list[int], int]) -> dict[str, object]:
    route, jobs, latency_ns, cpu_ns, io_ns, wait_ns, by_latency, failed = row
    of = max(jobs, 1)
    return {
        "route": route,
        "jobs": jobs,
        "failed": failed,
        "mean_ms": round(latency_ns / of / 1e6, 3),
        "p50_ms": _latency_ms(by_latency, 0.50),
        "p99_ms": _latency_ms(by_latency, 0.99),
        "cpu_ms": round(cpu_ns / 1e6, 1),
        "io_ms": round(io_ns / 1e6, 1),
        "wait_ms": round(wait_ns / 1e6, 1),
        "by_latency": _nonzero(by_latency),
    }


def _nonzero(counts: list[int]) -> dict[int, int]:
    return {index: count for index, count in enumerate(counts) if count}


def _latency_ms(by_latency: list[int], frac: float) -> float:
    """Give the upper bound of the bucket that holds the quantile: index i is up to 2**(i/4) us."""
    return round(float(2 ** (_bucket(by_latency, frac) / 4)) / 1000, 3)


def _lag_ms(by_lag: list[int], frac: float) -> float:
    """Likewise for latenesses: index i is below 2**i us."""
    return round(float(2 ** _bucket(by_lag, frac)) / 1000, 3)


def _bucket(counts: list[int], frac: float) -> int:
    wanted = frac * sum(counts)
    seen = 0
    for index, count in enumerate(counts):
        seen += count
        if count and seen >= wanted:
            return index
    return 0
