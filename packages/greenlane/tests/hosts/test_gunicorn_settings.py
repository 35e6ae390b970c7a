"""Every gunicorn setting keeps its meaning or is refused by name."""

from __future__ import annotations

import re

import pytest
from gunicorn import config

from tests.where import ROOT


def test_the_document_gives_every_setting_of_gunicorn_a_meaning() -> None:
    page = (ROOT / "docs" / "gunicorn.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| \S.* \|$", page.partition("## Every gunicorn setting")[2], re.MULTILINE)
    assert len(rows) == len(set(rows))
    assert {setting.name for setting in config.KNOWN_SETTINGS} == set(rows)


@pytest.mark.system
@pytest.mark.parametrize(
    ("arguments", "settings", "message"),
    [
        (["--threads", "5000"], {}, "threads=5000, expected 1 to 4096"),
        (["--worker-connections", "0"], {}, "worker_connections=0, expected at least 1"),
        ([], {"interval_ms": "never"}, "GREENLANE_INTERVAL_MS"),
        ([], {"learned_file": "/proc/version"}, "GREENLANE_LEARNED_FILE"),
        ([], {"control_dir": "/proc/version"}, "open the control socket"),
        (["--preload"], {"env": {"READ_GEVENT": "1"}}, "gevent.monkey has replaced this process's sockets"),
    ],
)
def test_what_cannot_hold_is_refused_by_name_with_exit_code_2(gunicorn_refused, arguments, settings, message) -> None:
    code, output = gunicorn_refused(*arguments, **settings)
    assert code == 2
    assert message in output
    assert "Traceback" not in output


@pytest.mark.system
def test_an_application_that_patches_the_worker_with_gevent_is_explained(gunicorn_refused) -> None:
    code, output = gunicorn_refused(env={"READ_GEVENT": "1"})
    assert code == 3  # gunicorn's, of a worker that does not boot
    assert "Traceback" not in output
    assert "gevent.monkey has replaced this process's sockets" in output
    assert "gunicorn -k greenlane.hosts.gunicorn.Worker" in output


@pytest.mark.system
def test_settings_that_are_wrong_only_in_the_worker_end_with_their_message(gunicorn_refused, tmp_path) -> None:
    hook = "import os\n\ndef post_fork(server, worker):\n    os.environ['GREENLANE_INTERVAL_MS'] = 'never'\n"
    (tmp_path / "hooks.py").write_text(hook)
    code, output = gunicorn_refused("-c", str(tmp_path / "hooks.py"))
    assert code == 3
    assert "interval_ms='never', expected a number from 0.05 to 100 (ms)\nhint: " in output
    assert "Traceback" not in output


@pytest.mark.system
@pytest.mark.parametrize("name", ["worker", "GreenletWorker"])
def test_another_name_in_the_package_is_no_type_error_of_gunicorn_s(gunicorn_refused, name) -> None:
    code, output = gunicorn_refused("-k", f"greenlane.hosts.gunicorn.{name}")
    assert code == 1
    assert f"worker_class='greenlane.hosts.gunicorn.{name}', expected greenlane.hosts.gunicorn.Worker\n" in output
    assert "Traceback" not in output
