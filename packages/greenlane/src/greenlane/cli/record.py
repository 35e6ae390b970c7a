"""`greenlane record`: runs an unchanged program and records it, or switches a recording that runs.

The exit code is the command's (128 + N where signal N ended it); 1 where the command went well and nothing could be
recorded; 2 where it could not be started.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import re
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

from greenlane.cli import record_live
from greenlane.cli.command import Command
from greenlane.cli.output import Output
from greenlane.cli.record_command import RecordedCommand, Witness, alive, blocked_signals, descendants
from greenlane.cli.record_parts import CONTROL, Parts
from greenlane.control.client import ask, processes
from greenlane.control.protocol import check_directory
from greenlane.errors import ArgumentError, GreenlaneError, RecordError, SettingsError
from greenlane.record.recorder import PARTS, SITE, is_over
from greenlane.record.servers import advice, advice_by, listening
from greenlane.settings import SETTINGS, Settings, load
from greenlane.wiring.process import check_platform

__all__ = ["COMMAND"]

#: How long a look for signals and ended processes may take, seconds.
_LOOK_S: Final = 0.5
#: A process that was forked at the command's end has this long to write its first segment, s.
_APPEARS_S: Final = 1.0
#: What a command leaves that was told to end has this long to end, too, s.
_LEFT_S: Final = 3.0
#: Progress is shown first after this long, then each time the time has doubled; on a terminal at most a minute apart.
_FIRST_WORD_S: Final = 4.0
_LONGEST_SILENCE_S: Final = 60.0
#: Jobs of a larger recording are not counted at its end: counting this many takes a second.
_COUNTED_MB: Final = 20
_MOST_SECONDS: Final = 7 * 86_400
_UNITS_S: Final = {"": 1, "s": 1, "m": 60, "h": 3600}
_MOST_LAST_S: Final = 365 * 86_400
_NOT_RECORDED: Final = (
    "the command must run Python {version} with its environment and site: not `python -S`, `-I` or `-E`, "
    "no other interpreter, no `env -i`, and no service that runs already. "
    "A program with no server that is observed (docs/recording.md), and without `greenlane.record`, has no jobs"
)


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="the recording (greenlane-DATE-TIME.glr)")
    parser.add_argument("--force", action="store_true", help="overwrite an existing recording")
    parser.add_argument(
        "--max-mb",
        metavar="N",
        help=f"size limit; the oldest events are dropped first ({SETTINGS['record_max_mb'].default:g})",
    )
    parser.add_argument(
        "--seconds", metavar="N", type=_seconds, help="stop recording after N seconds; the command goes on"
    )
    parser.add_argument("--pid", metavar="PID", type=int, help="record a service that runs, until Ctrl-C or --seconds")
    parser.add_argument("--last", metavar="TIME", type=_duration, help="keep only the last 90s, 10m, 2h …")
    parser.add_argument("--snapshot", action="store_true", help="save the last TIME of TARGET to FILE")
    parser.add_argument(
        "--when",
        metavar="TRIGGER",
        action="append",
        default=[],
        help='with --snapshot: wait, and save at each "GET /x p99 > 500ms", "lag > 100ms", "5xx > 1%%", and SIGUSR1',
    )
    parser.add_argument("--no-stacks", action="store_true", help="do not sample the stacks of what makes others wait")
    parser.add_argument(
        "--off", action="store_true", help="with a COMMAND: start switched off; else: switch TARGET off"
    )
    parser.add_argument("--on", action="store_true", help="switch TARGET on")
    parser.add_argument("--status", action="store_true", help="show the state of TARGET")
    parser.add_argument("--merge", action="store_true", help="merge a FILE.parts that was left behind into FILE")
    parser.add_argument("--json", action="store_true", help="with --on, --off, --status: one JSON object")
    parser.add_argument(
        "rest",
        nargs=argparse.REMAINDER,
        metavar="-- COMMAND … | TARGET",
        help="what to run, or a running recording: its FILE, control_dir or process id",
    )


def _seconds(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0.1 <= float(text) <= _MOST_SECONDS:
            return float(text)
    raise argparse.ArgumentTypeError(f"{text!r}, expected a number from 0.1 to {_MOST_SECONDS} (s)")


def _duration(text: str) -> float:
    found = re.fullmatch(r"(\d+)([smh]?)", text)
    if found is None or not 0 < int(found[1]) * _UNITS_S[found[2]] <= _MOST_LAST_S:
        raise argparse.ArgumentTypeError(f"{text!r}, expected a time such as 90s, 10m or 2h")
    return int(found[1]) * _UNITS_S[found[2]]


def _run(arguments: argparse.Namespace, output: Output) -> int:
    rest: list[str] = arguments.rest
    command = rest[1:] if rest[:1] == ["--"] else rest
    if arguments.snapshot:
        return _snapshot(arguments, command, output)
    if arguments.merge:
        return _merge(_one(arguments, command), output)
    if arguments.on or arguments.status or (arguments.off and _is_target(command)):
        command = _flags_behind(arguments, command)
        return _switch(arguments, command[0] if command else "", output)
    if arguments.pid is not None:
        if command:
            arguments.parser.error("expected a COMMAND or --pid, not both")
        return _attach(arguments, output)
    if not command:
        arguments.parser.error("the following arguments are required: COMMAND")
    return _record(arguments, command, output)


def _flags_behind(arguments: argparse.Namespace, words: list[str]) -> list[str]:
    """Take the flags that stand behind TARGET, which argparse leaves with it; give TARGET alone."""
    for word in words[1:]:
        if word != "--json":
            arguments.parser.error(f"unrecognized arguments: {word}")
        arguments.json = True
    return words[:1]


def _is_target(command: list[str]) -> bool:
    """A COMMAND never begins with a number, a folder or a recording."""
    if not command:
        return True
    path = Path(command[0])
    return path.name.isdecimal() or path.suffix in (".glr", PARTS) or path.is_dir() or Path(f"{path}{PARTS}").is_dir()


def _one(arguments: argparse.Namespace, words: list[str]) -> Path:
    if len(words) == 1:
        return Path(words[0].removesuffix(".parts").removesuffix(".parts/"))
    if arguments.output is None or words:
        arguments.parser.error("expected one FILE")
    return Path(arguments.output)


# --- a recording that runs ----------------------------------------------------------------------------------------


def _switch(arguments: argparse.Namespace, target: str, output: Output) -> int:
    listening = record_live.found(target)
    request = {"do": "show"} if arguments.status else {"do": "record", "on": bool(arguments.on)}
    rows = record_live.rows(record_live.ask_all(listening, request, output))
    if arguments.json:
        output.document("record", rows)
    else:
        output.table(rows, record_live.COLUMNS)
    return 0 if rows else 1


def _snapshot(arguments: argparse.Namespace, words: list[str], output: Output) -> int:
    from greenlane.cli import record_snapshot

    if len(words) > 1:
        arguments.parser.error(f"unrecognized arguments: {' '.join(words[1:])}")
    target = words[0] if words else ""
    if arguments.when:
        triggers = [record_snapshot.Trigger(text) for text in arguments.when]
        record_snapshot.watch(target, arguments.output, arguments.last, triggers, output)
        return 0
    file = arguments.output or Path(time.strftime("greenlane-%Y%m%d-%H%M%S.glr"))
    record_snapshot.save(target, file, arguments.last, output, force=arguments.force)
    return 0


def _merge(file: Path, output: Output) -> int:
    parts = Parts(file)
    if not parts.segments():
        rule = "a folder with segments of a recording"
        raise ArgumentError("FILE.parts", str(parts.folder), rule, "name the FILE", attempted="merge the recording")
    if parts.file.exists():
        rule = "a recording that is not there yet"
        raise ArgumentError("FILE", str(parts.file), rule, "move it away", attempted="merge the recording")
    if _is_written(parts):
        raise RecordError(
            "merge the recording",
            name="FILE.parts",
            value=str(parts.folder),
            rule="a recording that is over (processes still write to it)",
            hint=f"end them, or read it as it is: `greenlane report {parts.folder}`",
        )
    _finish(parts, output, None)
    return 0


# --- a service that runs ------------------------------------------------------------------------------------------


def _attach(arguments: argparse.Namespace, output: Output) -> int:
    check_platform()
    from greenlane.cli.record_attach import Attached

    settings = _settings(arguments)
    if arguments.no_stacks:
        settings = dataclasses.replace(settings, record_stacks=False)
    parts = Parts(arguments.output or Path(time.strftime("greenlane-%Y%m%d-%H%M%S.glr")))
    attached, from_s = Attached(arguments.pid, parts, settings, output), time.monotonic()
    parts.make(force=arguments.force)
    try:
        attached.record(arguments.seconds)
    finally:
        parts.end()
        parts.remove()
    if not parts.segments():
        output.say("greenlane: nothing was recorded: no process had an event")
        return 1
    _finish(parts, output, time.monotonic() - from_s)
    return 0


# --- recording a command ------------------------------------------------------------------------------------------


def _record(arguments: argparse.Namespace, command: list[str], output: Output) -> int:
    check_platform()
    settings = _settings(arguments)
    parts = Parts(arguments.output or Path(time.strftime("greenlane-%Y%m%d-%H%M%S.glr")))
    parts.make(force=arguments.force)
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(parts.remove)
        control_dir = _control_dir(parts, settings, cleanup)
        environ = _environment(parts, settings, control_dir, arguments)
        with blocked_signals() as mask:
            listens = _Listens(parts)
            witness = Witness(lambda: _end_processes(parts))
            cleanup.callback(witness.dismiss)
            running = RecordedCommand(command, environ, mask, listens.look, witness)
            run = _Run(running, parts, output, listens, seconds=arguments.seconds)
            run.until_over()
            return run.code


def _settings(arguments: argparse.Namespace) -> Settings:
    try:
        return load({"record_max_mb": arguments.max_mb})
    except SettingsError as error:
        if arguments.max_mb is None or error.setting != "record_max_mb":
            raise
        rule = SETTINGS["record_max_mb"].rule
        raise SettingsError("--max-mb", arguments.max_mb, rule, "leave it out", attempted=_READ) from None


_READ: Final = "read the flags"


def _control_dir(parts: Parts, settings: Settings, cleanup: contextlib.ExitStack) -> str:
    """The directory of the control sockets: the settings', else the folder, else a short one."""
    if settings.control_dir:
        check_directory(settings.control_dir)
        directory = os.path.abspath(settings.control_dir)
    elif parts.fits_sockets():
        return str(parts.folder)
    else:
        directory = tempfile.mkdtemp(prefix="greenlane-")
        cleanup.callback(shutil.rmtree, directory, ignore_errors=True)
    (parts.folder / CONTROL).write_text(directory, encoding="utf-8")
    return directory


def _environment(parts: Parts, settings: Settings, control_dir: str, arguments: argparse.Namespace) -> dict[str, str]:
    path = os.environ.get("PYTHONPATH", "")
    inherited = dict(os.environ)
    with contextlib.suppress(OSError):
        if b"\0LC_CTYPE=" not in b"\0" + Path("/proc/self/environ").read_bytes():
            inherited.pop("LC_CTYPE", None)  # Python's own, in the C locale (PEP 538).
    return {
        **inherited,
        "PYTHONPATH": f"{SITE}{os.pathsep}{path}" if path else SITE,
        "GREENLANE_RECORD_FOLDER": str(parts.folder),
        "GREENLANE_RECORD_ON": "false" if arguments.off else "true",
        "GREENLANE_RECORD_MAX_MB": f"{settings.record_max_mb:g}",
        "GREENLANE_RECORD_LAST_S": f"{arguments.last or settings.record_last_s:.0f}",
        "GREENLANE_RECORD_STACKS": "false" if arguments.no_stacks or not settings.record_stacks else "true",
        "GREENLANE_CONTROL_DIR": control_dir,
    }


class _Listens:
    """Where the command listens, as far as it was seen; named if the recording has no jobs."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.addresses: set[str] = set()

    def look(self) -> None:
        """Look, while there are no jobs. When this returns, each process that answers has written its events."""
        if not _jobs(self._parts):
            for pid in descendants():
                self.addresses.update(listening(pid))


class _Run:
    """One command's recording, from its start to the merged file."""

    def __init__(
        self, command: RecordedCommand, parts: Parts, output: Output, listens: _Listens, *, seconds: float | None
    ) -> None:
        self._command = command
        self._parts = parts
        self._output = output
        self._from_s = time.monotonic()
        self._until_s = None if seconds is None else self._from_s + seconds
        self._next_word_s = _FIRST_WORD_S
        self._next_look_s = _LOOK_S
        self._listens = listens
        self._merged = False
        self._recorded = False

    def until_over(self) -> None:
        """Wait for the command, for what it leaves behind, and merge."""
        while self._command.code is None:
            self._command.wait(self._patience_s())
            if self._until_s is not None and time.monotonic() >= self._until_s and self._command.code is None:
                self._until_s = None
                _end_processes(self._parts)
                self._conclude()
            self._look_for_servers()
            self._say_progress()
        if not self._merged:
            self._wait_for_daemons()
            self._conclude()

    @property
    def code(self) -> int:
        """The exit code of `greenlane record`."""
        code = self._command.code or 0
        return 1 if code == 0 and not self._recorded else code

    def _look_for_servers(self) -> None:
        """Look each time the command's age has doubled."""
        age_s = time.monotonic() - self._from_s
        if age_s >= self._next_look_s and not self._merged:
            self._next_look_s = 2 * age_s
            self._listens.look()

    def _patience_s(self) -> float:
        if self._until_s is None:
            return _LOOK_S
        return max(0.0, min(_LOOK_S, self._until_s - time.monotonic()))

    def _let_forks_appear(self) -> None:
        """What the command has forked just before it ended writes its first segment a moment later."""
        until_s = time.monotonic() + _APPEARS_S
        while (
            self._command.left() - {*self._parts.written(), *self._command.recorders()} and time.monotonic() < until_s
        ):
            self._command.wait(0.02)  # and reap what ends

    def _recording(self) -> list[int]:
        return sorted({*alive(self._parts.written()), *self._command.recorders()})

    def _wait_for_daemons(self) -> None:
        """The command has ended; processes that it has left in the background still record."""
        self._let_forks_appear()
        left = self._recording()
        if not left or self._command.interrupts > 1:
            return
        if self._command.is_ending:
            # Its workers may end after it. What does not is a pool that nobody shuts down, or another's.
            until_s = time.monotonic() + _LEFT_S
            while left and time.monotonic() < until_s:
                self._command.wait(_LOOK_S)
                left = self._recording()
            if left:
                text = (
                    f"the command ended with {self._command.code}, and left {_list_processes(left)}: no longer recorded"
                )
                self._output.say(f"greenlane: {text}")
        else:
            self._follow(left)
        _end_processes(self._parts)

    def _follow(self, left: list[int]) -> None:
        """Record on until the last of them ends, or Ctrl-C."""
        self._output.say(
            f"greenlane: the command ended with {self._command.code}; {_list_processes(left)} that it started still "
            f"{'records' if len(left) == 1 else 'record'}: Ctrl-C ends the recording and leaves them"
        )
        self._command.pid = left[0]  # Signals are for those that remain.
        interrupts = self._command.interrupts
        while self._recording() and self._command.interrupts == interrupts:
            if self._until_s is not None and time.monotonic() >= self._until_s:
                break
            self._command.wait(self._patience_s())
            self._say_progress()

    def _conclude(self) -> None:
        self._merged = True
        self._parts.end()
        for reason in self._parts.skipped():
            self._output.say(f"greenlane: some of the command was not recorded: {reason}")
        if not self._parts.segments():
            version = ".".join(map(str, sys.version_info[:2]))
            told = advice(self._parts.servers(), self._listens.addresses)
            hint = _NOT_RECORDED.format(version=version)
            if _failed(self._command.code):
                hint = f"see above why the command ended with {self._command.code}. If it did serve: {hint}"
            error = RecordError("no process was recorded", hint=hint)
            self._output.say(f"greenlane: no process was recorded: {told}" if told else f"greenlane: {error}")
            return
        spent_s = time.monotonic() - self._from_s
        _finish(self._parts, self._output, spent_s, self._listens.addresses, self._command.code)
        self._recorded = True

    def _say_progress(self) -> None:
        spent_s = time.monotonic() - self._from_s
        if self._merged or spent_s < self._next_word_s:
            return
        self._next_word_s += silence_s(spent_s, terminal=self._output.err.isatty())
        jobs = _jobs(self._parts)
        self._output.say(
            f"greenlane: recording … {spent_s:.0f} s, {_count(self._parts.process_count(), 'process')}, "
            f"{_count(jobs, 'job')}, {self._parts.size_mb():.1f} MB"
        )


def _end_processes(parts: Parts) -> None:
    """End the recording in every process that still runs; when this returns their files are complete."""
    parts.end()
    with contextlib.suppress(GreenlaneError):
        for process in processes(parts.control_dir()):
            if process.pid in parts.written():
                with contextlib.suppress(GreenlaneError):
                    ask(process.socket, {"do": "record", "on": False, "end": True})


def _failed(code: int | None) -> bool:
    """Whether a command has ended by itself, and not well: no signal did it."""
    return code is not None and 0 < code < 128


def silence_s(spent_s: float, *, terminal: bool) -> float:
    """Time until the next line of progress. Lines stay in a log: a day makes some fifteen there."""
    return min(spent_s, _LONGEST_SILENCE_S) if terminal else spent_s


def _finish(
    parts: Parts, output: Output, spent_s: float | None, listens: Collection[str] = (), code: int | None = None
) -> None:
    """Merge, and say what was recorded and what comes next.

    Args:
        parts: what was recorded.
        output: for words.
        spent_s: how long it took; None = nobody knows.
        listens: where the command was seen to listen.
        code: the command's exit code, as a shell gives it; None = it runs, or nobody knows.
    """
    said = [] if spent_s is None else [f"{spent_s:.1f} s"]
    said.append(_count(parts.process_count(), "process"))
    servers = parts.servers()
    size_mb = parts.merge()
    parts.remove()
    lost: list[str] = []
    next_step = f"next: greenlane report {shlex.quote(os.path.relpath(parts.file))}"
    if size_mb <= _COUNTED_MB:
        # Reading is the tools' part: where they are not installed, jobs are not counted.
        with contextlib.suppress(GreenlaneError, ModuleNotFoundError):
            from greenlane_tools.reader import open_recording

            recording = open_recording(parts.file)
            said.append(_count(len(recording.jobs), "job"))
            if not recording.jobs and _failed(code):
                next_step = f"hint: see above why the command ended with {code}; nothing was served"
            told = "" if recording.jobs else advice_by((each.about for each in recording.processes), servers, listens)
            lost = [*recording.lost, *([f"no job ended: {told}"] if told else ())]
    for each in lost:
        output.say(f"greenlane: {each}")
    output.say(f"greenlane: recorded {', '.join(said)}, {size_mb:.1f} MB: {parts.file}")
    output.say(next_step)


def _jobs(parts: Parts) -> int:
    """Jobs of the running processes; 0 if none answers. A process that answers has written all its events."""
    jobs = 0
    with contextlib.suppress(GreenlaneError):
        for process in processes(parts.control_dir()):
            with contextlib.suppress(GreenlaneError, KeyError):
                jobs += ask(process.socket, {"do": "show"}, timeout_s=_LOOK_S)["record"]["jobs"]
    return jobs


def _is_written(parts: Parts) -> bool:
    """Whether a process may still write to it: it listens, and the recording has not ended there."""
    with contextlib.suppress(GreenlaneError):
        for each in processes(parts.control_dir()):
            if each.pid in parts.written():
                with contextlib.suppress(GreenlaneError, KeyError):
                    if is_over(parts.folder) and not ask(each.socket, {"do": "show"})["record"]["on"]:
                        continue
                return True
    return False


def _count(number: int, noun: str) -> str:
    plural = noun + ("es" if noun.endswith("s") else "s")
    return f"{number:,} {noun if number == 1 else plural}"


def _list_processes(pids: Sequence[int]) -> str:
    return f"{_count(len(pids), 'process')} (pid {', '.join(map(str, pids[:8]))})"


COMMAND: Final = Command(
    "record", "record an unchanged program: who waited, for whom, on which line", _declare, _run,
    examples=(
        "greenlane record -o shop.glr -- gunicorn -k gthread --threads 64 shop:app",
        "greenlane record --pid 4711 --seconds 60",
    ),
)  # fmt: skip
