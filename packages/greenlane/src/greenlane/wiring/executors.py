"""What runs placed calls outside this process, wired from the settings: each is made at its first use.

A forked child has worker processes of its own; the executors see to that themselves.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from greenlane.errors import PlacementError, SettingsError
from greenlane.placement.executor import Executor
from greenlane.policy.placed import workers_of
from greenlane.settings import Settings
from greenlane.threads.unpatched import RLock, in_forked_child

if TYPE_CHECKING:
    from greenlane.placement.processes.options import ProcessOptions

__all__ = ["RemoteExecutors", "process_options"]

#: How long the exit of the process waits for calls that run outside. Arbitrary: as for those on the native thread.
_EXIT_S: Final = 5.0


class RemoteExecutors:
    """Gives executors by the name of the placement: `executors("process")`."""

    def __init__(self, settings: Settings) -> None:
        """Make none yet."""
        self._settings = settings
        self._made: dict[str, Executor] = {}
        self._reset_state()
        in_forked_child(self._reset_state)

    def __call__(self, name: str) -> Executor:
        """Give the executor of a placement.

        Raises:
            PlacementError: there is none of this name.
            SettingsError: it cannot be made: memory, a missing package, a function that cannot be imported.
        """
        found = self._made.get(name)
        if found is None:
            if name not in _MAKERS:
                rule = "one of " + ", ".join(_MAKERS)
                raise PlacementError("place a function", name="placement", value=name, rule=rule)
            with self._lock:
                found = self._made.get(name) or _MAKERS[name](self._settings)
                if name not in self._made:
                    # After what the executor has registered itself, so run before: calls that run may end.
                    atexit.register(found.close, _EXIT_S)
                self._made[name] = found
        return found

    def running(self) -> Mapping[str, Executor]:
        """Give those that there are by now."""
        return dict(self._made)

    def close(self, seconds: float) -> None:
        """Close all, one after the other."""
        for executor in list(self._made.values()):
            executor.close(seconds)

    def _reset_state(self) -> None:
        self._lock = RLock()


def process_options(settings: Settings) -> ProcessOptions:
    """Translate settings.

    Raises:
        SettingsError: a warm-up that cannot be imported.
    """
    from greenlane.placement.processes.names import found
    from greenlane.placement.processes.options import ProcessOptions

    warm_up = settings.process_warm_up
    try:
        function = found(f"{warm_up}:0") if warm_up else None
    except (ImportError, AttributeError) as error:
        rule = f"a function that can be imported ({type(error).__name__}: {error})"
        raise SettingsError("process_warm_up", warm_up, rule, "write module:function") from error
    return ProcessOptions(
        workers=workers_of(settings),
        max_calls=settings.process_max_calls,
        kill_after_s=settings.process_kill_s,
        warm_up=function,
    )


def _process(settings: Settings) -> Executor:
    from greenlane.placement.processes.executor import ProcessExecutor

    return ProcessExecutor(process_options(settings))


def _cluster(settings: Settings) -> Executor:
    from greenlane.placement.cluster.executor import RayExecutor
    from greenlane.placement.cluster.options import ClusterOptions

    options = ClusterOptions(
        address=settings.cluster_address,
        workers=settings.cluster_workers,
    )
    return RayExecutor(options)


_MAKERS: Final[Mapping[str, Callable[[Settings], Executor]]] = {"process": _process, "cluster": _cluster}
