"""What is said where no broker is, or where it does not answer."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from greenlane.errors import PlatformError
from greenlane_tools.lab.processes import free_port
from pos.backend.publisher import NotTaken, Publisher
from pos.broker import RabbitMQ
from pos.surroundings import Surroundings


def test_a_machine_without_rabbitmq_is_told_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pos.broker.DEBIAN", tmp_path)
    monkeypatch.setattr("shutil.which", lambda program, path: None)
    with pytest.raises(PlatformError, match="start RabbitMQ: rabbitmq-server=None") as refused:
        RabbitMQ(tmp_path).start()
    assert "hint: apt-get install rabbitmq-server" in str(refused.value) and refused.value.exit_code == 2


@pytest.mark.slow
def test_a_broker_that_is_not_there_has_not_taken_the_order(tmp_path: Path) -> None:
    url = f"amqp://guest:guest@127.0.0.1:{free_port()}//"
    publisher = Publisher(Surroundings(url, {"taco": "http://127.0.0.1:1"}, journal=str(tmp_path / "journal")))
    with pytest.raises(NotTaken, match="refused"):
        asyncio.run(publisher.publish("a", "taco"))
    publisher.close()
    assert (tmp_path / "journal").read_bytes() == b""
