"""The library's face: its names, and what its functions say of themselves."""

import inspect
from typing import Any

import pytest

from ordercast import pipeline, studies

CALLS = [
    pipeline.audit, pipeline.figures, pipeline.follow, pipeline.open_session, pipeline.read_history,
    pipeline.sweep, studies.reproduce,
]  # fmt: skip


@pytest.mark.parametrize("room", [pipeline, studies], ids=lambda room: room.__name__)
def test_every_name_is_there_and_explained(room: Any) -> None:
    assert room.__all__ == sorted(room.__all__)
    for name in room.__all__:
        found = getattr(room, name)
        assert found.__doc__, name
        if inspect.isclass(found):
            members = [m for n, m in vars(found).items() if not n.startswith("_")]
            calls = [m for m in members if inspect.isfunction(m) or isinstance(m, property)]
            assert all(member.__doc__ for member in calls), name


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_functions_say_what_they_raise(call: Any) -> None:
    assert "Raises ConfigError" in call.__doc__
