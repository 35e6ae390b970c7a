"""A real `greenlane serve` and its clients, as the tests of greenlane-serve start them."""

import sys
from pathlib import Path

# `tests` is one namespace over the packages' folders; only pytest knows all of them.
sys.path.append(str(Path(__file__).parents[1] / "packages/greenlane-serve"))

from tests.serve.served import Served, children, until  # the path comes first

__all__ = ["Served", "children", "until"]
