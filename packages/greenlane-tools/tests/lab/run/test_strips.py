"""What a caller sees as the load rises: a strip and a replayed card a contender."""

from __future__ import annotations

import json
import re

from tests.lab.made import PRICING, run, sample

from greenlane_tools.lab.run.page import page
from greenlane_tools.lab.run.performed import Run
from greenlane_tools.lab.run.rows import pooled
from greenlane_tools.lab.run.runner import Result
from greenlane_tools.lab.run.strips import in_turn, last_seconds
from tests.page_tags import tags, what_it_fetches

RUNS = [
    run(
        [sample(310.0 + (700 if name == "gevent" and n % 3 == 0 else 0), at_s=n / 2) for n in range(20)]
        + [sample(20.0 * (n + 1), "quote", at_s=n / 2) for n in range(20)],
        name,
        utilisation,
        repetition,
    )
    for repetition in range(2)
    for utilisation in (0.6, 0.9)
    for name in ("gevent", "greenlane")
]


def made() -> str:
    return page(result(RUNS))


def result(runs: list[Run]) -> Result:
    names = tuple(dict.fromkeys(one.turn.contender for one in runs))
    rows = pooled(PRICING, runs)
    return Result(PRICING, names, runs, rows, {}, 11_000, [], [], "", {"cores": 2}, 0)


def test_the_page_asks_for_nothing_outside_itself() -> None:
    assert not what_it_fetches(made())


def test_the_page_has_a_strip_and_a_distribution_for_every_contender_and_utilisation() -> None:
    found = tags(made()).seen
    assert (
        sum(attributes.get("class") == "phone" or attributes.get("class") == "phone ours" for _, attributes in found)
        == 2
    )
    assert sum("tick-late" in (attributes.get("class") or "") for _, attributes in found) == 2


def test_the_strip_is_the_end_of_the_load_which_rises() -> None:
    found = last_seconds(RUNS, "gevent", PRICING.request_class("bikes"), 15.0)
    assert [run.turn.level.utilisation_frac for _, run in in_turn(RUNS, "gevent")] == [0.6, 0.6, 0.9, 0.9]
    assert len(found) == 30 and found[0].at_s == 0.0 and max(offer.at_s for offer in found) < 15.0


def test_the_replay_has_one_answer_a_second() -> None:
    text = made()
    replay = json.loads(re.search(r'id="strips">(.*?)</script>', text, re.DOTALL)[1])  # type: ignore[index]
    assert [len(polls) for polls in replay["polls"]] == [40, 40]


def test_a_page_without_bikes_is_still_a_page() -> None:
    runs = [run([sample(20.0, "quote")])]
    assert tags(page(result(runs))).seen
