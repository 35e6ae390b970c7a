"""The recorder of one process and everything that tells it something, put together. `bootstrap` gives it out.

Which probes: all at once, each waits for what it is for to be imported. Only those of threads are taken out again when
the program imports gevent's hub or monkey patch, so that gevent replaces the standard library and not our wrappers.

After a fork the child records into a file of its own; so does a program that is executed, by the environment.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib.machinery
import json
import os
import platform
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path
from typing import Any, Final

import wrapt

from greenlane import _native, bootstrap_control, fork_warning, phase, probes
from greenlane._native import Recorder, __version__
from greenlane.errors import GreenlaneError, HostError, RecordError
from greenlane.probes import cooperative
from greenlane.probes.patching import Patches
from greenlane.settings import Settings, load

__all__ = ["ENDED", "Recording", "recording", "start_recording", "stop_recording"]

#: File in the folder that says that its recording is over: nobody starts another one there.
ENDED: Final = "ended"
_PARTS: Final = ".parts"
#: Where `greenlane record` lets interpreters find our `sitecustomize`.
_SITE: Final = str(Path(__file__).resolve().parent / "hosts" / "observed" / "site")
_MB: Final = 1_000_000
#: At most so many routes in an answer of the control socket, those with most wait.
_MOST_ROUTES: Final = 100

_lock = threading.Lock()
_recording: Recording | None = None
_fork_hooks_set = False


def start_recording(settings: Settings | None = None) -> Recording | None:
    """Record in this process, or give the recording that runs already. None: `record_folder` is not set, or ended.

    Args:
        settings: None = `greenlane.toml`, environment.

    Raises:
        RecordError: the folder cannot be written to.
        SettingsError: the settings are wrong, or the control socket's directory.

    Cost: some milliseconds; one native thread, and one of Python's if `control_dir` is set.
    """
    global _recording
    with _lock:
        if _recording is None:
            settings = load() if settings is None else settings
            if not settings.record_folder or _is_over(Path(settings.record_folder)):
                return None
            _recording = Recording(settings)
        return _recording


def stop_recording() -> None:
    """End the recording of this process; nothing is patched afterwards. Idempotent."""
    global _recording
    with _lock:
        ended, _recording = _recording, None
    if ended is not None:
        ended.end()


def recording() -> Recording | None:
    """Give the recording of this process; None before `start_recording` and after `stop_recording`."""
    return _recording


class Recording:
    """The recording of this process. Made by `start_recording`."""

    def __init__(self, settings: Settings) -> None:
        """Wire everything; see `start_recording`."""
        self.settings = settings
        self.recorder = Recorder()
        self._folder = Path(settings.record_folder).absolute()
        self._undo: list[Callable[[], None]] = []
        self._jobs = _Jobs(self.recorder)
        self._start()
        if not settings.record_on:
            self.recorder.off()
        try:
            if settings.control_dir:
                bootstrap_control.serve(settings.control_dir, "record", self)
        except BaseException:
            self.recorder.stop()
            raise
        self._probes = _Probes(self._undo)
        self._probes.install()
        self._undo.append(cooperative.when_threads_are_greenlets(self._tell_green))
        self._see_calls(settings.record_on)
        phase.subscribe(self.recorder)
        if not settings.record_on:
            self._see_blocking(False)
        bootstrap_control.offer_jobs(self._jobs)
        gc.callbacks.append(self.recorder.collected)
        # Registered before the program's own: runs after them.
        atexit.register(self.recorder.stop)
        _set_fork_hooks()

    def record(self, on: bool) -> None:
        """Switch it, live. What was recorded is kept, and in the file when this returns."""
        (self.recorder.on if on else self.recorder.off)()
        self._see_calls(on)
        self._see_blocking(on)
        self.recorder.flush()

    def finish(self) -> None:
        """Write what there is, and record no more in this process. The probes stay, switched off."""
        _native.sampler_stop()
        self.recorder.stop()

    def end(self) -> None:
        """Write what there is, and take everything out of the process. Never raises."""
        self.finish()
        atexit.unregister(self.recorder.stop)
        phase.unsubscribe(self.recorder)
        bootstrap_control.withdraw_jobs(self._jobs)
        with contextlib.suppress(ValueError):
            gc.callbacks.remove(self.recorder.collected)
        self._see_calls(False)
        for undo in reversed(self._undo):
            with contextlib.suppress(Exception):
                undo()
        bootstrap_control.withdraw("record")

    def shown(self) -> dict[str, object]:
        """Give the field `record` of a control socket's answer; see `greenlane.control`. It is in the file by then."""
        self.recorder.flush()
        stats = self.recorder.stats()
        routes = [_route_row(row) for row in self.recorder.live()]
        routes.sort(key=lambda row: -float(str(row["wait_ms"])))
        span_ns = time.monotonic_ns() - self._from_ns
        return {
            "on": bool(stats["on"]),
            "jobs": stats["jobs"],
            "in_progress": stats["in_progress"],
            "oldest_s": round((time.monotonic_ns() - stats["oldest_ns"]) / 1e9, 3) if stats["oldest_ns"] else 0.0,
            "lag_ms_p99": _lag_ms(stats["by_lag"], 0.99),
            "busy_ms": round(stats["busy_ns"] / 1e6, 1),
            "busy_frac": round(stats["busy_ns"] / span_ns, 4) if span_ns > 0 else 0.0,
            "file_mb": round(stats["written_bytes"] / _MB, 3),
            "lost": stats["lost"],
            "failed": stats["failed"],
            "error": stats["error"],
            "routes": routes[:_MOST_ROUTES],
        }

    def _see_calls(self, on: bool) -> None:
        """Clients' calls are the one kind of probe whose work is all for the recording."""
        from greenlane.probes.calls import clients  # here: a process that records nothing does not load them

        if on:
            clients.install(self.recorder)
        else:
            clients.uninstall()

    def _tell_green(self) -> None:
        self._about["threads_are_greenlets"] = True
        self.recorder.describe(json.dumps(self._about, default=str))

    def _see_blocking(self, on: bool) -> None:
        """Switched off, blocking calls are as they were, unless somebody else listens: permits."""
        if phase.subscribers() == (self.recorder,):
            self._probes.switch(on)

    def _start(self) -> None:
        self._from_ns = time.monotonic_ns()
        most_bytes = int(self.settings.record_max_mb * _MB)
        self._about = _about(self.settings)
        about = json.dumps(self._about, default=str)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.recorder.start(self._folder, max_bytes=most_bytes, about=about)
        except OSError as error:
            raise RecordError(
                "start the recording",
                name="record_folder",
                value=str(self._folder),
                rule=f"a folder that can be written to ({error.args[-1]})",
                hint="record into a folder that the service's user owns",
            ) from None
        if self.settings.record_stacks:
            _native.sampler_start()

    def _after_fork_in_child(self, was_on: bool) -> None:
        if _is_over(self._folder):
            self.recorder.stop()
            return
        # The child's program must not fail because its recording does; the parent's goes on.
        with contextlib.suppress(GreenlaneError):
            self._start()
            if not was_on:
                self.recorder.off()
        if self.settings.control_dir:
            with contextlib.suppress(Exception):
                bootstrap_control.restart()


def _is_over(folder: Path) -> bool:
    """Whether `greenlane record` has ended there: it says so, then merges and removes its folder."""
    return (folder / ENDED).exists() or (folder.suffix == _PARTS and not folder.exists())


class _Jobs:
    """The recorder's jobs, for probes that ask whether there is one."""

    def __init__(self, recorder: Recorder) -> None:
        self._job = recorder.job

    def active(self) -> bool:
        return self._job() != 0

    def remaining_ms(self) -> int | None:
        return None


class _Probes:
    """Places the probes, and takes those of threads out again where gevent comes."""

    def __init__(self, undo: list[Callable[[], None]]) -> None:
        self._undo = undo

    def install(self) -> None:
        """Place what there is."""
        # Here, so that a process that records nothing does not load them.
        from greenlane.probes import asyncio as loops
        from greenlane.probes import children
        from greenlane.probes import gevent as green

        self._native_calls()
        self._threads()
        for each in (green, loops, children, _spans):
            each.install()
            self._undo.append(each.uninstall)
        _keep_last_words(self._undo)

    def switch(self, on: bool) -> None:
        """Take the probes of threads out, or place them again."""
        if not on:
            probes.uninstall()
        elif _is_green():
            probes.install_routes()
        else:
            with contextlib.suppress(HostError):  # eventlet: its own calls are seen as libc's
                probes.install()

    def _threads(self) -> None:
        self._undo.append(probes.uninstall)
        self.switch(True)
        if not _is_green():
            for name in ("gevent.monkey", "gevent.hub"):
                wrapt.register_post_import_hook(self._green, name)

    def _green(self, module: object) -> None:
        if _recording is not None:
            probes.uninstall()
            if _recording.recorder.recording():
                probes.install_routes()

    def _native_calls(self) -> None:
        native: Any = _native
        native.calls_install()
        self._undo.append(native.calls_uninstall)
        loader = importlib.machinery.ExtensionFileLoader
        original = loader.create_module

        def create_module(self: Any, spec: Any) -> Any:
            module = original(self, spec)
            native.calls_rescan()
            return module

        loader.create_module = create_module  # type: ignore[method-assign]
        self._undo.append(lambda: setattr(loader, "create_module", original))


def _times_of_spans(patches: Patches, module: Any) -> None:
    """Let each provider of OpenTelemetry's SDK tell its server spans where their time went."""
    patches.replace(module.TracerProvider, "__init__", _with_times)


def _with_times(original: Callable[..., None], silent: list[bool]) -> Callable[..., None]:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if not silent:
            with contextlib.suppress(Exception):  # a version that looks different must not fail the program
                from greenlane.export.otel import SpanTimes

                # First of all: attributes that an exporter's processor finds must be there.
                self.add_span_processor(SpanTimes())

    return __init__


_spans: Final = Patches({"opentelemetry.sdk.trace": _times_of_spans})


def _is_green() -> bool:
    return "gevent.hub" in sys.modules or "gevent.monkey" in sys.modules


def _keep_last_words(undo: list[Callable[[], None]]) -> None:
    """Write what there is before the process leaves without its exit hooks: `os._exit`, `os.exec*`."""
    recorder = Recorder()

    def _exit(status: int) -> Any:
        recorder.mark("end")
        recorder.flush()
        return leave(status)

    def execv(path: Any, argv: Any, /) -> Any:
        recorder.flush()
        _stand_first(os.environ)
        return replace(path, argv)

    def execve(path: Any, argv: Any, env: Any) -> Any:
        recorder.flush()
        if isinstance(env, MutableMapping):
            _stand_first(env)
        return replace_with(path, argv, env)

    leave, replace, replace_with = os._exit, os.execv, os.execve
    for ours, original in ((_exit, leave), (execv, replace), (execve, replace_with)):
        ours.__doc__ = original.__doc__
        setattr(os, ours.__name__, ours)
        undo.append(functools.partial(setattr, os, ours.__name__, original))


def _stand_first(environ: MutableMapping[str, str]) -> None:
    """Let our `sitecustomize` run in the next program: some launchers put one first that does not chain to others."""
    entries = environ.get("PYTHONPATH", "").split(os.pathsep)
    if _SITE in entries[1:]:
        environ["PYTHONPATH"] = os.pathsep.join([_SITE, *(entry for entry in entries if entry != _SITE)])


def _about(settings: Settings) -> dict[str, object]:
    """Describe this process; `docs/recording-format.md` lists the fields."""
    now_ns = time.monotonic_ns()
    return {
        "schema": "greenlane.about/1",
        "greenlane": __version__,
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "executable": sys.executable,
        "argv": sys.orig_argv,
        "pid": os.getpid(),
        "parent_pid": os.getppid(),
        "machine": socket.gethostname(),
        "boot": _boot_id(),
        "cores": len(os.sched_getaffinity(0)),
        "interval_ms": sys.getswitchinterval() * 1000,
        "started_ns": now_ns,
        "started_unix_ns": time.time_ns(),
        "record_max_mb": settings.record_max_mb,
        "record_stacks": settings.record_stacks,
        "threads_are_greenlets": cooperative.threads_are_greenlets(),
    }


def _boot_id() -> str:
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return ""


def _route_row(row: tuple[str, int, int, int, int, int, list[int]]) -> dict[str, object]:
    route, jobs, latency_ns, cpu_ns, io_ns, wait_ns, by_latency = row
    of = max(jobs, 1)
    return {
        "route": route,
        "jobs": jobs,
        "mean_ms": round(latency_ns / of / 1e6, 3),
        "p50_ms": _latency_ms(by_latency, 0.50),
        "p99_ms": _latency_ms(by_latency, 0.99),
        "cpu_ms": round(cpu_ns / 1e6, 1),
        "io_ms": round(io_ns / 1e6, 1),
        "wait_ms": round(wait_ns / 1e6, 1),
    }


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


def _set_fork_hooks() -> None:
    global _fork_hooks_set
    if not _fork_hooks_set:
        _fork_hooks_set = True
        os.register_at_fork(before=_note_before_fork, after_in_child=_restart_in_child)


_was: dict[str, bool] = {}


def _note_before_fork() -> None:
    fork_warning.before_fork()
    if _recording is not None:
        stats: Mapping[str, Any] = _recording.recorder.stats()
        _was.update(on=bool(stats["on"]), running=bool(stats["running"]))


def _restart_in_child() -> None:
    if _recording is not None and _was.get("running"):
        _recording._after_fork_in_child(_was["on"])
