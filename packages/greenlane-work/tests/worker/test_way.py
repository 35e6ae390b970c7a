"""CONTRIBUTING tells an order's way through the worker in ten lines; an order that is followed takes it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from celery import Celery
from celery.worker.request import Request

import greenlane_work.worker
from greenlane._native import Upstreams
from greenlane_work.limits import UpstreamRule
from greenlane_work.order import Ended
from greenlane_work.settings import WorkSettings
from greenlane_work.worker.flow import OrderFlow
from greenlane_work.worker.jobs import RecordedJobs
from greenlane_work.worker.threads import ThreadOwner, ThreadRunner
from tests.where import ROOT

FOLDER = Path(greenlane_work.worker.__file__).parent
HEADING = "### An order's way through the Celery worker\n"


def told() -> list[tuple[str, str]]:
    """Files and functions of the ten lines."""
    section = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition(HEADING)[2].partition("\n##")[0]
    lines = re.findall(r"^\d+\. (.*)$", section, re.MULTILINE)
    assert len(lines) == 10
    return [pair for line in lines for pair in re.findall(r"`([\w./]+\.py)` `([\w.]+)`", line)]


class Followed:
    """What was called of the worker's folder, in the order of the first calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    def frame(self, frame: FrameType) -> None:
        file = Path(frame.f_code.co_filename)
        call = (file.name, frame.f_code.co_qualname)
        if file.parent == FOLDER and call not in self.calls:
            self.calls.append(call)

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            self.frame(frame)

    def stack(self) -> None:
        """Of a thread that nobody follows."""
        frame: FrameType | None = sys._getframe(1)
        frames = []
        while frame is not None:
            frames.append(frame)
            frame = frame.f_back
        for each in reversed(frames):
            self.frame(each)


@pytest.fixture
def app() -> Iterator[Celery]:
    made = Celery("way", broker="memory://", backend="cache+memory://", set_as_current=False)
    made.conf.task_acks_late = True
    yield made
    made.close()


def test_an_order_takes_the_way_that_the_ten_lines_tell(app: Celery) -> None:
    followed = Followed()

    @app.task(name="send", shared=False, lazy=False)  # type: ignore[untyped-decorator]
    def send(_name: str) -> None:
        followed.stack()

    settings, owner = WorkSettings(), ThreadOwner()
    flow = OrderFlow(
        settings, owner, key_of=None, orders_of={}, upstreams=Upstreams(2, UpstreamRule()),
        make_runner=lambda serve: ThreadRunner(2, serve), jobs=RecordedJobs(settings),
    )  # fmt: skip
    task: Any = send
    flow.execution.wrap(task)
    task.apply_async(("o",))
    with app.connection_for_read() as connection:
        message: Any = connection.SimpleQueue("celery").get(timeout=5)
        request = Request(message, app=app, task=task, headers=message.headers, hostname="way@here")
        before = sys.getprofile()
        sys.setprofile(followed)
        try:
            assert flow.receive(request)
            order = flow.taken
            assert order is not None
            while flow.parked.running:
                owner.wait(20)
            assert isinstance(order.state, Ended)
        finally:
            sys.setprofile(before)
        assert message.acknowledged
    flow.close()
    ways = told()
    assert len(ways) >= 12
    assert [call for call in followed.calls if call in ways] == ways
