"""One service for all tests of what goes over the wire, for each kind of worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.serve.served import Served
from tests.serve.wire import KINDS, SETTINGS


@pytest.fixture(scope="package", params=KINDS)
def wired(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    kind = request.param
    with Served(tmp_path_factory.mktemp("wired"), f"seen:{kind}", SETTINGS, "--kind", kind) as served:
        yield served
