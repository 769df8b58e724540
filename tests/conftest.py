"""What all tests have."""

from collections.abc import Iterator

import pytest

from support.apart import apart as stability_apart

pytest_plugins = ["support.harness.plugin"]


@pytest.fixture
def apart() -> Iterator[None]:
    """For runs that are kept by their seeds."""
    with stability_apart():
        yield
