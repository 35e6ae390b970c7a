"""With its folder in PYTHONPATH the recording of each Python program begins at its start, with or without a host."""

import os
import sys

_source = os.path.join(os.path.dirname(__file__), *[os.pardir] * 2, "src")
sys.path.insert(0, os.path.abspath(_source))
import greenlane.record  # noqa: E402, F401

del sys.path[0]
