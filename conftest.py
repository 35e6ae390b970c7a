"""What the tests of all distributions and of the systems share: see `tests/fixtures.py`."""

from tests.fixtures import *  # noqa: F403
