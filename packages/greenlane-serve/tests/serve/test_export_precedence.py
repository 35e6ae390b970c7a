"""Two lanes that match the same requests: what a gateway takes, beside what `greenlane serve` takes."""

from __future__ import annotations

import itertools
import re

import pytest

from greenlane.errors import SettingsError
from greenlane.settings import Lane
from greenlane_serve.export.kubernetes import Cluster, documents, doubtful
from greenlane_serve.export.routes import meet
from greenlane_serve.lanes import Match
from greenlane_serve.settings import ServeSettings

CLUSTER = Cluster("shop", "shop:app", "registry/shop:7", "edge")


def settings(*lanes: tuple[str, dict[str, str]], kind: str = "hard") -> ServeSettings:
    made = [
        Lane(f"l{number}", match=(glob,), headers=headers, kind=kind, processes=1 if kind == "hard" else 0)
        for number, (glob, headers) in enumerate(lanes)
    ]
    return ServeSettings(workers=6, lanes=tuple(made))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("GET /api/*", {}), ("/api/status", {})),  # an exact path counts before a prefix
        (("GET /api/*", {}), ("/api/v1/*", {})),  # a longer prefix
        (("/api/*", {"x-a": "1"}), ("GET /api/*", {})),  # a method before headers
        (("/api/*", {"x-a": "1"}), ("/api/*", {"x-b": "1", "x-c": "2"})),  # more headers
    ],
)
def test_lanes_that_a_gateway_would_confuse_are_refused_and_named(
    first: tuple[str, dict[str, str]], second: tuple[str, dict[str, str]]
) -> None:
    with pytest.raises(SettingsError, match=r"lanes\.l1\.match.*'l0'.*a gateway takes 'l1'"):
        documents(settings(first, second), CLUSTER)
    documents(settings(second, first), CLUSTER)
    documents(settings(first, second, kind="soft"), CLUSTER)  # the same pods, which know the order


@pytest.mark.parametrize(
    ("first", "second", "doubts"),
    [
        (("GET /api*", {}), ("/api/status", {}), 1),
        (("/api/<id>/x", {}), ("/api/*", {}), 1),
        (("/api/<id>", {}), ("/other/*", {}), 0),
        (("GET /api*", {}), ("POST /api*", {}), 0),
        (("/api*", {"x-a": "1"}), ("/api*", {"x-a": "2"}), 0),
        (("/api*", {"x-a": "1*"}), ("/api*", {"x-a": "12"}), 1),
        (("GET /api/status", {}), ("/api/*", {}), 0),
    ],
)
def test_what_a_gateway_may_choose_is_told(
    first: tuple[str, dict[str, str]], second: tuple[str, dict[str, str]], doubts: int
) -> None:
    documents(settings(first, second), CLUSTER)
    said = doubtful(settings(first, second), CLUSTER)
    assert len(said) == doubts
    assert all("'l0'" in one and "'l1'" in one for one in said)
    assert not doubtful(settings(first, second), Cluster("shop", "shop:app", "i", ""))


def test_globs_meet_where_some_text_matches_both() -> None:
    globs = ["/", "/a", "/a*", "/*b", "/?", "/a?", "/a*b", "*", "/a/*"]
    texts = ["".join(some) for length in range(5) for some in itertools.product("/ab", repeat=length)]
    for one, other in itertools.product(globs, repeat=2):
        both = [text for text in texts if all(re.search(Match("", glob).path_regex, text) for glob in (one, other))]
        assert meet(one, other) is bool(both), (one, other, both)
