"""Native code that only the checkout's tests call: built by `make build`, in no wheel."""

from greenlane_testing._native import BurstSketch, RecordingWriter, write_large_recording

__all__ = ["BurstSketch", "RecordingWriter", "write_large_recording"]
