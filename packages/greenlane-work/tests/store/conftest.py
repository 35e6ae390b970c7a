"""The stores' fixtures."""

from tests.store.places import durable_redis, place

__all__ = ["durable_redis", "place"]
