"""`greenlane celery`: Celery's own worker with Greenlane's pool."""

from __future__ import annotations

import argparse
import itertools
import os
from typing import Final

from greenlane.cli.command import Command
from greenlane.cli.extra import needed
from greenlane.cli.output import Output
from greenlane.cli.settings_flags import declare_settings, effective_settings
from greenlane.errors import SettingsError
from greenlane.settings import settings_of
from greenlane_work.cli.secret import refuse_passwords
from greenlane_work.settings import WorkSettings

__all__ = ["CELERY"]

#: Options of Celery's worker that would give it another pool, or another process: how they are spelt, what to do.
_REFUSED: Final = {
    ("-P", "--pool"): "it has Greenlane's pool: --threads or --green before the app",
    ("-D", "--detach"): "let a supervisor start it: systemd, Kubernetes",
}
_PACKAGE: Final = "greenlane_work.celery"
_TASKS: Final = tuple(name for name in settings_of(WorkSettings) if name.startswith("task_"))
_SETTINGS: Final = (*_TASKS, "control_dir", "heavy_ms", "mode")
_SHOWN: Final = ("task_store", "task_attempts", "task_hard_limit_s", "mode")


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("app", metavar="APP", help="the Celery app, as for `celery -A`: module:app")
    parser.usage = f"{parser.prog} [OPTION ...] APP [-- CELERY_OPTION ...]"
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--threads", action="store_true", help="tasks in threads (the default)")
    how.add_argument("--green", action="store_true", help="tasks in green threads, by gevent")
    parser.add_argument("--slots", dest="setting.task_slots", metavar="N", help="same as --task-slots")
    parser.add_argument("--key", dest="setting.task_key", metavar="KEY", help="same as --task-key")
    declare_settings(parser, WorkSettings, _SETTINGS, shown=_SHOWN)


def _run(arguments: argparse.Namespace, _output: Output) -> int:
    refuse_passwords("--task-store", [getattr(arguments, "setting.task_store") or ""], "GREENLANE_TASK_STORE")
    refuse_passwords("an option of Celery's", arguments.passed_on, "BROKER_URL or RESULT_BACKEND, or the app")
    for word, following in itertools.zip_longest(arguments.passed_on, arguments.passed_on[1:], fillvalue=""):
        name, _, value = word.partition("=") if word.startswith("--") else (word[:2], "", word[2:])
        for spelt, hint in _REFUSED.items():
            if name in spelt:
                value = value or ("" if following.startswith("-") else following)
                rule = "an option that goes with this pool"
                raise SettingsError(name, value, rule, hint, attempted="start the worker")
    settings = effective_settings(arguments, WorkSettings)
    if arguments.green:
        with needed("celery", "start green threads"):
            import gevent  # noqa: F401 - it has patched the process before this module was imported, see cli/main.py
    with needed("celery", "start a Celery worker"):
        from celery.bin.celery import celery
    from greenlane_work.worker import pool

    pool.use(settings)
    kind = "GreenPool" if arguments.green else "Pool"
    os.environ["CELERY_CUSTOM_WORKER_POOL"] = f"{_PACKAGE}:{kind}"
    return _celery(celery, arguments, settings.task_slots)


def _celery(celery: object, arguments: argparse.Namespace, slots: int) -> int:
    from celery import concurrency

    # Celery looks at the variable when this module is imported, which it may have been.
    concurrency.ALIASES["custom"] = os.environ["CELERY_CUSTOM_WORKER_POOL"]
    command = ["-A", arguments.app, "worker", "-P", "custom", "-c", str(slots)]
    if not any(word.startswith(("-n", "--hostname")) for word in arguments.passed_on):
        # Celery's default is one name for all workers of a machine, whose second then fails.
        command += ["-n", f"greenlane-{os.getpid()}@%h"]
    command += ["--without-gossip", *arguments.passed_on]
    try:
        celery.main(args=command, prog_name="celery")  # type: ignore[attr-defined]
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


CELERY: Final = Command(
    "celery", "run a Celery worker that one slow upstream cannot block", _declare, _run, passes_on=True,
    examples=(
        "greenlane celery shop:app --key kwargs.merchant -- -Q orders -l INFO",
        "greenlane celery --green shop:app --slots 500",
    ),
)  # fmt: skip
