"""The shop as the article has it: green threads for Celery's own gevent pool, and for ours."""

from gevent import monkey

monkey.patch_all(httplib=False)

from tests.worker.shop import app  # noqa: E402

__all__ = ["app"]
