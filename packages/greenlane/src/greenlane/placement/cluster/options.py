"""Which cluster, how many workers there, how long a queue here."""

from __future__ import annotations

import dataclasses
import importlib.util
from typing import Final

from greenlane.errors import SettingsError
from greenlane.placement.processes.options import check_range

__all__ = ["ClusterOptions"]

_ATTEMPTED: Final = "place functions on a cluster"


@dataclasses.dataclass(frozen=True)
class ClusterOptions:
    """Checked when made. Raises SettingsError."""

    # Which Ray: "host:port" of its head; "auto" = what RAY_ADDRESS says, or the one that runs on this machine;
    # "local" = one of its own on this machine, which ends with this process. "" = none was named: refused.
    address: str = ""
    # Calls that may wait for a worker; one more is refused. Arbitrary: a call behind this many is late anyway.
    queue: int = 256
    # Most workers (Ray actors) at once. They are started on demand. Default arbitrary: on a shared cluster, little.
    workers: int = 8
    # Time after which a worker that has nothing to do is given back to the cluster.
    idle_s: float = 60.0
    # Time that the connection, and the start of a worker, may take: a full cluster has no room.
    start_timeout_s: float = 60.0

    def __post_init__(self) -> None:
        if importlib.util.find_spec("ray") is None:
            raise SettingsError(
                "placement", "cluster", "one that is installed: Ray is not", "pip install 'ray>=2.10,<3'",
                attempted=_ATTEMPTED,
            )  # fmt: skip
        if not self.address:
            raise SettingsError(
                "cluster_address", self.address, "the cluster to use: host:port, auto or local",
                'set cluster_address = "local" for a Ray of its own on this machine', attempted=_ATTEMPTED,
            )  # fmt: skip
        check_range("queue", self.queue, 0, 1_000_000)
        check_range("cluster_workers", self.workers, 1, 10_000)
        check_range("idle_s", self.idle_s, 0.1, 86_400)
        check_range("start_timeout_s", self.start_timeout_s, 0.1, 86_400)
