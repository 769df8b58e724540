"""What a decoded frame about epochs must satisfy beyond its types, as `wire.checks` has it."""

from ordercast.model.epochs import (
    AddGroup,
    AddSite,
    Begin,
    Counts,
    Edit,
    Entry,
    EpochRecord,
    Finish,
    Flush,
    Open,
)
from ordercast.model.errors import FrameError
from ordercast.model.names import is_name
from ordercast.wire.checks import check_frame, check_group, check_placed
from ordercast.wire.epochs import (
    Ask,
    Fed,
    Feed,
    Fetch,
    FlushFrame,
    InEpoch,
    Logged,
    Pages,
    Past,
    SiteFrame,
)
from ordercast.wire.limits import ITEMS, LARGEST_NUMBER, MEMBERS, RECORDS, VECTOR_ENTRIES
from ordercast.wire.voting import Append, Appended, Install, Vote, Voted

_NAME = 256  # characters of a change's name


def check_site_frame(frame: SiteFrame) -> None:
    """Raise FrameError, naming the field and its value, unless the frame keeps every rule."""
    if isinstance(frame, InEpoch):
        _number(frame.epoch, "epoch", 1)
        check_frame(frame.frame)
    elif isinstance(frame, Feed):
        _number(frame.count, "count")
        _number(frame.committed, "committed")
        _length(frame.records, RECORDS, "records")
        _length(frame.wanted, RECORDS, "wanted")
        for record in frame.records:
            _record(record)
    elif isinstance(frame, Fed):
        _number(frame.count, "count", -1)  # a site that was told nothing yet
        _length(frame.closed, RECORDS, "closed")
        for change, included in frame.closed:
            _change(change)
            _included(included)
        _number(frame.store, "store")
        _number(frame.fetched, "fetched")
        _counts(frame.counts)
    elif isinstance(frame, FlushFrame):
        _flush_frame(frame)
    elif isinstance(frame, Ask):
        _change(frame.change)
        _edits(frame.edits)
    else:
        _number(frame.term, "term")
        if isinstance(frame, Append):
            _number(frame.before, "before")
            _number(frame.before_term, "before_term")
            _number(frame.committed, "committed")
            _length(frame.entries, RECORDS, "entries")
            for entry in frame.entries:
                _entry(entry)
        elif isinstance(frame, Vote):
            _number(frame.last, "last")
            _number(frame.last_term, "last_term")
        elif isinstance(frame, (Voted, Appended)):
            _number(frame.store, "store")
        elif isinstance(frame, Install):
            _number(frame.upto, "upto", 1)
            _number(frame.upto_term, "upto_term", 1)
            _stores(frame.voters)


def _flush_frame(frame: FlushFrame) -> None:
    if isinstance(frame, (Fetch, Pages)):
        _number(frame.epoch, "epoch", 1)
        check_group(frame.group, "group")
        _number(frame.after, "after")
        if isinstance(frame, Pages):
            _length(frame.batches, ITEMS, "batches")
            for place, placed in enumerate(frame.batches):
                check_placed(placed, f"batches[{place}]")
        return
    _number(frame.flush, "flush", 1)
    if isinstance(frame, Logged):
        _counts(frame.counts)
        _included(frame.lasts)
        _length(frame.holds, VECTOR_ENTRIES, "holds")
        for epoch, group in frame.holds:
            _number(epoch, "epoch", 1)
            check_group(group, "holds")
    elif isinstance(frame, Past):
        _counts(tuple(need[:4] for need in frame.needs))
        for need in frame.needs:
            if need[4]:
                _site(need[4])


def _counts(counts: Counts) -> None:
    _length(counts, VECTOR_ENTRIES, "counts")
    for epoch, group, number, members in counts:
        _number(epoch, "epoch", 1)
        check_group(group, "counts")
        _number(number, "number")
        _length(members, MEMBERS, "members")


def _entry(entry: Entry) -> None:
    _number(entry.term, "entry.term", 1)
    _record(entry.record)


def _record(record: EpochRecord) -> None:
    if isinstance(record, Begin):
        _change(record.change)
        _edits(record.edits)
    elif isinstance(record, Finish):
        _change(record.change)
        _included(record.lasts)
        _counts(record.counts)
    elif isinstance(record, Flush):
        _length(record.out, MEMBERS, "out")
        _length(record.back, MEMBERS, "back")
        for site, incarnation, store in record.back:
            _site(site)
            _number(incarnation, "incarnation", 1)
            _number(store, "store")
    elif isinstance(record, Open):
        _number(record.flush, "flush", 1)
        _counts(record.counts)
        _included(record.lasts)
    elif hasattr(record, "voters"):
        _stores(record.voters)


def _edits(edits: tuple[Edit, ...]) -> None:
    _length(edits, RECORDS, "edits")
    for edit in edits:
        if isinstance(edit, AddGroup):
            _length(edit.members, MEMBERS, "members")
        if isinstance(edit, AddSite) and len(edit.address) > _NAME:
            raise FrameError(f"address of {len(edit.address)} characters, at most {_NAME}")


def _included(included: tuple[tuple[str, int, str, int], ...]) -> None:
    _length(included, VECTOR_ENTRIES, "lasts")
    for origin, incarnation, group, seq in included:
        _site(origin)
        _number(incarnation, "incarnation", 1)
        check_group(group, "lasts")
        _number(seq, "seq", 1)


def _stores(stores: tuple[tuple[str, int], ...]) -> None:
    _length(stores, MEMBERS, "voters")
    for voter, store in stores:
        _site(voter)
        _number(store, "store")


def _site(name: str) -> None:
    if not is_name(name):
        raise FrameError(f"site is {name[:64]!r}, which is no name")


def _change(name: str) -> None:
    if not 0 < len(name) <= _NAME:
        raise FrameError(f"change: a name of {len(name)} characters, 1 to {_NAME}")


def _number(value: int, what: str, least: int = 0) -> None:
    if not least <= value <= LARGEST_NUMBER:
        raise FrameError(f"{what} is {value}, not within {least} and {LARGEST_NUMBER}")


def _length(values: tuple[object, ...], most: int, what: str) -> None:
    if len(values) > most:
        raise FrameError(f"{what} has {len(values)} elements, at most {most}")
