"""Real servers from Debian's packages, and a browser, for tests: each of its own, on loopback, gone after its block.

    with Redis() as redis:
        client = Client.from_url(redis.url)

- `Redis`, `Postgres`, `RabbitMQ`, `Ray` — what services call
- `HAProxy`, `Nginx` — fronts, with your configuration
- `Jaeger` — where traces go; built from source where GREENLANE_JAEGER says so, else skipped
- `Browser`, `Page` — headless Chromium: a page's picture, its DOM and what it complained about

A server has a temporary folder and free ports below 32768, and is ended by process id. It dies with the thread that
started it, whatever ends that (`tests.child`). One that is not installed skips the test and says how to get it.
"""

from tests.servers.browser import Browser, Page
from tests.servers.haproxy import HAProxy
from tests.servers.jaeger import Jaeger
from tests.servers.nginx import Nginx
from tests.servers.ray import Ray
from tests.servers.server import Server
from tests.servers.stores import Postgres, RabbitMQ, Redis

__all__ = [
    "Server",
    # what services call
    "Redis",
    "Postgres",
    "RabbitMQ",
    "Ray",
    # fronts
    "HAProxy",
    "Nginx",
    # where traces go
    "Jaeger",
    # looking at pages
    "Browser",
    "Page",
]
