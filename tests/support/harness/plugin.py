"""For every test: it leaves things as it found them, and one that hangs fails alone.

pytest ends the process of a test that takes longer than `faulthandler_timeout` (pyproject.toml),
and its threads and sockets with it. pytest-xdist says which test that was and goes on with a new
process; here we end the processes that the dead one had started.
"""

import gc
import logging
import os
import signal
import sys
import tempfile
import warnings
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from support.harness import children, loops

_watch = pytest.StashKey[children.Watch]()
_settings = pytest.StashKey["tempfile.TemporaryDirectory[str]"]()
_checkout = pytest.StashKey[set[str]]()


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background: children inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    loops.limit(float(config.getini("faulthandler_timeout")))
    config.stash[_watch] = children.Watch()
    for name in [name for name in os.environ if name.startswith("ORDERCAST_")]:
        del os.environ[name]
    os.environ["ORDERCAST_PURE"] = "1"  # as in conftest.py
    settings = config.stash[_settings] = tempfile.TemporaryDirectory(prefix="settings-")
    os.environ["XDG_CONFIG_HOME"] = settings.name  # no verb goes where the user's contexts say
    config.stash[_checkout] = {each.name for each in config.rootpath.iterdir()}


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tests write into directories of their own. Caches and the folders of .gitignore are no
    test's."""
    if hasattr(session.config, "workerinput"):
        return  # the process that hands out the tests looks, when all have ended
    now = {each.name for each in session.config.rootpath.iterdir()}
    before: set[str] = session.config.stash[_checkout]
    made = now - before - {"__pycache__", "build", "dist", "out"}
    left = sorted(name for name in made if not name.startswith("."))
    if left:
        print(f"\ntests left in the checkout: {', '.join(left)}", file=sys.stderr)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_unconfigure(config: pytest.Config) -> None:
    if _settings in config.stash:
        config.stash[_settings].cleanup()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """In the process that hands out the tests, when one that runs them has ended."""
    told = node.workerinput
    children.kill(children.living(told["testrunuid"], told["workerid"]))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    before = item.session.testsfailed
    result = yield
    if item.session.testsfailed > before:
        _release()
    return result


def _release() -> None:
    """Close what a failed test has left open. Its traceback keeps such things alive; without this,
    the warning about them would fail whichever test runs when they are collected."""
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        sys.__dict__.pop(name, None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(autouse=True)
def _no_process_left(request: pytest.FixtureRequest) -> Iterator[None]:
    watch = request.config.stash[_watch]
    watch.keep()
    yield
    left = watch.left()
    children.kill(left)
    assert not left, f"still running: {left}"


@pytest.fixture(autouse=True)
def _quiet_loggers() -> Iterator[None]:
    """A verb that runs a daemon turns logging on for its process; here that is everybody's."""
    loggers = [logging.getLogger(name) for name in ("ordercast", "asyncio")]
    before = [(logger, logger.level, list(logger.handlers)) for logger in loggers]
    yield
    for logger, level, handlers in before:
        logger.setLevel(level)
        logger.handlers[:] = handlers
