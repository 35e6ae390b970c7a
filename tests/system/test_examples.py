"""What README says to begin with: each example, started by the command in README.

`make examples` sets `EXAMPLES_BIN`: programs of another environment, with installed wheels.
"""

import os
import re
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from tests.child import Child, free_port
from tests.where import ROOT

BIN = Path(os.environ.get("EXAMPLES_BIN") or Path(sys.executable).parent)
COMMANDS = re.findall(r"^cd examples && (.*)$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)


def started(word: str, *options: str, **environ: str) -> Child:
    """The command of README that names this, with more options in front."""
    (command,) = [each for each in COMMANDS if word in each]
    program, *arguments = command.split()
    return Child([BIN / program, *options, *arguments], cwd=ROOT / "examples", env=environ)


def answer(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as reply:
        return reply.read().decode()


SUM = str(sum(n * n % 97 for n in range(1_000_000)))


@pytest.mark.parametrize(
    ("word", "option", "path", "expected"),
    [
        ("flask_app", "--bind", "/heavy", SUM),
        ("flask_app", "--bind", "/quick", "here"),
        ("django_app", "--bind", "/heavy", SUM),
        ("fastapi_app", "--port", "/price/1000000", f'{{"cents":{SUM}}}'),
    ],
)
def test_a_server_of_the_readme_answers(word: str, option: str, path: str, expected: str) -> None:
    port = free_port()
    with started(word, option, f"127.0.0.1:{port}" if option == "--bind" else str(port)) as child:
        child.wait_port(port)
        assert answer(port, path).strip() == expected


def test_the_celery_worker_of_the_readme_does_an_order(redis_url: str) -> None:
    with started("celery_app", BROKER_URL=redis_url) as child:
        child.wait_output("ready", timeout_s=40)
        code = "import celery_app; print(celery_app.send.delay('7', merchant='m').get(timeout=30))"
        with Child([BIN / "python", "-c", code], cwd=ROOT / "examples", env={"BROKER_URL": redis_url}) as client:
            client.wait_output("7 went to m", timeout_s=40)


def test_a_slow_flask_application_is_diagnosed_by_the_two_commands(tmp_path: Path) -> None:
    recording, port = tmp_path / "shop.glr", free_port()
    gunicorn = [BIN / "gunicorn", "--bind", f"127.0.0.1:{port}", "-k", "gthread", "--threads", "8", "flask_app:app"]
    with Child([BIN / "greenlane", "record", "-o", recording, "--", *gunicorn], cwd=ROOT / "examples") as child:
        child.wait_port(port)
        heavy = [Child([sys.executable, "-c", _ASKS.format(port=port, path="/heavy", times=10)]) for _ in range(4)]
        for _ in range(25):
            answer(port, "/quick")
            time.sleep(0.02)
        for each in heavy:
            each.wait_exit(timeout_s=60)
            each.end()
        child.end(grace_s=30)
    with Child([BIN / "greenlane", "report", recording, "--route", "GET /quick"]) as report:
        report.wait_exit(timeout_s=60)
        assert "GET /heavy" in report.output and "GIL" in report.output, report.output


_ASKS = """
import urllib.request
for _ in range({times}):
    urllib.request.urlopen("http://127.0.0.1:{port}{path}", timeout=60).read()
"""
