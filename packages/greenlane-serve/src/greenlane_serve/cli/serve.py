"""`greenlane serve`: lanes over processes, one central queue."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from greenlane.cli.command import Command
from greenlane.cli.extra import needed
from greenlane.cli.output import Output
from greenlane.cli.settings_flags import declare_settings, effective_settings
from greenlane.errors import ServeError, SettingsError
from greenlane.settings.refusal import elsewhere
from greenlane_serve.cli.status import show
from greenlane_serve.folders import account_of, with_control
from greenlane_serve.live import Live
from greenlane_serve.processes import as_user
from greenlane_serve.settings import ServeSettings
from greenlane_serve.tree import Tree
from greenlane_serve.worker.application import KINDS, parts

_FLAGS: Final = (
    "bind", "tls_bind", "tls_certificate", "tls_key", "trusted_proxies", "access_log", "workers", "at_once",
    "health_path", "queue_s", "stop_s", "boot_s", "hung_after_s", "control_dir",
    "user", "max_requests", "max_memory_mb", "root_path", "log_level",
)  # fmt: skip
#: What a worker runs for each kind of application.
_SERVERS: Final = {"wsgi": "gunicorn", "asgi": "uvicorn"}


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.foreign = elsewhere  # type: ignore[attr-defined]  # ours have it
    parser.add_argument(
        "application", nargs="?", help="module:attribute of a WSGI or ASGI application, as for gunicorn"
    )
    parser.add_argument("--kind", choices=KINDS, help="kind of application (default: detected by loading it once)")
    parser.add_argument("--reload", action="store_true", help="replace the workers when code below here changes")
    parser.add_argument("--status", action="store_true", help="only show the state of the service on this --bind")
    parser.add_argument("--json", action="store_true", help="with --status: one JSON object")
    declare_settings(parser, ServeSettings, _FLAGS, shown=("bind", "workers", "health_path", "queue_s", "stop_s"))


def _run(arguments: argparse.Namespace, output: Output) -> int:
    if arguments.status:
        return show(arguments, output)
    if arguments.application is None:
        arguments.parser.error("an APPLICATION is needed, or --status")
    if arguments.json:
        arguments.parser.error("--json needs --status")
    parts(arguments.application)
    if arguments.config is not None:
        os.environ["GREENLANE_CONFIG"] = os.path.abspath(arguments.config)  # the workers read it too

    def say(text: str) -> None:
        output.say(f"[{time.strftime('%Y-%m-%d %H:%M:%S %z')}] [{os.getpid()}] greenlane: {text}")

    # Errors in them are reported before the application is loaded.
    settings = effective_settings(arguments, ServeSettings)
    kind, code = (arguments.kind, 0) if arguments.kind else _kind(arguments.application, settings)
    if code:
        return code  # it has been told why
    with needed("serve", "serve the application"):
        if importlib.util.find_spec(_SERVERS[kind]) is None:  # the workers import it, the parent does not
            raise ModuleNotFoundError(name=_SERVERS[kind])
    with contextlib.ExitStack() as stack:
        if arguments.reload:
            watch = Watch([Path.cwd()], lambda: os.kill(os.getpid(), signal.SIGHUP))
            stack.callback(watch.close)
        stack.enter_context(with_control(settings))
        tree = Tree(lambda: effective_settings(arguments, ServeSettings), arguments.application, kind, say)
        live = Live(kind=kind)
        tree.rounds.append(live)
        tree.rounds.append(live.room)
        stack.callback(live.close)
        return tree.run()


def _kind(application: str, settings: ServeSettings) -> tuple[str, int]:
    """Asked of a process of its own, so that the parent of all loads nothing of the application.

    Returns:
        The kind, and 0; or an exit code, of a name that is none.
    """
    account = account_of(settings.user)
    read_fd, write_fd = os.pipe()
    command = [sys.executable, "-m", "greenlane_serve.worker", "kind", application, str(write_fd)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, pass_fds=(write_fd,), check=False, **as_user(account))
    os.close(write_fd)
    with os.fdopen(read_fd) as answer:
        kind = answer.read() if done.returncode == 0 else ""
    if done.returncode in (ServeError.exit_code, SettingsError.exit_code):
        return "", done.returncode
    if kind not in KINDS:
        hint = "see above what it says, or name --kind"
        raise ServeError("serve", name="application", value=application, rule="one that can be loaded", hint=hint)
    return kind, 0


COMMAND: Final = Command(
    "serve", "serve an application: several processes behind one queue", _declare, _run,
    examples=("greenlane serve shop:app --workers 4", "greenlane serve --status"),
)  # fmt: skip


class Watch:
    """Watches folders until closed.

    Args:
        folders: with everything below; what tools write there (`.git`, `__pycache__`, `.venv` …) does not count.
        changed: called in the watching thread, once for what changes within some 50 ms. Python files and
            `greenlane.toml` count.

    Raises:
        SettingsError: watchfiles is not installed.
    """

    def __init__(self, folders: list[Path], changed: Callable[[], None]) -> None:
        with needed("serve", "watch the code"):
            import watchfiles
        self._over = threading.Event()
        events = watchfiles.watch(
            *folders, watch_filter=watchfiles.PythonFilter(extra_extensions=("greenlane.toml",)), debounce=1600,
            step=50, stop_event=self._over, rust_timeout=250, yield_on_timeout=True,
        )  # fmt: skip
        self._thread = threading.Thread(target=self._run, args=(events, changed), name="greenlane-watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; blocks up to 0.25 s."""
        self._over.set()
        self._thread.join()

    def _run(self, events: Iterable[object], changed: Callable[[], None]) -> None:
        for changes in events:
            if changes:
                changed()
