"""One server a session, for every test: `redis_url`, `postgres`, `rabbitmq_url`, `ray_address`, `browser`, `jaeger`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers import Browser, Jaeger, Postgres, RabbitMQ, Ray, Redis

__all__ = ["browser", "jaeger", "postgres", "rabbitmq_url", "ray_address", "redis_url"]


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """URL of a Redis of this session."""
    with Redis() as server:
        yield server.url


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """URL of a database in a PostgreSQL of this session."""
    with Postgres() as server:
        yield server.url


@pytest.fixture(scope="session")
def rabbitmq_url() -> Iterator[str]:
    """URL of a RabbitMQ of this session."""
    with RabbitMQ() as server:
        yield server.url


@pytest.fixture(scope="session")
def ray_address() -> Iterator[str]:
    """Address of a Ray of this session, whose token is in the environment meanwhile."""
    with Ray() as server, pytest.MonkeyPatch.context() as patched:
        for name, value in server.environment.items():
            patched.setenv(name, value)
        yield server.address


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless Chromium of this session."""
    with Browser() as started:
        yield started


@pytest.fixture(scope="session")
def jaeger() -> Iterator[Jaeger]:
    """A Jaeger of this session."""
    with Jaeger() as server:
        yield server
