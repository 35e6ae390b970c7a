"""A command line is taken apart without running it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from greenlane.errors import SettingsError
from greenlane_tools.lab.doctor.command import parse

BIN = str(Path(sys.executable).parent)


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    """A folder of PATH with scripts as pip writes them."""
    texts = {
        "gunicorn": f"#!{sys.executable}\n",
        "uvicorn": "#!/bin/sh\n'''exec' \"/a path/bin/python\" \"$0\" \"$@\"\n' '''\n",
        "granian": "#!/bin/sh\necho no\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    return tmp_path


def test_a_script_names_its_interpreter(scripts: Path):
    found = parse(["gunicorn", "-w", "4", "shop:app"], str(scripts))
    assert (found.server, found.python, found.arguments) == ("gunicorn", sys.executable, ("-w", "4", "shop:app"))


def test_a_script_with_a_long_interpreter_names_it_in_its_second_line(scripts: Path):
    assert parse([str(scripts / "uvicorn"), "shop:app"]).python == "/a path/bin/python"


@pytest.mark.parametrize("module", ["gunicorn", "gunicorn.app.wsgiapp"])
def test_a_module_is_run_by_the_interpreter_in_front_of_it(module: str):
    found = parse([sys.executable, "-X", "dev", "-u", "-m", module, "shop:app"])
    assert (found.server, found.python, found.arguments) == ("gunicorn", sys.executable, ("shop:app",))


def test_assignments_are_the_commands_environment_and_one_word_is_split(scripts: Path):
    found = parse([f"exec env A=1 GUNICORN_CMD_ARGS='-w 2' {scripts}/gunicorn shop:app"])
    assert found.env == {"A": "1", "GUNICORN_CMD_ARGS": "-w 2"}
    assert found.server == "gunicorn"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["hypercorn-that-is-not-there"], "a program that can be run"),
        ([sys.executable, "shop.py"], "one that starts gunicorn, uvicorn, granian"),
        ([sys.executable, "-m", "http.server"], "one that starts gunicorn, uvicorn, granian"),
        (["A=1"], "one that starts gunicorn, uvicorn, granian"),
    ],
)
def test_what_starts_no_known_server_is_refused(words: list[str], said: str):
    with pytest.raises(SettingsError, match=said) as caught:
        parse(words)
    assert caught.value.hint


def test_a_script_that_is_no_python_is_refused(scripts: Path):
    with pytest.raises(SettingsError, match="a Python script"):
        parse(["granian", "shop:app"], str(scripts))
