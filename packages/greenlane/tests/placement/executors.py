"""The executors that the contract suite runs over. To add one: give it a name here, and what makes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from tests.placement.cluster.lent import USUAL, Lender

from greenlane.placement import Executor, NativeThreads
from greenlane.placement.processes.executor import ProcessExecutor
from greenlane.placement.processes.options import ProcessOptions
from greenlane.policy.placed import QueueRule


def _native_threads(most_waiting: int) -> Executor:
    return NativeThreads(QueueRule(threads=1, most_waiting=most_waiting, share_ns=400_000_000))


def _process_workers(most_waiting: int) -> Executor:
    return ProcessExecutor(ProcessOptions(workers=1, queue=most_waiting))


def _cluster_workers(most_waiting: int, lender: Lender) -> Executor:
    return lender.lend() if most_waiting == USUAL else lender.warm(queue=most_waiting)


#: name -> makes it, with one worker and room for this many waiting calls; further arguments are the fixtures that NEEDS
#: names. The test closes it.
EXECUTORS: dict[str, Callable[..., Executor]] = {
    "native-threads": _native_threads,
    "process-workers": _process_workers,
    "cluster-workers": _cluster_workers,
}
#: name -> what its tests need: marks, fixtures.
NEEDS: dict[str, tuple[Sequence[pytest.MarkDecorator], Sequence[str]]] = {
    "cluster-workers": ((pytest.mark.system, pytest.mark.slow), ("cluster",)),
}
PARAMETERS = [pytest.param(name, marks=NEEDS.get(name, ((), ()))[0]) for name in EXECUTORS]
