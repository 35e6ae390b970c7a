"""What an extra installs, and what a command says without it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from email.message import Message
from typing import Any

import pytest

from greenlane import __version__
from greenlane.cli import extra
from greenlane.errors import PlatformError
from tests.where import ROOT

PROJECTS: Mapping[str, Any] = {
    path.parent.name: tomllib.loads(path.read_text("utf-8"))["project"]
    for path in ROOT.glob("packages/*/pyproject.toml")
}


def installed_by(wanted: str) -> set[str]:
    """Names of all distributions that `pip install wanted` asks for: for our own with what those ask for in turn."""
    name, extras = re.match(r"([\w-]+)(?:\[([\w,-]+)\])?", wanted).groups()  # type: ignore[union-attr]
    if name not in PROJECTS:
        return {name}
    asked: Sequence[str] = [
        *PROJECTS[name]["dependencies"],
        *(each for one in (extras or "").split(",") if one for each in PROJECTS[name]["optional-dependencies"][one]),
    ]
    return {name}.union(*map(installed_by, asked))


def test_the_diagnosis_installs_no_package_but_ours() -> None:
    assert installed_by("greenlane[tools]") == {"greenlane", "greenlane-tools", "greenlane-serve"}


@pytest.mark.parametrize(
    ("wanted", "packages"),
    [
        ("greenlane", {"greenlane"}),
        ("greenlane[serve]", {"gunicorn", "uvicorn", "httptools", "watchfiles", "pyyaml"}),
        ("greenlane[lab]", {"numpy", "gunicorn", "uvicorn", "flask"}),
        ("greenlane[demo]", {"numpy", "gunicorn", "flask", "gevent"}),
    ],
)
def test_what_starts_servers_installs_them(wanted: str, packages: set[str]) -> None:
    assert packages <= installed_by(wanted)


@pytest.mark.parametrize("is_release", [True, False])
def test_a_hint_takes_our_packages_from_the_index_only_in_a_release(
    is_release: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Message()
    if is_release:
        found["Project-URL"] = "Source, https://forge.example/somebody/greenlane"
    monkeypatch.setattr(extra, "metadata", lambda name: found)
    wheels = "" if is_release else "--find-links dist "
    assert extra.install("tools") == f"pip install {wheels}'greenlane[tools]=={__version__}'"
    with pytest.raises(PlatformError, match=re.escape(extra.install("lab"))), extra.needed("lab", "run a scenario"):
        raise ModuleNotFoundError(name="numpy")


def test_no_other_hint_names_a_package_of_ours() -> None:
    sources = [path for path in ROOT.glob("packages/*/src/**/*.py") if path.name != "extra.py"]
    wrong = [
        f"{path}: {line}"
        for path in sources
        for line in re.findall(r".*pip install[^\n]*'greenlane.*", path.read_text())
    ]
    assert not wrong
