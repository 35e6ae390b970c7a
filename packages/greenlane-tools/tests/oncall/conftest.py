"""Each situation is run and recorded once; several questions may be asked of it."""

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
            item.add_marker(pytest.mark.measured)  # of whom a wait is said: with neighbours it is theirs, too
            item.add_marker(pytest.mark.timeout(150))


@pytest.fixture(scope="session")
def known() -> dict[str, Evidence]:
    """What has been gathered so far."""
    return {}


@pytest.fixture
def ask(known: dict[str, Evidence], tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """What the recording of a situation says."""

    def evidence(name: str) -> Evidence:
        if name not in known:
            known[name] = gathered(name, tmp_path_factory.mktemp("oncall") / f"{name}.glr")
        return known[name]

    return evidence
