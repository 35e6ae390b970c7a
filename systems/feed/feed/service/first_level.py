"""Second group of I/O: the four first-level models, asked at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import aiohttp

from feed.candidates import MODELS
from feed.user import User

from .job import Job, said

# Share of the deadline after which we go on with those that have answered.
UNTIL = 0.45


class FirstLevel:
    """Asks the models.

    Args:
        session: HTTP client.
        models: base URL of each.
    """

    def __init__(self, session: aiohttp.ClientSession, models: Mapping[str, str]) -> None:
        self._session = session
        self._models = models
        # What `popular` said last, to anybody: better than an empty feed.
        self._spare = b""

    async def answers(self, job: Job, user: User) -> dict[str, bytes]:
        """Each model's answer, JSON; who did not answer in time is missing, and the job says so."""
        with job.stages.computing("models"):
            body = user.to_json()
        async with job.stages.running("models"):
            asked = {model: job.stages.task("models", self._asked(model, user, body)) for model in MODELS}
            _, late = await asyncio.wait(asked.values(), timeout=max(0.0, job.until(UNTIL) - _now()))
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
        answers = {
            model: task.result() for model, task in asked.items() if not task.cancelled() and not task.exception()
        }
        for model, task in asked.items():
            if model not in answers:
                job.degraded("models", f"{model}: {_reason(task)}", "its candidates are missing")
        return self._spared(job, answers)

    def _spared(self, job: Job, answers: dict[str, bytes]) -> dict[str, bytes]:
        if "popular" in answers:
            self._spare = answers["popular"]
        if answers or not self._spare:
            return answers
        job.degraded("models", "no model answered", "what was popular a moment ago, with somebody else")
        return {"popular": self._spare}

    async def _asked(self, model: str, user: User, body: bytes) -> bytes:
        async with self._session.post(f"{self._models[model]}/candidates/{user.user_id}", data=body) as response:
            if response.status != 200:
                raise aiohttp.ClientError(f"status {response.status}")
            return await response.read()


def _now() -> float:
    return asyncio.get_running_loop().time()


def _reason(task: asyncio.Task[bytes]) -> str:
    error = None if task.cancelled() else task.exception()
    return said(error or TimeoutError())
