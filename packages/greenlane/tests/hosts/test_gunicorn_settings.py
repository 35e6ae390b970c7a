"""Every gunicorn setting keeps its meaning or is refused by name."""

from __future__ import annotations

import pytest
from gunicorn import config

from greenlane.hosts.gunicorn_settings import MEANING
from tests.where import ROOT


def test_every_setting_of_gunicorn_has_a_meaning() -> None:
    assert {setting.name for setting in config.KNOWN_SETTINGS} == set(MEANING)


def test_the_document_says_the_same() -> None:
    page = (ROOT / "docs" / "gunicorn.md").read_text(encoding="utf-8")
    missing = [name for name, meaning in MEANING.items() if f"| `{name}` | {meaning} |" not in page]
    assert not missing, f"docs/gunicorn.md lacks the rows of {missing}"


@pytest.mark.system
@pytest.mark.parametrize(
    ("arguments", "settings", "message"),
    [
        (["--threads", "5000"], {}, "threads=5000, expected 1 to 4096"),
        (["--worker-connections", "0"], {}, "worker_connections=0, expected at least 1"),
        ([], {"interval_ms": "never"}, "GREENLANE_INTERVAL_MS"),
        ([], {"learned_file": "/proc/version"}, "use the learned file"),
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
    assert code != 0
    assert "gevent.monkey has replaced this process's sockets" in output
    assert "gunicorn -k greenlane.hosts.gunicorn.Worker" in output
