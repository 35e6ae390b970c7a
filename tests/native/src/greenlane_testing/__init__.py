"""Native code that only the checkout's tests call: built by `make build`, in no wheel."""

from greenlane_testing._native import BurstSketch, RecordingWriter

__all__ = ["BurstSketch", "RecordingWriter"]
