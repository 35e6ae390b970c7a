"""The corpus itself: large enough, each message once, and no reading in which a hidden request is one."""

from __future__ import annotations

from tests.serve.corpus import LAST, messages


def test_the_corpus_has_every_message_once_and_hides_what_is_hidden() -> None:
    corpus = list(messages())
    assert len(corpus) >= 400
    assert len({one.name for one in corpus}) == len({one.sent for one in corpus}) == len(corpus)
    for one in corpus:
        assert one.readings
        assert not [request for reading in one.readings for request in reading if "hidden" in request[1]], one.name
        assert all(LAST not in reading[:-1] for reading in one.readings), one.name
