"""Calls on a Ray cluster, through a process of its own that is Ray's driver.

    executor  the service's side: `ProcessExecutor`, with workers that are threads of the bridge
    bridge    the process that speaks to Ray
    actor     a worker on the cluster

It is loaded by the first call that is placed there.
"""

__all__: list[str] = []
