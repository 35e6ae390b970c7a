"""`greenlane dead-letters`, on a real RabbitMQ and a real Redis."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

import kombu
import pytest

from greenlane_work.headers import ATTEMPTS, DEAD, HISTORY, ORDER, Death, Tried

pytestmark = [pytest.mark.slow, pytest.mark.system]
Run = Callable[..., Any]


class Broker:
    """A broker with a queue of orders and one of dead letters."""

    def __init__(self, url: str, connection: kombu.Connection) -> None:
        self.url = url
        self.queue = f"orders-{uuid.uuid4().hex[:8]}"
        self._connection = connection
        quorum = {"x-queue-type": "quorum"} if url.startswith("amqp") else {}
        kombu.Queue(self.queue)(connection).declare()
        kombu.Queue(f"{self.queue}.dead", queue_arguments=quorum)(connection).queue_declare()

    def bury(self, order: str, reason: str) -> None:
        tried = (Tried(3, "unknown", "late"),)
        death = Death(reason, f"of {reason}", self.queue, 1_700_000_000.0, order, "send", tried)
        headers = {ORDER: order, ATTEMPTS: 3, "task": "send", "other": "stays", **death.headers()}
        producer = self._connection.Producer()
        producer.publish({"of": order}, routing_key=f"{self.queue}.dead", headers=headers, correlation_id=order)

    def drop(self) -> None:
        """Delete the queue of the orders."""
        with self._connection.channel() as channel:
            channel.queue_delete(self.queue)

    def taken(self, name: str) -> list[Any]:
        """All messages of a queue, taken away."""
        with self._connection.channel() as channel:
            queue, found = kombu.Queue(name, channel=channel), []
            while (message := queue.get()) is not None:
                message.ack()
                found.append(message)
            return found


@pytest.fixture(params=["rabbitmq_url", "redis_url"])
def broker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    url = request.getfixturevalue(request.param)
    monkeypatch.setenv("BROKER_URL", url)
    with kombu.Connection(url) as connection:
        yield Broker(url, connection)


def test_letters_are_shown_with_reason_and_history_and_stay(broker: Broker, run_cli: Run) -> None:
    for order in ("a", "b"):
        broker.bury(order, "attempts")
    for _ in range(2):
        said = run_cli("dead-letters", broker.queue, "--json")
        rows = json.loads(said.out)["rows"]
        assert sorted((row["order"], row["reason"], row["attempts"]) for row in rows) == [
            ("a", "attempts", 3),
            ("b", "attempts", 3),
        ]
        assert rows[0]["history"][0]["reason"] == "late"
    table = run_cli("dead-letters", broker.queue, "--order", "b").out.splitlines()
    assert [line.split()[0] for line in table] == ["order", "b"]


@pytest.mark.gate
def test_chosen_letters_are_sent_again_as_they_were_and_the_others_stay(broker: Broker, run_cli: Run) -> None:
    for order, reason in (("a", "attempts"), ("b", "deadline"), ("c", "attempts")):
        broker.bury(order, reason)
    said = run_cli("dead-letters", broker.queue, "--send-again", "--reason", "attempts")
    assert (said.code, said.err) == (0, "sent again: 2\n")
    sent = sorted(broker.taken(broker.queue), key=lambda message: message.headers[ORDER])
    assert [message.payload for message in sent] == [{"of": "a"}, {"of": "c"}]
    assert [message.properties["correlation_id"] for message in sent] == ["a", "c"]
    assert sent[0].headers["other"] == "stays"
    assert HISTORY in sent[0].headers and not {DEAD, ATTEMPTS} & sent[0].headers.keys()
    assert [message.headers[ORDER] for message in broker.taken(f"{broker.queue}.dead")] == ["b"]


def test_all_letters_are_sent_again(broker: Broker, run_cli: Run) -> None:
    for number in range(30):
        broker.bury(str(number), "attempts")
    run_cli("dead-letters", broker.queue, "--send-again", "--all")
    assert sorted(int(message.headers[ORDER]) for message in broker.taken(broker.queue)) == list(range(30))
    assert not broker.taken(f"{broker.queue}.dead")


def test_an_order_that_is_not_there_is_said_so(broker: Broker, run_cli: Run) -> None:
    broker.bury("a", "attempts")
    said = run_cli("dead-letters", broker.queue, "--send-again", "--order", "a", "--order", "z")
    assert (said.code, said.err) == (
        1,
        "sent again: 1\ngreenlane: no dead letter of the orders z among the 1000 oldest\n",
    )


def test_wrong_usage_says_what_is_wrong(broker: Broker, run_cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for argv, says in (
        ((broker.queue, "--send-again"), "--send-again needs either --all"),
        ((broker.queue, "--all"), "--all goes with --send-again"),
        (
            (broker.queue, "--broker", "amqp://me:secret@127.0.0.1:1//"),
            "--broker='amqp://me@127.0.0.1:1//', expected a URL without its password",
        ),
    ):
        said = run_cli("dead-letters", *argv)
        assert said.code == 2
        assert says in said.err and "secret" not in said.err
    monkeypatch.setenv("BROKER_URL", "amqp://me:sec/ret@127.0.0.1:1//")
    said = run_cli("dead-letters", broker.queue)
    assert said.code == 2
    assert "broker='amqp://me@127.0.0.1:1//', expected a broker that answers (it cannot be read)" in said.err
    assert "'sec'" not in said.err
    monkeypatch.setenv("BROKER_URL", broker.url)
    if broker.url.startswith("amqp"):
        said = run_cli("dead-letters", "absent")
        assert said.code == 2
        assert "find a queue: queue='absent', expected a queue that is there" in said.err


def test_a_queue_of_which_nothing_has_died_has_no_letters(broker: Broker, run_cli: Run) -> None:
    said = run_cli("dead-letters", f"{broker.queue}.dead")
    assert (said.code, said.out, said.err) == (0, "", "no dead letters\n")


def test_a_letter_whose_queue_is_gone_stays(broker: Broker, run_cli: Run) -> None:
    if not broker.url.startswith("amqp"):
        pytest.skip("Redis knows of no queue that is empty")
    broker.bury("a", "attempts")
    broker.drop()
    said = run_cli("dead-letters", broker.queue, "--send-again", "--all")
    assert said.code == 2
    assert f"find a queue: queue='{broker.queue}', expected a queue that is there" in said.err
    assert [message.headers[ORDER] for message in broker.taken(f"{broker.queue}.dead")] == ["a"]
