"""Ids of the tasks that follow an order, so that each is called once however often it is published."""

from __future__ import annotations

import uuid
from typing import Any, Final

__all__ = ["named"]

#: Of signatures that hold others: the arguments that are those.
_PARTS: Final = {"chain": ("tasks",), "group": ("tasks",), "chord": ("header", "body")}


def named(signatures: Any, name: str) -> list[dict[str, Any]]:
    """Give copies of the tasks that are linked to one of this name, with ids made of it, in chains and groups too.

    A worker may die between their publishing and its own acknowledgement: published again, they have the same ids, and
    the store lets each be called once. The next tasks of a chain have theirs from the beginning.

    Copies, because a pickled group may hold one object twice, and these are two orders.
    """
    return [_named(signature, f"{name}/{number}") for number, signature in enumerate(signatures)]


def _named(signature: Any, name: str) -> dict[str, Any]:
    parts = _PARTS.get(signature.get("subtask_type"))
    if parts is None:
        number = str(uuid.uuid5(uuid.NAMESPACE_OID, name))
        return {**signature, "options": {"task_id": number, **(signature.get("options") or {})}}
    held = dict(signature.get("kwargs") or {})
    for part in filter(held.get, parts):
        inside = f"{name}/{part}"
        held[part] = _named(held[part], inside) if isinstance(held[part], dict) else named(held[part], inside)
    return {**signature, "kwargs": held}
