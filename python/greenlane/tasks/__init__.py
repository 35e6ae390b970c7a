"""Orders behind the receive: keys, parked orders, what a running task can ask of its own order."""

from greenlane.tasks.order import Current, NotSent, current

__all__ = ["Current", "NotSent", "current"]
