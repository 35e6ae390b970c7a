"""`greenlane record -- COMMAND`: programs that end well, badly, fork, execute others, or cannot be recorded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from tests.record.command import GREENLANE, environment, greenlane, record, recorded, routes

import greenlane as ours
from greenlane.cli.record import silence_s

#: `greenlane` of the tree under test, whatever the interpreter's site knows.
LOCAL = "import sys; sys.path.insert(0, sys.argv.pop(1)); from greenlane.cli.main import main; sys.exit(main())"

pytestmark = [pytest.mark.slow]

_OTHER = "3.13.0" if sys.version_info[:2] == (3, 12) else "3.12.1"
OTHER_PYTHON = Path(f"/root/.pyenv/versions/{_OTHER}/bin/python")


# --- what is recorded


@pytest.mark.gate
def test_a_program_is_recorded_and_says_what_comes_next(tmp_path: Path) -> None:
    ended = record("work(); print('done')", cwd=tmp_path)
    assert (ended.code, ended.out) == (0, "done\n")
    assert "1 process, 3 jobs" in ended.err
    assert ended.err.endswith("next: greenlane report r.glr\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.glr"]
    recording = recorded(tmp_path)
    assert routes(recording) == {"work": 3}
    assert recording.notes == []
    (process,) = recording.processes
    assert process.about["argv"][0] == sys.executable  # type: ignore[index]
    assert process.about["schema"] == "greenlane.about/1"


def test_a_job_that_raises_has_failed(tmp_path: Path) -> None:
    source = """
for name in ("well", "badly"):
    try:
        with greenlane.record.job(name):
            assert greenlane.record.current()
            1 / (name == "well")
    except ZeroDivisionError:
        pass
"""
    assert record(source, cwd=tmp_path).code == 0
    assert {job.route: job.status for job in recorded(tmp_path).jobs} == {"well": 0, "badly": 1}


def test_an_arrival_that_is_given_is_waited_from(tmp_path: Path) -> None:
    source = """
with greenlane.record.job("late", arrival_ns=time.monotonic_ns() - 50_000_000):
    pass
"""
    assert record(source, cwd=tmp_path).code == 0
    (job,) = recorded(tmp_path).jobs
    assert job.clock == "given"
    assert job.latency_ns >= 50_000_000
    assert job.handler_ns - job.arrival_ns >= 50_000_000


def test_outside_a_recording_a_job_costs_nothing_and_does_nothing(run_python) -> None:  # type: ignore[no-untyped-def]
    run_python("""
import greenlane.record
with greenlane.record.job("x") as number:
    assert number == greenlane.record.current() == 0
""")


@pytest.mark.parametrize(
    ("source", "code"), [("sys.exit(7)", 7), ("1 / 0", 1), ("import os; os.kill(os.getpid(), 9)", 137)]
)
def test_the_exit_code_is_the_commands_and_what_was_recorded_is_kept(tmp_path: Path, source: str, code: int) -> None:
    ended = record(f"work(); time.sleep(0.5); {source}", cwd=tmp_path)
    assert ended.code == code
    assert routes(recorded(tmp_path)) == {"work": 3}


def test_a_program_that_leaves_at_once_without_its_exit_hooks_loses_nothing(tmp_path: Path) -> None:
    assert record("work(); import os; os._exit(3)", cwd=tmp_path).code == 3
    assert routes(recorded(tmp_path)) == {"work": 3}


@pytest.mark.gate
def test_a_forked_child_is_a_process_of_its_own(tmp_path: Path) -> None:
    source = """
import os
work("parent")
child = os.fork()
if not child:
    work("child")
    os._exit(0)
os.waitpid(child, 0)
work("parent")
"""
    assert record(source, cwd=tmp_path).code == 0
    recording = recorded(tmp_path)
    assert routes(recording) == {"parent": 6, "child": 3}
    assert len(recording.processes) == 2
    processes = {route: {job.process for job in recording.jobs if job.route == route} for route in ("parent", "child")}
    assert len(processes["parent"]) == len(processes["child"]) == 1
    assert processes["parent"] != processes["child"]


@pytest.mark.gate
def test_a_child_forked_by_a_thread_while_others_work_is_recorded(tmp_path: Path) -> None:
    source = """
import os, threading
def fork():
    child = os.fork()
    if not child:
        work("child", 1)
        os._exit(0)
    os.waitpid(child, 0)
threads = [threading.Thread(target=work, args=("parent", 20)) for _ in range(3)]
threads += [threading.Thread(target=fork) for _ in range(4)]
for each in threads: each.start()
for each in threads: each.join()
"""
    assert record(source, cwd=tmp_path).code == 0
    assert routes(recorded(tmp_path)) == {"parent": 60, "child": 4}


@pytest.mark.gate
def test_programs_that_it_executes_and_starts_are_recorded(tmp_path: Path) -> None:
    inner = "import greenlane.record\\nwith greenlane.record.job('{}'): pass"
    source = f"""
import os, subprocess
work("first")
subprocess.run([sys.executable, "-c", "{inner.format("started")}"], check=True)
subprocess.run(["sh", "-c", "exec " + sys.executable + ' -c "' + "{inner.format("shell")}" + '"'], check=True)
os.execv(sys.executable, [sys.executable, "-c", "{inner.format("executed")}"])
"""
    assert record(source, cwd=tmp_path).code == 0
    recording = recorded(tmp_path)
    assert routes(recording) == {"first": 3, "started": 1, "shell": 1, "executed": 1}
    assert len(recording.processes) == 4


@pytest.mark.gate
def test_workers_of_multiprocessing_are_recorded(tmp_path: Path) -> None:
    (tmp_path / "pool.py").write_text("""
import multiprocessing, sys
import greenlane.record
def square(number):
    with greenlane.record.job("square"):
        return number * number
if __name__ == "__main__":
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        assert pool.map(square, range(6), chunksize=1)[5] == 25
        pool.close()
        pool.join()
""")
    for method in ("fork", "spawn"):
        ended = greenlane("record", "-o", f"{method}.glr", "--", sys.executable, "pool.py", method, cwd=tmp_path)
        assert ended.code == 0, ended.err
        assert routes(recorded(tmp_path, f"{method}.glr")) == {"square": 6}


@pytest.mark.parametrize("options", [(), ("--no-stacks",)])
def test_stacks_of_who_makes_others_wait_are_sampled_unless_it_is_told_not_to(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    source = """
import threading
def compute():
    with greenlane.record.job("compute"):
        until = time.monotonic() + 0.6
        while time.monotonic() < until: sum(range(1000))
threads = [threading.Thread(target=compute) for _ in range(3)]
for each in threads: each.start()
for each in threads: each.join()
"""
    assert record(source, *options, cwd=tmp_path).code == 0
    found = recorded(tmp_path).stacks
    assert bool(found) == (options == ())
    assert all("compute" in stack.stack for stack in found if stack.culprit == "compute")


# --- the program is as it was


def test_the_programs_own_customisations_run_first_and_nothing_of_ours_is_on_its_path(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("import sys\nsys.mine = 'site'\nsys.path.append('/appended')\n")
    (site / "usercustomize.py").write_text("import sys\nsys.mine += ' user'\n")  # venvs run none
    show = "import sitecustomize; print(sys.mine, sitecustomize.__file__, sys.path, len(sys.argv))"
    env = environment()
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(site), env.get("PYTHONPATH")]))
    bare = subprocess.run(
        [sys.executable, "-c", f"import sys; {show}"], env=env, capture_output=True, text=True, check=True
    )
    ended = record(f"work(); {show}", cwd=tmp_path, env=env)
    assert ended.out == bare.stdout
    assert ended.out.startswith("site ")
    assert f"{site}/sitecustomize.py" in ended.out
    assert routes(recorded(tmp_path)) == {"work": 3}


def test_a_customisation_that_fails_is_told_as_ever_and_the_program_is_recorded(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("raise RuntimeError('broken')\n")
    env = environment()
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(tmp_path), env.get("PYTHONPATH")]))
    ended = record("work()", cwd=tmp_path, env=env)
    assert ended.code == 0
    assert "RuntimeError: broken" in ended.err
    assert routes(recorded(tmp_path)) == {"work": 3}


def test_a_launcher_that_puts_a_customisation_before_ours_is_followed(tmp_path: Path) -> None:
    # As ddtrace-run and opentelemetry-instrument do; the latter's does not chain to others.
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("import sys\nsys.traced = True\n")
    source = f"""
import os
os.environ["PYTHONPATH"] = {str(site)!r} + os.pathsep + os.environ["PYTHONPATH"]
code = "import sys, greenlane.record\\nwith greenlane.record.job('traced'): print(sys.traced)"
os.execlp(sys.executable, sys.executable, "-c", code)
"""
    ended = record(source, cwd=tmp_path)
    assert (ended.code, ended.out) == (0, "True\n"), ended.err
    assert routes(recorded(tmp_path)) == {"traced": 1}


def test_a_server_that_is_imported_after_a_module_with_the_middleware_is_observed(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("""
from greenlane.hosts.wsgi import Greenlane

@Greenlane
def application(environ, start_response):
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]
""")
    (tmp_path / "main.py").write_text("""
import threading, urllib.request
from shop import application
from wsgiref.simple_server import make_server

with make_server("127.0.0.1", 0, application) as server:
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/order").read()
    thread.join()
""")
    ended = greenlane("record", "-o", "r.glr", "--", sys.executable, "main.py", cwd=tmp_path)
    assert ended.code == 0, ended.err
    assert routes(recorded(tmp_path)) == {"GET /order": 1}


def test_the_programs_input_and_output_are_its_own(tmp_path: Path) -> None:
    argv = [*GREENLANE, "record", "-o", "r.glr", "--", "cat"]
    done = subprocess.run(
        argv, input="abc", cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.stdout == "abc"


# --- not recorded


@pytest.mark.parametrize("flag", ["-S", "-I", "-E"])
def test_a_python_that_ignores_its_environment_is_said_not_to_be_recorded(tmp_path: Path, flag: str) -> None:
    ended = greenlane("record", "-o", "r.glr", "--", sys.executable, flag, "-c", "print(1)", cwd=tmp_path)
    assert (ended.code, ended.out) == (1, "1\n")
    assert "no process was recorded\nhint: " in ended.err
    assert "`-I`" in ended.err
    assert list(tmp_path.iterdir()) == []


def test_of_a_server_that_does_not_start_no_report_is_suggested(tmp_path: Path) -> None:
    gunicorn = (sys.executable, "-m", "gunicorn", "-b", f"unix:{tmp_path}/socket", "--no-control-socket", "absent:app")
    ended = greenlane("record", "-o", "r.glr", "--", *gunicorn, cwd=tmp_path)
    assert ended.code == 3
    assert "next: " not in ended.err
    assert ended.err.endswith("\nhint: see above why the command ended with 3; nothing was served\n")


def test_of_a_program_that_fails_unrecorded_its_failure_is_named_first(tmp_path: Path) -> None:
    source = "import sys; sys.exit(3)"
    ended = greenlane("record", "-o", "r.glr", "--", sys.executable, "-S", "-c", source, cwd=tmp_path)
    assert ended.code == 3
    assert "hint: see above why the command ended with 3. If it did serve: the command must run Python" in ended.err


def test_lines_of_progress_do_not_fill_a_log() -> None:
    def lines(*, terminal: bool) -> int:
        at_s, count = 4.0, 0
        while at_s < 86_400:
            at_s, count = at_s + silence_s(at_s, terminal=terminal), count + 1
        return count

    assert lines(terminal=False) == 15
    assert lines(terminal=True) == 1443


def test_a_program_that_is_no_python_keeps_its_exit_code(tmp_path: Path) -> None:
    assert greenlane("record", "-o", "r.glr", "--", "sh", "-c", "exit 5", cwd=tmp_path).code == 5
    assert greenlane("record", "-o", "r.glr", "--", "true", cwd=tmp_path).code == 1


@pytest.mark.skipif(not OTHER_PYTHON.exists(), reason=f"there is no {OTHER_PYTHON}")
def test_another_python_runs_unrecorded_and_it_is_said_once(tmp_path: Path) -> None:
    script = f"for i in 1 2 3; do {OTHER_PYTHON} -c 'print(1)'; done"
    ended = greenlane("record", "-o", "r.glr", "--", "sh", "-c", script, cwd=tmp_path)
    assert (ended.code, ended.out) == (1, "1\n1\n1\n")
    assert ended.err.count("is not recorded: this is Python 3.12") == 1
    assert "no process was recorded" in ended.err


def test_a_python_without_greenlane_of_the_same_version_is_recorded(tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=False)
    env = environment()
    env.pop("PYTHONPATH", None)
    source = "import sys, greenlane.record\nwith greenlane.record.job('there'): print(sys.prefix)"
    gl = (sys.executable, "-c", LOCAL, os.path.dirname(os.path.dirname(ours.__file__)))
    argv = [*gl, "record", "-o", "r.glr", "--", tmp_path / "venv" / "bin" / "python", "-c", source]
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"{tmp_path}/venv\n"), done.stderr
    assert routes(recorded(tmp_path)) == {"there": 1}


# --- wrong use


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ([], "required: COMMAND"),
        (["--"], "required: COMMAND"),
        (["--max-mb", "0", "--", "true"], "--max-mb='0', expected a number from 1 to 1000000"),
        (["--max-mb", "x", "--", "true"], "--max-mb='x', expected a number from 1 to 1000000"),
        (["--seconds", "0", "--", "true"], "expected a number from 0.1 to"),
        (["--seconds", "nan", "--", "true"], "expected a number from 0.1 to"),
        (["--", "no-such-command"], "COMMAND='no-such-command', expected a program that can be started"),
        (["--", "/"], "expected a program that can be started"),
        (["-o", "absent/r.glr", "--", "true"], "expected a file in a folder that can be written to (No such file"),
        (["-o", "/dev/null/r.glr", "--", "true"], "expected a file in a folder that can be written to (Not a dir"),
        (["--merge", "absent.glr"], "expected a folder with segments of a recording"),
        (["--merge"], "expected one FILE"),
    ],
)
def test_wrong_use_exits_2_with_a_hint_and_leaves_nothing(tmp_path: Path, argv: list[str], says: str) -> None:
    ended = greenlane("record", *argv, cwd=tmp_path)
    assert (ended.code, ended.out) == (2, "")
    assert says in ended.err
    assert "\nhint: " in ended.err
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_settings_file_is_said_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "greenlane.toml").write_text("record_max_mb = 0")
    ended = record("print('ran')", cwd=tmp_path)
    assert (ended.code, ended.out) == (2, "")
    assert "record_max_mb=0, expected" in ended.err


def test_an_existing_recording_is_written_over_only_by_force(tmp_path: Path) -> None:
    (tmp_path / "r.glr").write_text("precious")
    refused = record("work()", cwd=tmp_path)
    assert refused.code == 2
    assert "expected a recording that is not there yet\nhint: name another file with -o FILE, or --force" in refused.err
    assert (tmp_path / "r.glr").read_text() == "precious"
    assert record("work()", "--force", cwd=tmp_path).code == 0
    assert routes(recorded(tmp_path)) == {"work": 3}


def test_without_a_name_it_is_named_by_the_time(tmp_path: Path) -> None:
    assert greenlane("record", "--", sys.executable, "-c", "import http.server", cwd=tmp_path).code == 0
    (file,) = tmp_path.iterdir()
    assert file.name.startswith("greenlane-20")


# --- bounds


def test_the_recording_is_bounded_over_all_processes_and_keeps_the_end(tmp_path: Path) -> None:
    source = """
import os
children = []
for number in range(2):
    child = os.fork()
    if not child:
        work("early", 25_000, 0)
        time.sleep(0.5)
        work("late", 10, 0)
        os._exit(0)
    children.append(child)
for child in children:
    os.waitpid(child, 0)
"""
    assert record(source, "--max-mb", "1", cwd=tmp_path).code == 0
    assert (tmp_path / "r.glr").stat().st_size < 1_300_000
    found = routes(recorded(tmp_path))
    assert found["late"] == 20
    assert 0 < found["early"] < 50_000


def test_a_file_limit_loses_what_does_not_fit_and_not_the_program(tmp_path: Path) -> None:
    source = """
import resource
work("kept")
time.sleep(0.5)
resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
work("lost", 5_000, 0)
print("ran")
"""
    ended = record(source, cwd=tmp_path)
    assert (ended.code, ended.out) == (0, "ran\\n".replace("\\n", "\n"))
    assert routes(recorded(tmp_path))["kept"] == 3


@pytest.mark.parametrize("command", [("record", "--status"), ("record", "--off"), ("top", "--once")])
def test_a_recording_that_is_complete_says_how_it_is_read(tmp_path: Path, command: tuple[str, ...]) -> None:
    record("work()", cwd=tmp_path)
    ended = greenlane(*command, "r.glr", cwd=tmp_path)
    assert ended.code == 2
    assert "expected a recording that runs (this one is complete)\nhint: `greenlane report r.glr` reads it" in ended.err


def test_flags_behind_the_target_count(tmp_path: Path) -> None:
    wrong = greenlane("record", "--status", "r.glr", "--jsn", cwd=tmp_path)
    assert (wrong.code, "unrecognized arguments: --jsn" in wrong.err) == (2, True)
    json_behind = greenlane("record", "--status", "r.glr", "--json", cwd=tmp_path)
    assert "there is none of this name" in json_behind.err


def test_as_json_the_status_of_nothing_is_an_error(tmp_path: Path) -> None:
    ended = greenlane("record", "--status", "--json", cwd=tmp_path)
    assert ended.code == 2
    assert "expected one recording in this folder (there are 0)" in ended.err
    with pytest.raises(ValueError):
        json.loads(ended.out)
