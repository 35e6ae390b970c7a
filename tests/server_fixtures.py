"""One server a session, for every test: `redis_url`, `postgres`, `rabbitmq_url`, `ray_address`, `browser`, `jaeger`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

# Loaded where one is asked for: the guest's own tests run without what the others need.
if TYPE_CHECKING:
    from tests.servers import Browser, Jaeger


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """URL of a Redis of this session."""
    from tests.servers import Redis

    with Redis() as server:
        yield server.url


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """URL of a database in a PostgreSQL of this session."""
    from tests.servers import Postgres

    with Postgres() as server:
        yield server.url


@pytest.fixture(scope="session")
def rabbitmq_url() -> Iterator[str]:
    """URL of a RabbitMQ of this session."""
    from tests.servers import RabbitMQ

    with RabbitMQ() as server:
        yield server.url


@pytest.fixture(scope="session")
def ray_address() -> Iterator[str]:
    """Address of a Ray of this session, whose token is in the environment meanwhile."""
    from tests.servers import Ray

    with Ray() as server, pytest.MonkeyPatch.context() as patched:
        for name, value in server.environment.items():
            patched.setenv(name, value)
        yield server.address


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless Chromium of this session."""
    from tests.servers import Browser

    with Browser() as started:
        yield started


@pytest.fixture(scope="session")
def jaeger() -> Iterator[Jaeger]:
    """A Jaeger of this session."""
    from tests.servers import Jaeger

    with Jaeger() as server:
        yield server
