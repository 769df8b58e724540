"""How many records of the voters' log go into one frame."""

from collections.abc import Sequence
from typing import Final

from ordercast.model.epochs import AddGroup, Begin, Entry, EpochRecord, Finish
from ordercast.model.limits import RECORDS, TEXT

FEW_BYTES: Final = 1024 * 1024  # of records in a frame: beside data, a frame should not be long
_NUMBERS: Final = 24  # bytes that the numbers and lengths of an entry take at most
_EDIT: Final = 3 * TEXT  # an edit without a group's members


def fitting(records: Sequence[EpochRecord | Entry], most: int = RECORDS) -> int:
    """So many of them, from the first, go into one frame: at least one if there is one."""
    total = 0
    for place, record in enumerate(records[:most]):
        total += record_bytes(record)
        if total > FEW_BYTES and place:
            return place
    return min(len(records), most)


def record_bytes(record: EpochRecord | Entry) -> int:
    """No less than what its encoding has."""
    if isinstance(record, Entry):
        return _NUMBERS + record_bytes(record.record)
    if isinstance(record, Begin):
        members = (edit.members for edit in record.edits if isinstance(edit, AddGroup))
        named = sum(len(name) + 2 for names in members for name in names)
        return TEXT + _NUMBERS + _EDIT * len(record.edits) + named
    if isinstance(record, Finish):
        return TEXT + _NUMBERS + sum(len(o) + len(g) + _NUMBERS for o, _, g, _ in record.lasts)
    voters = getattr(record, "voters", ())
    return TEXT + sum(len(voter) + _NUMBERS for voter, _ in voters)
