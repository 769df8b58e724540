"""The manager judges alone who is silent, nobody knocks, and nobody waits before it returns: as it
was when most of the kept runs were found. They are about what a flush and a return do, and show it
only if sites are excluded at the moments at which they were then."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ordercast.core.epochs.silence.hearing import Hearing
from ordercast.core.epochs.silence.judgement import SilenceJudgement
from ordercast.core.epochs.silence.pauses import Pauses
from support.mutants.exclusion import in_force


def _nothing(*_given: Any, **_named: Any) -> None:
    return None


@contextmanager
def the_manager_judges_alone() -> Iterator[None]:
    with in_force(
        [
            (Hearing, "doubt", _nothing),
            (Hearing, "_look", _nothing),
            (SilenceJudgement, "_is_gone", lambda *_given: True),
            (Pauses, "begin", _nothing),
        ]
    ):
        yield
