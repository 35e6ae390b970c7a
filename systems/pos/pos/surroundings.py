"""Where everything is: what a program of pos is told, by one file whose path is in its environment."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, Literal, Self

from greenlane.errors import SettingsError

from .merchants.names import MERCHANTS

VARIABLE: Final = "POS_SURROUNDINGS"
QueueKind = Literal["classic", "quorum"]


@dataclass(frozen=True)
class Surroundings:
    """Addresses, and what is the same for all.

    Args:
        broker: URL of RabbitMQ.
        merchants: base URL of each.
        over_grpc: address (host:port) of those that take orders over gRPC.
        journal: the file that workers tell of orders in.
        work_ms: CPU that an order costs beside its call: it is turned into the merchant's own form.
        call_s: a merchant's answer is waited for so long.
        calls: API calls of an order: 1, or 3 (menu, order, confirmation), except for merchants over gRPC.
        queue_kind: of RabbitMQ's queues.
        store: URL of the store that all workers share of what was called; "" = stock workers have none.
        cancelled: folder with a file for each order that its customer has cancelled; "" = nobody can.
        diversion: URL of the place that says how many orders are diverted; "" = none are.
    """

    broker: str
    merchants: Mapping[str, str] = field(default_factory=dict)
    over_grpc: Mapping[str, str] = field(default_factory=dict)
    journal: str = os.devnull
    work_ms: float = 3.0
    call_s: float = 60.0
    calls: int = 1
    queue_kind: QueueKind = "classic"
    store: str = ""
    cancelled: str = ""
    diversion: str = ""

    def write(self, path: Path) -> None:
        """As a JSON file."""
        path.write_text(json.dumps(asdict(self), indent=1))

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """What `write` wrote.

        Raises:
            SettingsError: it is not there, or something else.
        """
        try:
            return cls(**json.loads(Path(path).read_text()))
        except (OSError, ValueError, TypeError) as error:
            raise SettingsError(
                VARIABLE, str(path), f"a file that `python -m pos.site` wrote ({error})",
                "start the site, and take the path that it prints", attempted="find the parts of pos",
            ) from None  # fmt: skip

    @classmethod
    def here(cls) -> Self:
        """Those that the environment names.

        Raises:
            SettingsError: it names none, or no such file.
        """
        path = os.environ.get(VARIABLE)
        if path is None:
            rule = "the path of a file that `python -m pos.site` wrote"
            raise SettingsError(VARIABLE, None, rule, "start the site, and take the path that it prints",
                                attempted="find the parts of pos")  # fmt: skip
        return cls.read(path)

    def names(self) -> tuple[str, ...]:
        """Merchants, in the order in which orders are dealt out."""
        return tuple(name for name in MERCHANTS if name in self.merchants)
