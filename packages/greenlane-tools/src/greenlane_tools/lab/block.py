"""A with-block over processes: what has begun is ended, also when the rest does not come up."""

from __future__ import annotations

import abc
from typing import Self

__all__ = ["Block"]


class Block(abc.ABC):
    """Something of several parts that runs while a with-block does."""

    def __enter__(self) -> Self:
        try:
            self.begin()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *problem: object) -> None:
        self.end()

    @abc.abstractmethod
    def begin(self) -> None:
        """Start everything, and wait until it runs."""

    @abc.abstractmethod
    def end(self) -> None:
        """End what has begun: all of it, some of it, nothing. Idempotent."""
