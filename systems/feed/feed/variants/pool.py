"""`pool`: as `inline`, but features and predict run in a ProcessPoolExecutor: items and scores are pickled."""

from __future__ import annotations

import asyncio
import signal
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from functools import partial

from feed.record import Item
from feed.service.job import Job, said
from feed.user import User
from greenlane_tools.lab.processes import die_with_parent

from .plain import Plain, Scored, loaded, scored
from .ranking import RANKED_UNTIL, Given


class Pool(Plain):
    """Workers are what `ProcessPoolExecutor(n)` gives by default; a broken pool is replaced."""

    def __init__(self, given: Given) -> None:
        super().__init__(given)
        self._pool = self._made()

    async def start(self) -> None:
        """Starts every worker before there are connections that they could inherit."""
        loop = asyncio.get_running_loop()
        await asyncio.gather(
            *(loop.run_in_executor(self._pool, _warm, self._model) for _ in range(self._given.workers))
        )
        self._connect()

    async def close(self) -> None:
        """Ends connections and workers."""
        await super().close()
        self._pool.shutdown(cancel_futures=True)

    def pids(self) -> list[int]:
        """The workers."""
        return [process.pid for process in (self._pool._processes or {}).values() if process.pid]

    async def _scored(self, job: Job, items: list[Item], user: User) -> list[float] | None:
        async with job.stages.running("executor"):
            try:
                async with asyncio.timeout_at(job.until(RANKED_UNTIL)):
                    found = await job.stages.measured("executor", self._placed(items, user, job.now_s))
            except (BrokenExecutor, TimeoutError) as error:
                if isinstance(error, BrokenExecutor):
                    self._pool = self._made()
                job.degraded("ranking", said(error), "the first level's order")
                return None
        # The workers' part of the wall time has stages of its own.
        job.stages.add("executor", wall_ns=-(found.features_ns + found.predict_ns))
        job.stages.add("features", wall_ns=found.features_ns, elsewhere_ns=found.features_ns)
        job.stages.add("predict", wall_ns=found.predict_ns, elsewhere_ns=found.predict_ns)
        return found.scores

    async def _placed(self, items: list[Item], user: User, now_s: int) -> Scored:
        work = partial(scored, self._model, items, user, now_s)
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def _made(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(self._given.workers, initializer=_alone)


def _alone() -> None:
    """Makes a forked worker a process of its own: it ends with its parent, and its signals are not its parent's.

    A fork inherits the loop's wake-up descriptor: asked to end, a worker would tell the *service's* loop that it was.
    """
    die_with_parent(signal.SIGKILL)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


def _warm(model: str) -> None:
    """Loads the model; the pool starts all its workers at the first call."""
    loaded(model)


def ranking(given: Given) -> Pool:
    """The variant."""
    return Pool(given)
