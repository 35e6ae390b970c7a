"""`split`: features and predict are a service of their own, rec-ranker; items go there as JSON, 3 to 12 MB."""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import aiohttp

from feed.children import Process, command
from feed.record import Item
from feed.service.job import Job, said
from feed.user import User
from greenlane_tools.lab.processes import free_port

from .plain import Plain, Scored
from .ranking import RANKED_UNTIL, Given


class Split(Plain):
    """Its rec-rankers are `given.workers` processes, asked in turn; one that ended is started again in its turn."""

    def __init__(self, given: Given) -> None:
        super().__init__(given)
        self._rankers: list[tuple[Process, int]] = []
        self._turns: Iterator[int] = itertools.cycle(range(given.workers))
        self._session: aiohttp.ClientSession

    async def start(self) -> None:
        """Starts the services, and waits for them."""
        self._logs = Path(tempfile.mkdtemp(prefix="rec-ranker-"))
        self._rankers = [self._started(free_port()) for _ in range(self._given.workers)]
        for process, port in self._rankers:
            await asyncio.to_thread(process.wait_for_port, port)
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        self._connect()

    async def close(self) -> None:
        """Ends them."""
        await super().close()
        await self._session.close()
        for process, _ in self._rankers:
            process.end()
        shutil.rmtree(self._logs, ignore_errors=True)

    def pids(self) -> list[int]:
        """The services."""
        return [process.pid for process, _ in self._rankers]

    async def _scored(self, job: Job, items: list[Item], user: User) -> list[float] | None:
        with job.stages.computing("transport"):
            body = json.dumps({"user": vars(user) | {"seen": []}, "now_s": job.now_s, "items": items}).encode()
        job.bytes_moved += len(body)
        async with job.stages.running("transport"):
            try:
                async with asyncio.timeout_at(job.until(RANKED_UNTIL)):
                    answer = await job.stages.measured("transport", self._asked(body))
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                job.degraded("ranking", f"rec-ranker: {said(error)}", "the first level's order")
                return None
        job.bytes_moved += len(answer)
        with job.stages.computing("transport"):
            found = Scored(**json.loads(answer))
        job.stages.add("transport", wall_ns=-(found.features_ns + found.predict_ns))
        job.stages.add("features", wall_ns=found.features_ns, elsewhere_ns=found.features_ns)
        job.stages.add("predict", wall_ns=found.predict_ns, elsewhere_ns=found.predict_ns)
        return found.scores

    async def _asked(self, body: bytes) -> bytes:
        turn = next(self._turns)
        process, port = self._rankers[turn]
        if not process.running():
            self._rankers[turn] = self._started(port)
        async with self._session.post(f"http://127.0.0.1:{port}/scores", data=body) as response:
            response.raise_for_status()
            return await response.read()

    def _started(self, port: int) -> tuple[Process, int]:
        program = [*command("feed.variants.rec_ranker"), str(port), self._model]
        return Process(program, self._logs / f"{port}.log"), port


def ranking(given: Given) -> Split:
    """The variant."""
    return Split(given)
