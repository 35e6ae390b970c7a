"""Every way of choosing candidates gives the same ids, and survives answers that make no sense."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping

import pytest

from feed.service.job import Job
from feed.site import Addresses
from feed.user import MODELS, User
from feed.variants.ranking import Given, ranking
from feed.world.lessons import candidates_of
from feed.world.world import World

Chosen = Callable[[Mapping[str, bytes], User], tuple[list[int], list[str]]]


@pytest.fixture(params=["inline", "greenlane"])
def choose(request: pytest.FixtureRequest) -> Chosen:
    made = ranking(request.param, Given(Addresses([], 0, {}, "", 0), 1))

    async def chosen(bodies: Mapping[str, bytes], user: User) -> tuple[list[int], list[str]]:
        job = Job(user.user_id, 0, 1.0)
        return made.candidates(job, bodies, user), [problem.reason for problem in job.problems]

    return lambda bodies, user: asyncio.run(chosen(bodies, user))


def bodies_of(world: World, user: User) -> dict[str, bytes]:
    answers = {model: world.first_level.answer(model, user) for model in MODELS}
    return {model: json.dumps({"ids": ids, "scores": scores}).encode() for model, (ids, scores) in answers.items()}


@pytest.mark.parametrize("user_id", range(1, 8))
def test_all_models_answers_give_the_worlds_candidates(choose: Chosen, world: World, user_id: int) -> None:
    user = world.people.user(user_id)
    assert choose(bodies_of(world, user), user) == (candidates_of(world, user), [])


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'{"ids": [1]}', b'{"ids": 3, "scores": 4}', b'{"ids": ["1"], "scores": [1]}']
)
def test_an_answer_that_makes_no_sense_is_left_out_and_named(choose: Chosen, world: World, body: bytes) -> None:
    user = world.people.user(2)
    bodies = bodies_of(world, user)
    without, _ = choose({model: given for model, given in bodies.items() if model != "taste"}, user)
    assert choose(bodies | {"taste": body}, user) == (without, ["taste: its answer is unreadable"])


def test_without_answers_there_is_nothing(choose: Chosen, world: World) -> None:
    assert choose({}, world.people.user(2)) == ([], [])
