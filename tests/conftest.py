"""What every test leaves as it found it."""

import logging
from collections.abc import Iterator

import pytest

from support.apart import apart as stability_apart


@pytest.fixture(autouse=True)
def quiet_loggers() -> Iterator[None]:
    """A verb that runs a daemon turns logging on for its process; here that is everybody's."""
    loggers = [logging.getLogger(name) for name in ("ordercast", "asyncio")]
    before = [(logger, logger.level, list(logger.handlers)) for logger in loggers]
    yield
    for logger, level, handlers in before:
        logger.setLevel(level)
        logger.handlers[:] = handlers


@pytest.fixture
def apart() -> Iterator[None]:
    """For runs that are kept by their seeds."""
    with stability_apart():
        yield
