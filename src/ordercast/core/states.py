"""The states of a site within one epoch, as two tables: state × event → next state.

`EPOCH` says how far the epoch is. `RECORDS` says what the engine does with records: at first it
replays those of its store. Each state says what it allows. An event that a table does not name
cannot happen in that state. docs/epochs.md shows both, drawn from here.
"""

from collections.abc import Mapping
from enum import Enum


class EpochState(Enum):
    """`works`: frames and alarms are taken. `places`: batches are taken, placed and logged, and own
    batches leave; otherwise own batches are accepted and kept for the next epoch. `closed`:
    everything up to the Close is logged."""

    OPEN = ("messages are placed and delivered", True, True, False)
    SEALED = ("the header of the Close has passed: nothing more is placed", True, False, False)
    CLOSED = ("everything up to the Close is logged", True, False, True)
    FROZEN = ("a flush, or a restart before one: nothing more happens here", False, False, False)
    FROZEN_CLOSED = ("the same, and everything up to the Close is logged", False, False, True)

    def __init__(self, meaning: str, works: bool, places: bool, closed: bool) -> None:
        self.meaning = meaning
        self.works = works
        self.places = places
        self.closed = closed


OPEN, SEALED, CLOSED, FROZEN, FROZEN_CLOSED = EpochState

CLOSE_HEADED, CLOSE_LOGGED, FREEZE = "Close headed", "Close logged", "freeze"

EPOCH: Mapping[EpochState, Mapping[str, EpochState]] = {
    OPEN: {CLOSE_HEADED: SEALED, CLOSE_LOGGED: CLOSED, FREEZE: FROZEN},
    SEALED: {CLOSE_LOGGED: CLOSED, FREEZE: FROZEN},
    CLOSED: {FREEZE: FROZEN_CLOSED},
    # A frozen site that restarts finds its Close among its records.
    FROZEN: {CLOSE_HEADED: FROZEN, CLOSE_LOGGED: FROZEN_CLOSED, FREEZE: FROZEN},
    FROZEN_CLOSED: {FREEZE: FROZEN_CLOSED},
}


class RecordsState(Enum):
    """`persists`: records are written. `again`: own messages leave that may have left before."""

    REPLAYING = ("records of the store happen once more", False, False)
    RESUMING = ("own messages without a place are sent again", True, True)
    RUNNING = ("records are written as things happen", True, False)

    def __init__(self, meaning: str, persists: bool, again: bool) -> None:
        self.meaning = meaning
        self.persists = persists
        self.again = again


REPLAYING, RESUMING, RUNNING = RecordsState

NOTHING_BEFORE, REPLAYED, RESUMED = "nothing before", "all replayed", "all sent again"

RECORDS: Mapping[RecordsState, Mapping[str, RecordsState]] = {
    REPLAYING: {NOTHING_BEFORE: RUNNING, REPLAYED: RESUMING},
    RESUMING: {RESUMED: RUNNING},
    RUNNING: {},
}
