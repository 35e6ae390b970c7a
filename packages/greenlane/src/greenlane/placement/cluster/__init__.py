"""Calls on a Ray cluster, through a process of its own that is Ray's driver."""

__all__: list[str] = []
