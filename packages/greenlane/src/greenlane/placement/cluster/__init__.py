"""Calls on a Ray cluster, through a process of its own that is Ray's driver.

    executor  the service's side: the queue, who runs what, the ends of calls
    link      the bridge's process, and the two threads that talk to it
    wire      what passes between the two
    bridge    the process that speaks to Ray
    actor     a worker on the cluster

It is loaded by the first call that is placed there.
"""

__all__: list[str] = []
