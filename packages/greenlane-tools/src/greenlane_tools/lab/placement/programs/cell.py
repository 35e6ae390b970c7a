"""One run in a process of its own: `python -m greenlane_tools.lab.placement.programs.cell JOB`."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from greenlane_tools.lab.placement.programs.job import Job, end_all


def main(text: str) -> None:
    """Run the job and leave its result; ends the process and all that it started."""
    signal.signal(signal.SIGTERM, end_all)
    job = Job.read(text)
    if job.loop == "gevent":
        from gevent import monkey

        monkey.patch_all()
        _on_hub(job)
    else:
        import asyncio

        with asyncio.Runner(loop_factory=_loop_factory(job.loop)) as runner:
            runner.run(_on_loop(job))
    end_all()


async def _on_loop(job: Job) -> None:
    from greenlane_tools.lab.placement.programs.beats import measured
    from greenlane_tools.lab.placement.programs.places import opened
    from greenlane_tools.lab.placement.programs.result import left

    if not job.function:
        left(job, await measured(job, _nobody, os.getpid()))
        return
    fn, args = job.call()
    left(job, await measured(job, await opened(job.contender, fn, args), os.getpid()), fn, args)
    end_all()  # Here, while pools still stand: closing them takes its time, and may wait for what is killed anyway.


def _on_hub(job: Job) -> None:
    from greenlane_tools.lab.placement.programs.hub import measured, opened
    from greenlane_tools.lab.placement.programs.result import left

    if not job.function:
        left(job, measured(job, _nobody, os.getpid()))
        return
    fn, args = job.call()
    left(job, measured(job, opened(job.contender, fn, args), os.getpid()), fn, args)


def _nobody() -> Any:
    raise AssertionError("a job without callers calls nothing")


def _loop_factory(name: str) -> Any:
    if name == "asyncio":
        return None
    import uvloop

    return uvloop.new_event_loop


if __name__ == "__main__":
    main(sys.argv[1])
