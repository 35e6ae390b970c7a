"""Settings that lose orders are refused by name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from kombu import Queue

from greenlane.errors import HostError
from greenlane_work.worker.unsafe_settings import check

CONFIRMS = {"confirm_publish": True}


def app(url: str = "amqp://", **settings: Any) -> Celery:
    made = Celery("refusals", broker=url, set_as_current=False)
    options = CONFIRMS if url.startswith("amqp") else {}
    made.conf.update({"task_acks_late": True, "broker_transport_options": options} | settings)

    @made.task(name="refusals.send", shared=False)
    def send() -> None:
        """Nothing."""

    return made


@pytest.mark.parametrize(
    ("made", "name", "allowed"),
    [
        (lambda: app(task_acks_late=False), "task_acks_late", "early-ack"),
        (lambda: app(broker_transport_options={}), "confirm_publish", "no-confirms"),
        (lambda: app(task_default_delivery_mode="transient"), "task_default_delivery_mode", "transient"),
        (lambda: app(task_queues=[Queue("q", no_ack=True)]), "queue q: no_ack", "early-ack"),
        (lambda: app(task_queues=[Queue("q", durable=False)]), "queue q: durable", "transient"),
        (lambda: app(task_queues=[Queue("q", auto_delete=True)]), "queue q: auto_delete", "transient"),
        (lambda: app("memory://"), "broker_url", "broker"),
    ],
)
def test_what_loses_orders_is_refused_unless_allowed(made: Any, name: str, allowed: str) -> None:
    with pytest.raises(HostError, match="start the worker: ") as refused:
        check(made(), (), longest_s=10)
    assert name in refused.value.name
    assert refused.value.hint
    assert refused.value.exit_code == 2
    check(made(), (allowed,), longest_s=10)


def test_a_task_that_acknowledges_early_for_itself_is_refused_by_its_name() -> None:
    made = app()

    @made.task(name="refusals.quick", acks_late=False, shared=False)
    def quick() -> None:
        """Nothing."""

    with pytest.raises(HostError) as refused:
        check(made, (), longest_s=10)
    assert refused.value.name == "refusals.quick.acks_late"


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (lambda: app("redis://"), "broker_transport_options['visibility_timeout']"),
        (
            lambda: app(worker_cancel_long_running_tasks_on_connection_loss=True),
            "worker_cancel_long_running_tasks_on_connection_loss",
        ),
    ],
)
def test_what_repeats_orders_is_refused_whatever_is_allowed(made: Any, name: str) -> None:
    with pytest.raises(HostError) as refused:
        check(made(), ("early-ack", "no-confirms", "transient", "broker"), longest_s=4000)
    assert refused.value.name == name


def test_a_safe_app_is_not_refused() -> None:
    check(app(), (), longest_s=4000)
    check(app("redis://", broker_transport_options={"visibility_timeout": 5000}), (), longest_s=4000)


@pytest.mark.parametrize(
    ("arguments", "refused"),
    [
        ({"x-delivery-limit": 5}, True),
        ({"x-delivery-limit": 16}, True),
        ({"x-delivery-limit": 17}, False),
        ({"x-delivery-limit": -1}, False),
        ({"x-delivery-limit": 5, "x-dead-letter-exchange": "dead"}, False),
        ({}, False),
    ],
)
def test_a_queue_that_drops_what_the_worker_would_keep_is_refused(arguments: dict[str, Any], refused: bool) -> None:
    made = app(task_queues=[Queue("q", queue_arguments={"x-queue-type": "quorum"} | arguments)])
    try:
        check(made, (), longest_s=10, deliveries=16)
    except HostError as error:
        assert (refused, error.name, error.value) == (True, "queue q: x-delivery-limit", arguments["x-delivery-limit"])
    else:
        assert not refused


@pytest.mark.system
@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "changes", "message"),
    [
        ([], {"GREENLANE_INTERVAL_MS": "never"}, "interval_ms='never', expected a number from 0.05 to 100 (ms)"),
        ([], {}, "broker_url='memory://"),
        (["--autoscale", "3,1"], {"GREENLANE_TASK_ALLOW": "broker"}, "autoscale='3,1', expected a fixed number"),
    ],
)
def test_celery_s_own_command_ends_with_the_message_alone(
    tmp_path: Path, options: list[str], changes: dict[str, str], message: str
) -> None:
    (tmp_path / "refused.py").write_text("from celery import Celery\n\napp = Celery('refused', broker='memory://')\n")
    command = [sys.executable, "-m", "celery", "-A", "refused", "worker", "-P", "custom", *options]
    environment = os.environ | {"CELERY_CUSTOM_WORKER_POOL": "greenlane_work.celery:Pool"} | changes
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert message in done.stderr and "\nhint: " in done.stderr
    assert "Traceback" not in done.stderr
