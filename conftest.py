"""What the tests of all distributions and of the systems share: see `tests/fixtures.py`."""

pytest_plugins = ["tests.fixtures"]
