"""One request at a time: orders, and CPU that belongs to one request alone."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from typing import Any

from .subject import Subject, between
from .truth import Truth

Json = dict[str, Any]


def orders(subject: Subject, users: Sequence[int], truth: Truth, told: Callable[[str], None]) -> Json:
    """Asks for each user's feed: every order is judged; its digest tells whether another variant's is
    the same."""
    judged = []
    digests: dict[str, str] = {}
    for place, user in enumerate(users):
        told(f"{subject.variant}: order of user {place + 1}/{len(users)}")
        answer = subject.feed(user, "/feed?user={}&stages=1")
        judged.append(truth.judged(user, answer["ranked"]))
        digests[str(user)] = hashlib.sha256(json.dumps(answer["ranked"]).encode()).hexdigest()[:16]
    return {
        "right": sum(one.right for one in judged),
        "of": len(judged),
        "exchanged": sum(one.exchanged for one in judged),
        "ndcg": sum(one.ndcg for one in judged) / len(judged),
        "orders": digests,
    }


def costs(subjects: Sequence[Subject], users: Sequence[int], told: Callable[[str], None]) -> dict[str, Json]:
    """Each user's feed, asked of each subject in turn: what one request costs by itself.

    Returns:
        By variant: cpu_ms, path_cpu_ms (ranking path, workers included) and wall_ms of a request; `usage` of all.
    """
    usages = {subject.variant: [0.0, 0.0, 0.0] for subject in subjects}
    for subject in subjects:
        subject.feed(users[0])
    for place, user in enumerate(users):
        told(f"one at a time: {' and '.join(usages)}: {place + 1}/{len(users)}")
        # Who is first changes: the second finds the shards' memory warm.
        for subject in subjects if place % 2 else reversed(subjects):
            before, began_s = subject.look(), time.monotonic()
            subject.feed(user)
            wall_ms = (time.monotonic() - began_s) * 1e3
            usage = between(before, subject.look())
            for part, value in enumerate((usage.main_ms + usage.workers_ms, usage.path_ms, wall_ms)):
                usages[subject.variant][part] += value / len(users)
    looking = {subject.variant: _looking_ms(subject) for subject in subjects}
    return {
        name: {"cpu_ms": max(0.0, cpu_ms - looking[name]), "path_cpu_ms": path_ms, "wall_ms": wall_ms}
        for name, (cpu_ms, path_ms, wall_ms) in usages.items()
    }


def _looking_ms(subject: Subject) -> float:
    """What a look itself costs the service between the reading of its clock and the next look's: subtracted."""
    many = 20
    looks = [subject.look() for _ in range(many + 1)]
    return (looks[-1].main_ns - looks[0].main_ns) / 1e6 / many
