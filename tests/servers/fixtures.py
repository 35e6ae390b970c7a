"""One server a session, for every test: `redis_url`, `postgres`, `rabbitmq_url`, `browser`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers import Browser, Postgres, RabbitMQ, Redis

__all__ = ["browser", "postgres", "rabbitmq_url", "redis_url"]


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
def browser() -> Iterator[Browser]:
    """A headless Chromium of this session."""
    with Browser() as started:
        yield started
