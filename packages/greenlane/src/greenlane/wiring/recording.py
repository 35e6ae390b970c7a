"""The recording of this process, wired: the recorder, the probes that tell it something, and the control socket.

Most probes wait for what they are for to be imported, and are loaded only then. Those of threads are taken out again
when the program imports gevent's hub or monkey patch: gevent is to replace the standard library, not our wrappers.
"""

from __future__ import annotations

import _imp
import atexit
import contextlib
import gc
import importlib
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from greenlane import _native, phase, probes
from greenlane._native import Recorder
from greenlane.control.protocol import check_directory
from greenlane.errors import HostError
from greenlane.probes import children, cooperative
from greenlane.probes.calls import clients
from greenlane.probes.imports import forget, when_imported
from greenlane.probes.patching import Patches
from greenlane.record.recorder import ProcessRecorder, gil_enabled, is_over
from greenlane.threads import fork_warning

if TYPE_CHECKING:
    from greenlane.settings import Settings

__all__ = ["RecordedProcess", "recording", "start_recording", "stop_recording"]

#: Probes of the recording alone: loaded when the program imports what stands before them.
_LATE: Final = {"gevent": "greenlane.probes.gevent", "asyncio": "greenlane.probes.asyncio"}

#: Imported by programs on eventlet, before it patches.
_ON_EVENTLET: Final = ("gunicorn.workers.geventlet", "celery.concurrency.eventlet")
_EVENTLET: Final = (
    "eventlet is not recorded: its switches are not seen, and what a green thread waits for would be another's. "
    "Record the service on gevent, threads or asyncio"
)

_lock = threading.Lock()
_recording: RecordedProcess | None = None


def start_recording(settings: Settings | None = None, *also: Patches) -> RecordedProcess | None:
    """Record in this process, or give the recording that runs already. None: `record_folder` is not set, or ended.

    Args:
        settings: None = `greenlane.toml`, environment.
        also: probes of the hosts that the program may import; they come and go with those of the recording.

    Raises:
        RecordError: the folder cannot be written to.
        SettingsError: the settings are wrong, or the control socket's directory.

    Cost: some milliseconds. Two native threads come with the first event, and one more if `control_dir` is set.
    """
    global _recording
    with _lock:
        if _recording is None:
            if settings is None:
                from greenlane.settings import load

                settings = load()
            if not settings.record_folder or is_over(Path(settings.record_folder)):
                return None
            _recording = RecordedProcess(settings, *also)
        else:
            _recording.observe(*also)
        return _recording


def stop_recording() -> None:
    """End the recording of this process; nothing is patched afterwards. Idempotent."""
    global _recording
    with _lock:
        ended, _recording = _recording, None
    if ended is not None:
        ended.end()


def recording() -> RecordedProcess | None:
    """Give the recording of this process; None before `start_recording` and after `stop_recording`."""
    return _recording


class RecordedProcess:
    """This process while it is recorded. Made by `start_recording`."""

    def __init__(self, settings: Settings, *also: Patches) -> None:
        """Wire everything; see `start_recording`."""
        self.settings = settings
        self._process = ProcessRecorder(settings, cooperative.threads_are_greenlets, _listen)
        self.recorder = self._process.native
        # A list: eventlet, which replaces locks that are made before its patch, finds those in it.
        self._also = list(also)
        self._ended = False
        # Empty while nothing of the recording's is in place.
        self._undo: list[Callable[[], None]] = []
        self._switching = threading.Lock()
        self._jobs = _Jobs(self.recorder)
        if settings.control_dir:
            # Imported here: if one of our threads did it, a child forked meanwhile would inherit a locked import lock.
            from greenlane.wiring import control_endpoint

            self._endpoint = control_endpoint
            check_directory(settings.control_dir)
        self.finish = self._process.finish
        self.name_servers = self._process.name_servers
        self.shown = self._process.shown
        try:
            self._process.start()
            if settings.record_on:
                self._place()
        except BaseException:
            self.end()
            raise
        # Registered before the program's own: runs after them.
        atexit.register(self._process.stop)
        fork_warning.watch()

    def record(self, on: bool) -> None:
        """Switch it, live. What was recorded is kept, and in the file when this returns."""
        (self.recorder.on if on else self.recorder.off)()
        if on:
            self._place()
        else:
            self._take_out()
        self.recorder.flush()

    def observe(self, *hosts: Patches) -> None:
        """Place the probes of hosts, unless there are some: the program began this recording before us."""
        with self._switching:
            if not self._also:
                self._also += hosts
                for each in hosts if self._undo else ():
                    self._install(each.install, each.uninstall)

    def end(self) -> None:
        """Write what there is, and take everything out of the process. Never raises."""
        self._ended = True
        self._process.end()
        atexit.unregister(self._process.stop)
        self._take_out()
        if self.settings.control_dir:
            self._endpoint.withdraw("record")

    # --- probes -------------------------------------------------------------------------------------------------------

    def _place(self) -> None:
        """Place all probes, and hear them. Idempotent."""
        with self._switching:
            if not self._undo:
                self._undo.append(_uninstall_threads)
                _follow_native_calls(self._undo)
                _install_threads()
                self._install_probes()
                self._undo.append(cooperative.when_threads_are_greenlets(self._process.describe))
                clients.install(self.recorder)
                self._undo.append(clients.uninstall)
                phase.subscribe(self.recorder)
                phase.offer(self._jobs)
                gc.callbacks.append(self.recorder.collected)

    def _take_out(self) -> None:
        """Put everything back. Idempotent; never raises."""
        with self._switching:
            phase.unsubscribe(self.recorder)
            phase.withdraw(self._jobs)
            with contextlib.suppress(ValueError):
                gc.callbacks.remove(self.recorder.collected)
            while self._undo:
                with contextlib.suppress(Exception):
                    self._undo.pop()()

    def _install_probes(self) -> None:
        if not _is_green():
            for name in ("gevent.monkey", "gevent.hub"):
                self._when_imported(name, _make_room_for_gevent)
        for install, uninstall in (
            (children.install, children.uninstall),
            *((each.install, each.uninstall) for each in (_spans, *self._also)),
        ):
            self._install(install, uninstall)
        for name in _ON_EVENTLET:
            self._when_imported(name, lambda _module: self._process.give_up("eventlet", _EVENTLET))
        if gil_enabled():  # it guards their tables
            for library, probe in _LATE.items():
                self._install_late(library, probe)

    def _install(self, install: Callable[[], None], uninstall: Callable[[], None]) -> None:
        install()
        self._undo.append(uninstall)

    def _install_late(self, library: str, name: str) -> None:
        def install(_library: ModuleType) -> None:
            # This may run in an import of the program: it must not raise.
            with contextlib.suppress(Exception):
                probe: Any = importlib.import_module(name)
                probe.install()
                self._undo.append(probe.uninstall)

        self._when_imported(library, install)

    def _when_imported(self, name: str, call: Callable[[ModuleType], object]) -> None:
        when_imported(name, call)
        self._undo.append(lambda: forget(name, call))

    def listen(self) -> None:
        """Let the recording be seen and switched over the control socket of this process."""
        if cooperative.is_eventlets():
            self._process.give_up("eventlet", _EVENTLET)
        if self.settings.control_dir and not self._ended:
            self._endpoint.serve(self.settings.control_dir, "record", self)


class _Jobs:
    """The recorder's jobs, for probes that ask whether there is one."""

    def __init__(self, recorder: Recorder) -> None:
        self._job = recorder.job

    def active(self) -> bool:
        return self._job() != 0

    def remaining_ms(self) -> int | None:
        return None


def _install_threads() -> None:
    if _is_green():
        probes.install_routes()
    else:
        with contextlib.suppress(HostError):  # eventlet: its own calls are seen as libc's
            probes.install()


def _uninstall_threads() -> None:
    """Blocking calls are as they were, unless somebody else listens: permits."""
    if not phase.subscribers():
        probes.uninstall()


def _make_room_for_gevent(_module: ModuleType) -> None:
    if _recording is not None:
        probes.uninstall()
        if _recording.recorder.recording():
            probes.install_routes()


def _is_green() -> bool:
    return "gevent.hub" in sys.modules or "gevent.monkey" in sys.modules


def _follow_native_calls(undo: list[Callable[[], None]]) -> None:
    """See libc's blocking calls, also those of extension modules that are loaded later."""
    native: Any = _native
    native.calls_install()
    undo.append(native.calls_uninstall)
    # What a loader calls: nothing that a program sees is replaced.
    load: Any = _imp.create_dynamic
    with contextlib.suppress(ValueError):
        native.listen_to(load, _rescan, after=True)
        undo.append(lambda: native.stop_listening(load))


def _rescan(*_of_the_import: object) -> None:
    native: Any = _native
    native.calls_rescan()


def _tell_spans(patches: Patches, module: Any) -> None:
    """Let each provider of OpenTelemetry's SDK tell its server spans where their time went."""

    def make(original: Callable[..., None], silent: list[bool]) -> Callable[..., None]:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            if not silent:
                with contextlib.suppress(Exception):  # a version that looks different must not fail the program
                    from greenlane.export.otel import SpanTimes

                    # First of all: attributes that an exporter's processor finds must be there.
                    self.add_span_processor(SpanTimes())

        return __init__

    patches.replace(module.TracerProvider, "__init__", make)


_spans: Final = Patches({"opentelemetry.sdk.trace": _tell_spans})


def _listen() -> None:
    """Called by one of our threads when this process has had its first event."""
    # Without a socket the program runs as well as before, and is recorded.
    with contextlib.suppress(Exception):
        if _recording is not None:
            _recording.listen()
