"""What all tests have."""

pytest_plugins = ["support.harness.plugin"]
