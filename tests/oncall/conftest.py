"""Each situation is run and recorded once a session; several questions may be asked of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.oncall.evidence import Evidence, gathered

Ask = Callable[[str], Evidence]
_FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _FOLDER in item.path.parents:
            item.add_marker(pytest.mark.system)
            item.add_marker(pytest.mark.timeout(150, method="thread"))


@pytest.fixture(scope="session")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """What the recording of a situation says."""
    known: dict[str, Evidence] = {}

    def evidence(name: str) -> Evidence:
        if name not in known:
            known[name] = gathered(name, tmp_path_factory.mktemp("oncall") / f"{name}.glr")
        return known[name]

    return evidence
