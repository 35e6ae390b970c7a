"""What the tests of all distributions and of the systems share."""

pytest_plugins = ["tests.fixtures", "tests.server_fixtures"]
