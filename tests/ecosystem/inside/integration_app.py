"""The worker's application for Celery's own integration suite: what its conftest.py tells the worker in its process."""

from __future__ import annotations

import os

from celery import Celery

app = Celery("integration")
app.conf.update(
    broker_url=os.environ["TEST_BROKER"],
    result_backend=os.environ["TEST_BACKEND"],
    result_extended=True,
    task_create_missing_queues=False,
    worker_hijack_root_logger=False,
    accept_content={"json"},
    enable_utc=True,
    timezone="UTC",
)
app.set_default()
app.loader.import_task_module("t.integration.tasks")

from t.integration.tasks import ClassBasedAutoRetryTask  # noqa: E402

app.register_task(ClassBasedAutoRetryTask())
