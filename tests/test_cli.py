"""The command line: what it prints where, its exit codes, and how it ends."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from greenlane import __version__, errors
from greenlane.cli.command import Command
from greenlane.cli.commands import installed, known
from greenlane.cli.explain import PAGES
from greenlane.cli.extra import install
from greenlane.cli.main import main
from greenlane.cli.parser import Parser
from greenlane.control.server import Server
from greenlane.settings import settings_of
from greenlane.settings.listing import installed as all_settings
from greenlane_tools.cli import top
from greenlane_tools.cli.demo import DEMOS

ENTRY = "import sys; from greenlane.cli.main import main; sys.exit(main())"


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found


Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `greenlane` in this process, in an empty folder, without settings from outside."""
    for name in [name for name in os.environ if name.startswith("GREENLANE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)

    def greenlane(*argv: str) -> Result:
        try:
            code = main(argv)
        except SystemExit as ended:
            assert isinstance(ended.code, int)
            code = ended.code
        said = capsys.readouterr()
        return Result(code, said.out, said.err)

    return greenlane


@dataclass(frozen=True)
class Row:
    route: str
    phase: int
    samples: int
    expected_ms: float
    weight: str = "heavy"
    pinned: bool = False
    released_frac: float = 0.0


class Running:
    """A service as its control socket sees it."""

    def __init__(self) -> None:
        self.modes: dict[str | None, str] = {None: "on"}

    def mode(self) -> str:
        return self.modes[None]

    def set_mode(self, mode: str, route: str | None = None) -> None:
        self.modes[route] = mode

    def counters(self) -> dict[str, int]:
        return {"jobs": 7, "granted": 2, "waited_granted": 3, "wait_ns": 5_000_000, "lent_still": 1, "lent_overrun": 1}

    def turns(self) -> dict[str, dict[str, int]]:
        return {"GET /quote": {"turns": 5, "express": 1, "waited_ns": 7_000_000, "others_waited_ns": 9_000_000}}

    def learned(self) -> list[Row]:
        return [Row("GET /bikes", 0, 9, 1.2, "light"), Row("GET /quote\x1b[2J", 0, 4, 40.0, pinned=True)]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Running]:
    """A service that listens in `<tmp_path>/control`."""
    served = Running()
    server = Server(served, tmp_path / "control")
    server.start()
    yield served
    server.stop()


def program_of(command: Command) -> argparse.ArgumentParser:
    parser = Parser(prog="greenlane")
    sub = parser.add_subparsers(parser_class=Parser).add_parser(command.name)
    command.declare(sub)
    return parser


def ended_process(folder: Path) -> int:
    """Leaves the socket of a process that has ended; gives its id."""
    with socket.socket(socket.AF_UNIX) as leftover:
        leftover.bind(str(folder / "1.sock"))
        leftover.listen()
    return 1


# --- the whole


def test_the_help_lists_nothing_as_a_command_that_is_none(run: Run) -> None:
    listed = re.findall(r"^  ([a-z][\w-]+)  ", run("--help").out, re.MULTILINE)
    assert {"record", "serve"} <= {*listed} <= {*known()}


@pytest.mark.parametrize(
    ("argv", "number"),
    [
        (["config", "--permits", "x"], "GL101"),
        (["record", "-o", "r.glr", "--", "no-such-program"], "GL103"),
        (["explain", "GL999"], "GL103"),
        (["report", "absent.glr"], "GL301"),
    ],
)
def test_what_is_wrong_has_a_code_of_its_kind(run: Run, argv: list[str], number: str) -> None:
    result = run(*argv)
    assert result.code == 2
    assert result.err.endswith(f"more: greenlane explain {number}\n")


def test_without_a_command_it_explains_itself_and_exits_2(run: Run) -> None:
    result = run()
    assert (result.code, result.out) == (2, "")
    for command in map(installed, known()):
        assert command.name in result.err


@pytest.mark.parametrize("command", [command.name for command in map(installed, known())])
def test_every_command_has_help_on_stdout(run: Run, command: str) -> None:
    result = run(command, "--help")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith(f"usage: greenlane {command}")


def commands_and_subcommands() -> list[str]:
    found = []
    for command in map(installed, known()):
        parser = Parser(prog="greenlane")
        command.declare(parser)
        under = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
        found += [command.name, *(f"{command.name} {name}" for action in under for name in action.choices)]
    return found


@pytest.mark.parametrize("columns", [80, 100])
@pytest.mark.parametrize("command", ["", *commands_and_subcommands()])
def test_help_fits_one_screen(run: Run, monkeypatch: pytest.MonkeyPatch, command: str, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = run(*command.split(), "--help").out.splitlines()
    assert len(lines) <= 40
    assert [line for line in lines if len(line) > columns] == []


@pytest.mark.parametrize("command", commands_and_subcommands())
def test_help_shows_two_examples_that_the_command_accepts(run: Run, command: str) -> None:
    examples = run(*command.split(), "--help").out.partition("\nexamples:\n")[2].splitlines()
    assert "%%" not in "".join(examples)
    assert len(examples) >= 2
    for example in examples:
        words = shlex.split(example.partition(" > ")[0])
        assert words[: 1 + len(command.split())] == ["greenlane", *command.split()] or command == "plan advise"
        ours = words[1 : words.index("--") if "--" in words else None]
        parser = program_of(installed(ours[0]))
        implied = [ours[0], "advise", *ours[1:]] if ours[0] == "plan" and ours[1] not in ("diff", "profile") else ours
        if "--help" not in implied:
            parser.parse_args(implied)


def test_help_all_shows_every_setting(run: Run) -> None:
    assert "--interval-ms" not in run("config", "--help").out
    shown = run("config", "--help-all").out
    assert not [name for name, one in settings_of(all_settings()).items() if one.flag not in shown]


def test_a_shell_completes_commands_and_flags(tmp_path: Path) -> None:
    def completed(line: str) -> set[str]:
        environ = {
            **os.environ, "_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "COMP_LINE": line, "COMP_TYPE": "9",
            "COMP_POINT": str(len(line)), "_ARGCOMPLETE_STDOUT_FILENAME": str(tmp_path / "completed"),
        }  # fmt: skip
        subprocess.run([sys.executable, "-c", ENTRY], env=environ, check=True, timeout=60, cwd=tmp_path)
        return {word.strip() for word in (tmp_path / "completed").read_text().splitlines()}

    assert {"record", "report"} <= completed("greenlane re")
    assert completed("greenlane mode --rou") == {"--route"}


@pytest.mark.parametrize(
    ("argv", "says", "hint"),
    [
        (["confg"], "invalid choice: 'confg'", "did you mean 'config'?"),
        (
            ["config", "--intervall-ms", "1"],
            "unrecognized arguments: --intervall-ms 1",
            "did you mean '--interval-ms'?",
        ),
        (["config", "--interval-m=1"], "unrecognized arguments", "did you mean '--interval-ms'?"),
        (["config", "extra"], "unrecognized arguments: extra", "see `greenlane config --help`"),
        (["mode", "onn"], "invalid choice: 'onn'", "did you mean 'on'?"),
        (["mode"], "required: mode", "see `greenlane mode --help`"),
        (["top", "--every", "0"], "expected a number from 0.1 to 3600", "see `greenlane top --help`"),
        (["top", "--every", "nan"], "expected a number from 0.1 to 3600", "see `greenlane top --help`"),
        (["top", "--every", "x"], "expected a number from 0.1 to 3600", "see `greenlane top --help`"),
        (["mode", "on", "--pid", "x"], "invalid int value: 'x'", "see `greenlane mode --help`"),
        (["demo", "prices"], "invalid choice: 'prices'", "did you mean 'pricing'?"),
        (["config", "--share-ms", "3"], "unrecognized arguments: --share-ms", "leave it out: it is a constant now"),
    ],
)
def test_wrong_usage_exits_2_with_a_hint(run: Run, argv: list[str], says: str, hint: str) -> None:
    result = run(*argv)
    assert (result.code, result.out) == (2, "")
    assert says in result.err
    assert f"hint: {hint}" in result.err


def test_every_json_has_schema_environment_and_rows(run: Run, service: Running, tmp_path: Path) -> None:
    (tmp_path / "greenlane.toml").write_text('control_dir = "control"')
    for argv in (["config"], ["doctor"], ["top"], ["status"], ["mode", "off"]):
        document = run(*argv, "--json").document
        assert [key for key in document if key != "verdict"] == ["schema", "environment", "rows"]
        assert document["schema"] == f"greenlane.{argv[0]}/1"
        assert document["environment"]["greenlane"] == __version__
        assert isinstance(document["rows"], list)


# --- old names, version, config


def test_an_old_name_runs_todays_command_and_says_so_in_one_line(run: Run, tmp_path: Path) -> None:
    for argv, today in (
        ("version", ["--version"]),
        ("check", ["doctor"]),
    ):
        old, new = run(*argv.split()), run(*today)
        assert (old.code, old.out) == (new.code, new.out)
        named = " ".join(today[:2])
        assert old.err == f"greenlane: `greenlane {argv.split()[0]}` is now `greenlane {named}`\n"
    assert run("work", "--help").out == run("celery", "--help").out


def test_version_is_one_line(run: Run) -> None:
    assert run("--version") == Result(0, f"greenlane {__version__}\n", "")


def test_config_prints_every_setting_with_its_origin(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "greenlane.toml").write_text('heavy_ms = 3\n[lanes.fast]\nmatch = ["/a*"]\n')
    monkeypatch.setenv("GREENLANE_PERMITS", "2")
    rows = {row["setting"]: row for row in run("config", "--mode", "observe", "--json").document["rows"]}
    assert set(settings_of(all_settings())) <= set(rows)
    assert (rows["mode"]["value"], rows["mode"]["origin"]) == ("observe", "flag --mode")
    assert (rows["permits"]["value"], rows["permits"]["origin"]) == (2, "environment GREENLANE_PERMITS")
    assert (rows["heavy_ms"]["value"], rows["heavy_ms"]["origin"]) == (3.0, f"file {tmp_path}/greenlane.toml")
    assert rows["lanes.fast.match"]["value"] == ["/a*"]
    assert rows["limit"]["origin"] == "default"


def test_config_is_a_table_for_people(run: Run) -> None:
    lines = run("config").out.splitlines()
    assert lines[0].split() == ["setting", "value", "unit", "origin"]
    assert len(lines) == len(settings_of(all_settings())) + 1
    assert any(line.split()[:2] == ["interval_ms", "1"] for line in lines)


@pytest.mark.parametrize("command", ["config", "doctor"])
def test_a_wrong_setting_exits_2_and_says_which(run: Run, command: str) -> None:
    result = run(command, "--interval-ms", "fast")
    assert result.code == 2
    assert "read the flag --interval-ms: interval_ms='fast', expected a number from 0.05 to 100 (ms)" in result.err
    assert "\nhint: leave it out for the default, 1" in result.err


@pytest.mark.parametrize("as_json", [(), ("--json",)])
def test_config_leaves_out_passwords(run: Run, monkeypatch: pytest.MonkeyPatch, as_json: tuple[str, ...]) -> None:
    monkeypatch.setenv("GREENLANE_TASK_STORE", "postgresql://me:secret@host/orders")
    monkeypatch.setenv("GREENLANE_DIVERSION", "redis://:secret@host/0")
    said = run("config", *as_json)
    assert (said.code, "secret" in said.out) == (0, False)
    assert "postgresql://me:***@host/orders" in said.out and "redis://:***@host/0" in said.out


@pytest.mark.parametrize(
    ("variable", "argv"),
    [
        ("GREENLANE_TASK_STORE", ()),
        ("GREENLANE_TASK_STOR", ()),
        ("", ("--task-stor", "Postgresql://me:secret@host/orders")),
    ],
)
def test_a_refusal_leaves_out_passwords(
    run: Run, monkeypatch: pytest.MonkeyPatch, variable: str, argv: tuple[str, ...]
) -> None:
    if variable:
        monkeypatch.setenv(variable, "Postgresql://me:secret@host/orders")
    said = run("config", *argv)
    assert (said.code, "secret" in said.err, "Postgresql://me:***@host/orders" in said.err) == (2, False, True)


def test_another_settings_file_can_be_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text("permits = 9")
    rows = run("config", "--config", "other.toml", "--json").document["rows"]
    assert {"setting": "permits", "value": 9, "unit": "", "origin": f"file {tmp_path}/other.toml"} in rows
    assert "expected a file that exists" in run("config", "--config", "absent.toml").err


# --- doctor


def test_doctor_says_what_is_well(run: Run) -> None:
    result = run("doctor")
    assert (result.code, result.err) == (0, "")
    assert all(line.startswith("ok") for line in result.out.splitlines())


def test_doctor_refuses_a_control_directory_that_is_too_long_and_makes_none(run: Run, tmp_path: Path) -> None:
    result = run("doctor", "--control-dir", "/tmp/" + "d" * 200)
    assert result.code == 2
    assert "at most 107 bytes" in result.err
    assert run("doctor", "--control-dir", "control").code == 0
    assert not (tmp_path / "control").exists()


def test_doctor_goes_on_after_the_first_thing_that_is_wrong(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("greenlane.hosts.gunicorn.release.RELEASES", ((10_000, 0), (10_001, 0)))
    rows = run("doctor", "--control-dir", "/tmp/" + "d" * 200, "--json").document["rows"]
    assert {row["check"] for row in rows if not row["ok"]} == {"gunicorn", "control directory"}


def test_doctor_refuses_a_gunicorn_that_the_worker_does_not_know(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("greenlane.hosts.gunicorn.release.RELEASES", ((10_000, 0), (10_001, 0)))
    result = run("doctor")
    assert result.code == 2
    assert "expected release 10000\nhint: pip install 'gunicorn>=10000,<10001'" in result.err


# --- explain


def test_an_error_names_the_code_that_explains_it(run: Run) -> None:
    assert run("config", "--permits", "x").err.endswith("\nmore: greenlane explain GL101\n")
    shown = run("explain", "GL101").out
    for text in ("GL101 (settings)", PAGES["GL101"].means, PAGES["GL101"].why, PAGES["GL101"].do):
        assert text in shown
    assert run("explain", "settings").out == run("explain", "gl101").out == shown


def test_explain_lists_all_codes_and_refuses_others(run: Run) -> None:
    assert [line.split()[0] for line in run("explain").out.splitlines()[1:]] == list(PAGES)
    result = run("explain", "GL999")
    assert (result.code, result.out) == (2, "")
    assert "expected a code that a message shows" in result.err


def test_every_kind_of_error_has_one_page() -> None:
    kinds = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.GreenlaneError)
    ]
    codes = [page.code for page in PAGES.values()]
    assert sorted(codes) == sorted(kind.code for kind in kinds if kind is not errors.GreenlaneError)


# --- top, mode


@pytest.mark.parametrize("argv", [["top", "--once"], ["top", "--json"], ["mode", "off"]])
def test_without_a_control_dir_it_says_what_to_set(run: Run, argv: list[str]) -> None:
    result = run(*argv)
    assert (result.code, result.out) == (2, "")
    assert 'hint: set control_dir = "/run/greenlane" in greenlane.toml' in result.err
    assert "GREENLANE_CONTROL_DIR" in result.err


@pytest.mark.parametrize("argv", [["top", "--once"], ["mode", "off"]])
def test_without_a_process_it_fails_and_says_so(run: Run, tmp_path: Path, argv: list[str]) -> None:
    assert "No such file or directory" in run(*argv, "--control-dir", "absent").err
    (tmp_path / "empty").mkdir()
    result = run(*argv, "--control-dir", "empty")
    assert (result.code, result.out) == (1, "")
    assert "expected a process that listens there\nhint: start the service with this control_dir" in result.err


def test_top_shows_processes_then_phases_the_longest_first(run: Run, service: Running) -> None:
    result = run("top", "--once", "--control-dir", "control")
    assert (result.code, result.err) == (0, "")
    processes, phases, turns = result.out.split("\n\n")
    assert processes.splitlines()[1].split() == [
        str(os.getpid()),
        "on",
        "7",
        "-",
        "0",
        "5",
        "0",
        "5",
        "0",
        "2",
        "0",
        "0",
    ]
    assert [line.split()[1].partition("\\")[0] for line in phases.splitlines()[1:]] == ["/quote", "/bikes"]
    assert turns.splitlines()[1].split() == ["GET", "/quote", "5", "-", "1", "-", "-", "-", "7", "9"]


def test_a_route_cannot_steer_the_terminal(run: Run, service: Running) -> None:
    out = run("top", "--once", "--control-dir", "control").out
    assert "\x1b" not in out
    assert "GET /quote\\x1b[2J" in out


def test_top_as_json_has_a_row_a_process(run: Run, service: Running) -> None:
    (row,) = run("top", "--json", "--control-dir", "control").document["rows"]
    assert (row["pid"], row["mode"], row["counters"]["jobs"]) == (os.getpid(), "on", 7)
    assert row["learned"][0]["route"] == "GET /bikes"


def test_phases_are_pooled_over_processes() -> None:
    quote = {
        "route": "/q",
        "phase": 0,
        "samples": 1,
        "expected_ms": 10,
        "weight": "heavy",
        "pinned": False,
        "released_frac": 0,
    }
    other = {**quote, "samples": 3, "expected_ms": 30, "weight": "light"}
    assert top.phases([{"learned": [quote]}, {"learned": [other]}]) == [
        {
            "route": "/q",
            "phase": 0,
            "samples": 4,
            "expected_ms": 25,
            "weight": "mixed",
            "pinned": "",
            "released_frac": 0,
        }
    ]


def test_turns_are_summed_over_processes() -> None:
    turns = {"GET /q": {"turns": 2, "waited_ns": 1_500_000, "others_waited_ns": 0}}
    on = {"mode": "on", "turns": turns}
    assert top.turns([on, on, {"mode": "on"}]) == [
        {"route": "GET /q", "turns": 4, "waited_ns": 3_000_000, "others_waited_ns": 0, "pays_ms": 3, "gains_ms": 0}
    ]


def test_what_a_route_would_pay_is_not_said_where_nobody_waits() -> None:
    observes = {"mode": "observe", "turns": {"GET /q": {"turns": 2, "waited_ns": 0, "others_waited_ns": 0}}}
    [row] = top.turns([observes, observes])
    assert (row["turns"], row["pays_ms"], row["gains_ms"]) == (4, None, None)
    on = {"mode": "on", "turns": {"GET /q": {"turns": 1, "waited_ns": 0, "others_waited_ns": 2_000_000}}}
    [row] = top.turns([observes, on])
    assert (row["turns"], row["pays_ms"], row["gains_ms"]) == (3, 0, 2)


def test_mode_switches_a_service_and_a_route(run: Run, service: Running) -> None:
    assert run("mode", "observe", "--control-dir", "control").code == 0
    assert run("mode", "off", "--route", "GET /bikes", "--pid", str(os.getpid()), "--control-dir", "control").code == 0
    assert service.modes == {None: "observe", "GET /bikes": "off"}


def test_status_says_that_a_process_that_is_off_counts_no_jobs(run: Run, service: Running) -> None:
    assert run("status", "--control-dir", "control").err == ""
    service.set_mode("off")
    result = run("status", "--control-dir", "control")
    assert result.out.splitlines()[1].split()[:3] == [str(os.getpid()), "off", "7"]
    assert result.err == f"greenlane: mode off counts nothing: figures of process {os.getpid()} are from before\n"


def test_an_unknown_process_id_is_named(run: Run, service: Running) -> None:
    result = run("mode", "off", "--pid", "1", "--control-dir", "control")
    assert (result.code, result.out) == (1, "")
    assert "expected process 1 that listens there" in result.err
    assert service.modes == {None: "on"}


def test_a_process_that_has_ended_is_no_failure(run: Run, service: Running, tmp_path: Path) -> None:
    ended = ended_process(tmp_path / "control")
    result = run("mode", "off", "--control-dir", "control")
    assert (result.code, result.err) == (0, "")
    assert str(ended) not in result.out.split()
    assert service.modes == {None: "off"}


def test_a_process_that_answers_nonsense_is_named_and_the_others_are_switched(
    run: Run, service: Running, tmp_path: Path
) -> None:
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.bind(str(tmp_path / "control" / "1.sock"))
        stranger.listen()

        def answer() -> None:
            for _ in range(2):  # first the look whether somebody listens, then the request
                connection, _ = stranger.accept()
                with connection:
                    connection.recv(1000)
                    with contextlib.suppress(OSError):
                        connection.sendall(b"hello\n")

        thread = threading.Thread(target=answer)
        thread.start()
        result = run("mode", "off", "--control-dir", "control")
        thread.join()
    assert result.code == 1
    assert "1.sock', expected an answer in JSON" in result.err
    assert str(os.getpid()) in result.out
    assert service.modes == {None: "off"}


def test_a_route_that_no_process_has_met_is_refused(run: Run, service: Running) -> None:
    result = run("mode", "off", "--route", "GET /bike", "--control-dir", "control")
    assert (result.code, result.out) == (1, "")
    assert "route='GET /bike', expected a route that a process has met\nhint: did you mean 'GET /bikes'?" in result.err
    assert service.modes == {None: "on"}


def test_a_key_that_no_worker_has_met_is_switched_and_named(
    run: Run, service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    switched = {}
    monkeypatch.setattr(service, "tasks", lambda: {"keys": [{"key": "taco"}]}, raising=False)
    monkeypatch.setattr(service, "breaker", switched.__setitem__, raising=False)
    assert run("breaker", "taco", "open", "--control-dir", "control").err == ""
    result = run("breaker", "tacco", "closed", "--control-dir", "control")
    assert (result.code, switched) == (0, {"taco": True, "tacco": False})
    assert "no worker has had an order of the key 'tacco'\nhint: did you mean 'taco'?" in result.err


# --- demo


def test_alone_it_is_the_demo_that_ships() -> None:
    assert program_of(installed("demo")).parse_args(["demo"]).name == "pricing"


_WITHOUT_THE_EXTRA = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("flask", "gevent", "gunicorn", "numpy", "pyarrow"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
"""


def without_the_extra(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _WITHOUT_THE_EXTRA + ENTRY, *argv]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.slow
def test_without_its_packages_the_demo_has_its_help(tmp_path: Path) -> None:
    told = without_the_extra(tmp_path, "demo", "pricing", "--help")
    assert (told.returncode, told.stderr) == (0, "")
    assert "--utilisation" in told.stdout


@pytest.mark.slow
@pytest.mark.parametrize("command", ["demo", "lab run mixed", "lab placement", "lab part3", "lab accept", "serve a:a"])
def test_without_its_packages_a_command_exits_2_with_the_one_that_installs_them(tmp_path: Path, command: str) -> None:
    (tmp_path / "a.py").write_text("def a(environ, start_response): ...")
    refused = without_the_extra(tmp_path, *command.split())
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "module='numpy'" in refused.stderr or "module='gunicorn'" in refused.stderr
    assert f"hint: {install(command.split()[0])}\nmore: greenlane explain GL102\n" in refused.stderr


def test_the_demo_gets_its_own_arguments(run: Run) -> None:
    result = run("demo", "pricing", "--help")
    assert result.code == 0
    assert "--utilisation" in result.out


@pytest.mark.parametrize("name", ["feed", "offers", "pos"])
def test_the_demo_of_a_system_runs_from_a_checkout_and_says_so_elsewhere(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    monkeypatch.setattr("greenlane_tools.cli.demo.PACKAGE", tmp_path / "lib" / "python" / "greenlane")
    result = run("demo", name, "--help")
    assert (result.code, result.out) == (2, "")
    assert f"expected a checkout of Greenlane, which has systems/{name}" in result.err
    assert "hint: clone the repository" in result.err


@pytest.mark.parametrize("name", ["feed", "offers", "pos"])
def test_a_missing_package_of_a_system_is_the_checkouts(run: Run, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    class Absent:
        """An import path on which the demo's module needs what is not there."""

        def find_spec(self, wanted: str, path: object = None, target: object = None) -> None:
            if wanted == DEMOS[name]:
                raise ModuleNotFoundError("No module named 'celery'", name="celery")

    monkeypatch.delitem(sys.modules, DEMOS[name], raising=False)
    monkeypatch.setattr(sys, "meta_path", [Absent(), *sys.meta_path])
    result = run("demo", name)
    assert (result.code, result.out) == (2, "")
    assert f"start the demo {name}: module='celery', expected what systems/{name} needs" in result.err
    assert "hint: make build" in result.err


# --- as a program


def program(*argv: str, cwd: Path, **options: Any) -> subprocess.Popen[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GREENLANE_")}
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", ENTRY, *argv],
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": cwd, "env": environ, **options},
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("argv", "code"),
    [(["config"], 0), (["top", "--once", "--control-dir", "absent"], 1), (["config", "--permits", "x"], 2), (["x"], 2)],
)
@pytest.mark.gate
def test_the_exit_codes_of_the_program(tmp_path: Path, argv: list[str], code: int) -> None:
    with program(*argv, cwd=tmp_path) as running:
        out, err = running.communicate(timeout=60)
    assert running.returncode == code
    assert "Traceback" not in err
    assert bool(out) == (code == 0)


@pytest.mark.slow
@pytest.mark.usefixtures("service")
@pytest.mark.gate
def test_ctrl_c_ends_the_live_table_with_130_and_no_traceback(tmp_path: Path) -> None:
    with program("top", "--every", "0.1", "--control-dir", "control", cwd=tmp_path) as running:
        assert running.stdout is not None
        tables = 0
        for line in running.stdout:
            tables += line.split()[:1] == ["pid"]
            if tables == 2:
                break
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=60)
    assert (running.returncode, err) == (130, "")


@pytest.mark.slow
def test_the_live_table_waits_for_a_service_that_restarts(tmp_path: Path) -> None:
    first = Server(Running(), tmp_path / "control")
    first.start()
    with program("top", "--every", "0.1", "--control-dir", "control", cwd=tmp_path) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        next(line for line in running.stdout if line.split()[:1] == ["route"])
        first.stop()
        next(line for line in running.stderr if "expected a process that listens there" in line)
        first.start()
        next(line for line in running.stdout if line.split()[:1] == ["pid"])
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=60)
    first.stop()
    assert running.returncode == 130


@pytest.mark.slow
def test_a_reader_that_leaves_early_is_no_failure(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with contextlib.closing(os.fdopen(writer, "w")) as gone, program("config", cwd=tmp_path, stdout=gone) as running:
        _, err = running.communicate(timeout=60)
    assert (running.returncode, err) == (0, "")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_fails_with_its_reason(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full, program("config", cwd=tmp_path, stdout=full) as running:
        _, err = running.communicate(timeout=60)
    assert running.returncode == 1
    assert err == "greenlane: write the output: No space left on device\nhint: make room where stdout goes\n"


@pytest.mark.slow
def test_colours_are_for_terminals_without_no_color(tmp_path: Path) -> None:
    def shown(**environ: str) -> str:
        terminal, end = os.openpty()
        try:
            options = {"stdout": end, "env": {**os.environ, "TERM": "xterm", "NO_COLOR": "", **environ}}
            with program("doctor", cwd=tmp_path, **options) as running:
                running.communicate(timeout=60)
            return os.read(terminal, 65_536).decode()
        finally:
            os.close(terminal)
            os.close(end)

    assert "\x1b[32m" in shown()
    assert "\x1b" not in shown(NO_COLOR="1")
    assert "\x1b" not in shown(TERM="dumb")
