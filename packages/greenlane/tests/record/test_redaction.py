"""Secrets of a command line are not in its recording."""

from __future__ import annotations

import pytest

from greenlane.record.redaction import redact


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("--password=hunter2", "--password=***"),
        ("--db-passwd=x y", "--db-passwd=*** y"),
        ("API_KEY=abc", "API_KEY=***"),
        ("postgresql://shop:pw@db:5432/shop", "postgresql://***@db:5432/shop"),
        ("redis://:pw@cache/0", "redis://***@cache/0"),
        ("https://hook.example/x?token=abc&n=2", "https://hook.example/x?token=***&n=2"),
        ("amqp://broker:5672//", "amqp://broker:5672//"),
        ("--workers=4", "--workers=4"),
        ("--keep-alive=5", "--keep-alive=5"),
        ("shop.app:application", "shop.app:application"),
    ],
)
def test_a_words_secret_is_hidden_and_nothing_else(word: str, said: str) -> None:
    assert redact([word]) == [said]


def test_the_word_behind_a_secrets_flag_is_hidden() -> None:
    assert redact(["x", "--auth-token", "abc", "--secret", "--port", "80"]) == [
        *("x", "--auth-token", "***", "--secret", "--port", "80")
    ]
