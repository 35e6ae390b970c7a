"""Native code that only the checkout's tests call."""

from pathlib import Path
from typing import final

__all__ = ["BurstSketch", "RecordingWriter", "slots", "write_large_recording"]

@final
class RecordingWriter:
    """Writes chosen events as a recording of one process, for tests of what reads recordings."""

    def __new__(cls, process: int, pid: int) -> RecordingWriter: ...
    def event(self, name: str, /, **fields: int | str) -> None:
        """Add an event: `docs/recording-format.md` lists names and fields. A field that is left out is 0 or "".

        But `cpu_ns` is then "not measured", `ready_ns` = `to_ns`, `known_ns` = `ready_ns`, `arrival_ns` = `at_ns`.
        Raises: KeyError for a field that the event does not have, ValueError for an unknown event or a wrong number.
        """

    def chunk(self, *, lost: int = 0) -> bytes:
        """Give the events since the last call as the next chunk, whose header says that `lost` events were lost."""

@final
class BurstSketch:
    """Core's burst histogram by itself, likewise."""

    def __new__(cls) -> BurstSketch: ...
    def update(self, burst_ns: int) -> None: ...
    def forget(self, halvings: int) -> None: ...
    def quantile_ns(self, quantile: float) -> int: ...
    def mean_ns(self) -> int: ...
    def mean_over_ns(self, limit_ns: int) -> int: ...
    def samples(self) -> int: ...
    def weights(self) -> list[int]: ...

def slots() -> list[tuple[str, str, int, int]]:
    """Give (object's file name, function, address of the slot, what it holds) for each slot of the process."""

def write_large_recording(path: Path, least_bytes: int, about: str) -> int:
    """Write a recording of one process, of `least_bytes` or more; gives how many jobs are in it.

    Eight threads; a job begins each ms and takes 5 ms: 0.6 ms of CPU, 4 ms of I/O in four calls, 0.4 ms of waiting for
    the GIL. Three of four are `GET /bikes`, the others `GET /quote`. `about` describes the process, as JSON. Releases
    the GIL; about two seconds a GB.
    """
