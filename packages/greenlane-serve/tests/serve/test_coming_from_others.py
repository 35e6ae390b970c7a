"""Names of gunicorn's and uvicorn's settings: ours, or refused with what to use."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from greenlane.cli.main import main
from greenlane.errors import SettingsError
from greenlane.settings import load, settings_of
from greenlane.settings.refusal import SERVERS
from greenlane_serve.settings import ServeSettings
from tests.where import ROOT

# No setting: the CGI variable, systemd's, and one of our flags.
OTHERS = {"script_name", "listen_fds", "reload"}


def table() -> list[tuple[list[str], str]]:
    """(their names, what stands beside them) of each line of docs/serve.md."""
    page = (ROOT / "docs/serve.md").read_text("utf-8").partition("| gunicorn | uvicorn | here |")[2]
    rows = [line.strip("|").split("|") for line in page.partition("\n\n")[0].splitlines()[2:]]
    return [(re.findall(r"`-{0,2}([a-zA-Z0-9_-]+)`", one + two), here) for one, two, here in rows]


@pytest.mark.parametrize(("names", "here"), table(), ids=lambda one: one[0] if isinstance(one, list) else "")
def test_each_name_of_the_table_is_ours_or_refused_with_what_to_use(
    names: list[str], here: str, tmp_path: Path
) -> None:
    declared = settings_of(ServeSettings)
    for name in names:
        word = name.lower().replace("-", "_")
        if word in declared or word in OTHERS:
            assert f"`{word}`" in here or word in OTHERS
            continue
        file = tmp_path / "greenlane.toml"
        file.write_text(f"{word} = 1\n")
        with pytest.raises(SettingsError) as refused:
            load(environ={}, file=file, kind=ServeSettings)
        assert refused.value.hint == SERVERS[word]
        ours = set(re.findall(r"`([a-z_:()]+)`", SERVERS[word]))
        assert not ours or ours & set(re.findall(r"`([a-z_:()]+)`", here)) or "none" in here


def test_flags_and_variables_are_refused_likewise(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["serve", "shop:app", "--preload"])
    assert ended.value.code == 2
    assert "each worker loads the application" in capsys.readouterr().err
    with pytest.raises(SettingsError, match="set `stop_s`"):
        load(environ={"GREENLANE_TIMEOUT_GRACEFUL_SHUTDOWN": "5"}, kind=ServeSettings)
    with pytest.raises(SystemExit):
        main(["serve", "shop:app", "--worker"])
    assert "did you mean '--workers'?" in capsys.readouterr().err
