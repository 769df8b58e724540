"""What any decoded frame must satisfy beyond its types; those of a link as `wire.checks` has it.

Frames that are not of a link are seldom sent, so they are checked by the sender too: what the other
end would refuse costs both the connection, and would be sent again on the next one.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from ordercast.model.epochs import (
    AddGroup,
    AddSite,
    AddVoter,
    Admit,
    Begin,
    Edit,
    Entry,
    EpochRecord,
    Finish,
    Flush,
    Founded,
    JoinGroup,
    Lapse,
    LeaveGroup,
    Open,
    RemoveGroup,
    RemoveVoter,
    RetireSite,
    Stored,
    Stores,
    UseBuilder,
    UseProtocol,
    Voters,
)
from ordercast.model.errors import FrameError
from ordercast.wire.checks import (
    check_frame,
    check_group,
    check_length,
    check_number,
    check_site,
)
from ordercast.wire.dissemination import SPREADING_RULES
from ordercast.wire.epochs import Ask, Fed, Feed, InEpoch
from ordercast.wire.flush_checks import FLUSH_RULES, check_counts, check_included
from ordercast.wire.frames import Ack, Data, Repair
from ordercast.wire.handover import CHECKSUM_BYTES, NoSnapshot, SnapshotPiece, SnapshotWanted
from ordercast.wire.limits import FOLDED_BYTES, LASTS, MEMBERS, PIECE_BYTES, RECORDS, TEXT, VOTERS
from ordercast.wire.voting import Append, Appended, Install, Vote, Voted

NOWHERE: Final = -1  # the count of a site that has folded nothing, not even the founding layout


def check_any_frame(frame: object) -> None:
    """Raise FrameError, naming the field and its value, unless the frame keeps every rule."""
    FRAME_RULES[type(frame)](frame)


def check_change(change: str, edits: Sequence[Edit]) -> None:
    """Whether a change may be asked for at all: names, and how much it is."""
    _begun(change, edits)
    if not edits:
        raise FrameError("change: there is no edit in it")


def _begun(change: str, edits: Sequence[Edit]) -> None:
    """As it stands in a log. One with no edit could be asked for once: it is passed on as it is,
    and the fold refuses it."""
    _text(change, "change", least=1)
    check_length(edits, 0, RECORDS, "edits")
    members = 0
    for place, edit in enumerate(edits):
        where = f"edits[{place}]"
        EDIT_RULES[type(edit)](edit, where)
        if isinstance(edit, AddGroup):
            members += len(edit.members)
    if members > MEMBERS:
        raise FrameError(f"edits: {members} members of new groups, at most {MEMBERS}")


# --- frames ---------------------------------------------------------------------------------------


def _in_epoch(frame: InEpoch) -> None:
    check_number(frame.epoch, 1, "epoch")
    check_frame(frame.frame)


def _feed(frame: Feed) -> None:
    check_number(frame.count, 0, "count")
    check_number(frame.committed, 0, "committed")
    check_length(frame.records, 0, RECORDS, "records")
    _changes(frame.wanted, "wanted")
    for place, record in enumerate(frame.records):
        _record(record, f"records[{place}]")
    _bytes(frame.folded, FOLDED_BYTES, "folded")
    if frame.folded and frame.records:
        raise FrameError("records stand beside what they fold to")


def _fed(frame: Fed) -> None:
    check_number(frame.count, NOWHERE, "count")
    _changes([change for change, _ in frame.closed], "closed")
    streams = sum(len(included) for _, included in frame.closed)
    if streams > LASTS:
        raise FrameError(f"closed has {streams} streams, at most {LASTS}")
    for _, included in frame.closed:
        check_included(included, "closed")
    _store(frame.store, "store")
    check_number(frame.fetched, 0, "fetched")
    check_number(frame.shelved, 0, "shelved")
    check_counts(frame.counts, "counts")
    for sites, field in ((frame.slow, "slow"), (frame.awaited, "awaited")):
        check_length(sites, 0, MEMBERS, field)
        for site in sites:
            check_site(site, field)


def _ask(frame: Ask) -> None:
    check_change(frame.change, frame.edits)


def _vote(frame: Vote) -> None:
    check_number(frame.term, 0, "term")
    check_number(frame.last, 0, "last")
    check_number(frame.last_term, 0, "last_term")


def _voted(frame: Voted) -> None:
    check_number(frame.term, 0, "term")
    _store(frame.store, "store")


def _append(frame: Append) -> None:
    check_number(frame.term, 0, "term")
    check_number(frame.before, 0, "before")
    check_number(frame.before_term, 0, "before_term")
    check_number(frame.committed, 0, "committed")
    check_number(frame.beat, 0, "beat")
    check_length(frame.entries, 0, RECORDS, "entries")
    for place, entry in enumerate(frame.entries):
        _entry(entry, f"entries[{place}]")


def _appended(frame: Appended) -> None:
    check_number(frame.term, 0, "term")
    check_number(frame.match, 0, "match")
    check_number(frame.beat, 0, "beat")
    _store(frame.store, "store")


def _install(frame: Install) -> None:
    check_number(frame.term, 0, "term")
    check_number(frame.upto, 1, "upto")
    check_number(frame.upto_term, 1, "upto_term")
    check_number(frame.beat, 0, "beat")
    _stores(frame.voters, "voters")
    _bytes(frame.snapshot, FOLDED_BYTES, "snapshot")


def _wanted(frame: SnapshotWanted) -> None:
    _of_group(frame.epoch, frame.group)
    check_number(frame.offset, 0, "offset")


def _piece(frame: SnapshotPiece) -> None:
    _of_group(frame.epoch, frame.group)
    check_number(frame.total, 0, "total")
    check_number(frame.offset, 0, "offset")
    _bytes(frame.data, PIECE_BYTES, "data")
    if len(frame.checksum) != CHECKSUM_BYTES:
        raise FrameError(f"checksum has {len(frame.checksum)} bytes, not {CHECKSUM_BYTES}")
    end = frame.offset + len(frame.data)
    if end > frame.total or (frame.total and not frame.data):
        raise FrameError(f"data ends at {end}, total is {frame.total}, offset {frame.offset}")


def _no_snapshot(frame: NoSnapshot) -> None:
    _of_group(frame.epoch, frame.group)
    _text(frame.why, "why")


FRAME_RULES: Final[dict[type, Callable[[Any], None]]] = {
    Data: check_frame,
    Ack: check_frame,
    Repair: check_frame,
    InEpoch: _in_epoch,
    Feed: _feed,
    Fed: _fed,
    Ask: _ask,
    Vote: _vote,
    Voted: _voted,
    Append: _append,
    Appended: _appended,
    Install: _install,
    SnapshotWanted: _wanted,
    SnapshotPiece: _piece,
    NoSnapshot: _no_snapshot,
    **FLUSH_RULES,
    **SPREADING_RULES,
}


# --- records of the voters' log -------------------------------------------------------------------


def _entry(entry: Entry, where: str) -> None:
    check_number(entry.term, 1, f"{where}.term")
    _record(entry.record, where)


def _record(record: EpochRecord, where: str) -> None:
    if isinstance(record, Begin):
        _begun(record.change, record.edits)
    elif isinstance(record, Finish):
        _text(record.change, f"{where}.change", least=1)
        check_included(record.lasts, f"{where}.lasts")
        check_counts(record.counts, f"{where}.counts")
    elif isinstance(record, Flush):
        _flush(record, where)
    elif isinstance(record, Open):
        check_number(record.flush, 1, f"{where}.flush")
        check_counts(record.counts, f"{where}.counts")
        check_included(record.lasts, f"{where}.lasts")
    elif isinstance(record, Lapse):
        check_length(record.sites, 1, MEMBERS, f"{where}.sites")
        for site in record.sites:
            check_site(site, f"{where}.sites")
    elif isinstance(record, Stored):
        check_site(record.site, f"{where}.site")
        _store(record.store, f"{where}.store")
    elif isinstance(record, (Founded, Voters)):
        _stores(record.voters, f"{where}.voters")
    elif isinstance(record, Admit):
        check_site(record.site, f"{where}.site")
        check_number(record.incarnation, 0, f"{where}.incarnation")
        _store(record.store, f"{where}.store")


def _flush(record: Flush, where: str) -> None:
    check_length(record.out, 0, MEMBERS, f"{where}.out")
    check_length(record.back, 0, MEMBERS, f"{where}.back")
    for site in record.out:
        check_site(site, f"{where}.out")
    for site, incarnation, store in record.back:
        check_site(site, f"{where}.back")
        check_number(incarnation, 1, f"{where}.back: incarnation of {site!r}")
        _store(store, f"{where}.back: store of {site!r}")


def _stores(stores: Stores, where: str) -> None:
    check_length(stores, 1, VOTERS, where)
    for voter, store in stores:
        check_site(voter, where)
        _store(store, f"{where}: store of {voter!r}")


def _store(number: int, where: str) -> None:
    """Drawn from 63 bits, and never counted on: it may be above other numbers."""
    if not 0 <= number < 2**63:
        raise FrameError(f"{where} is {number}, not 0 to {2**63 - 1}")


# --- edits ----------------------------------------------------------------------------------------


def _member_edit(edit: JoinGroup | LeaveGroup, where: str) -> None:
    _named_group(edit.group, f"{where}.group")
    check_site(edit.site, f"{where}.site")


def _add_group(edit: AddGroup, where: str) -> None:
    _named_group(edit.group, f"{where}.group")
    check_length(edit.members, 0, MEMBERS, f"{where}.members")
    for member in edit.members:
        check_site(member, f"{where}.members")


def _remove_group(edit: RemoveGroup, where: str) -> None:
    _named_group(edit.group, f"{where}.group")


def _add_site(edit: AddSite, where: str) -> None:
    check_site(edit.site, f"{where}.site")
    _text(edit.address, f"{where}.address")


def _site_edit(edit: RetireSite | AddVoter | RemoveVoter, where: str) -> None:
    check_site(edit.site, f"{where}.site")


def _use(edit: UseBuilder | UseProtocol, where: str) -> None:
    _text(edit.builder if isinstance(edit, UseBuilder) else edit.protocol, where, least=1)
    if edit.site:
        check_site(edit.site, f"{where}.site")


EDIT_RULES: Final[dict[type, Callable[[Any, str], None]]] = {
    JoinGroup: _member_edit,
    LeaveGroup: _member_edit,
    AddGroup: _add_group,
    RemoveGroup: _remove_group,
    AddSite: _add_site,
    RetireSite: _site_edit,
    AddVoter: _site_edit,
    RemoveVoter: _site_edit,
    UseBuilder: _use,
    UseProtocol: _use,
}


# --- small things ---------------------------------------------------------------------------------


def _of_group(epoch: int, group: str) -> None:
    check_number(epoch, 1, "epoch")
    _named_group(group, "group")


def _named_group(name: str, where: str) -> None:
    check_group(name, where)
    if name.startswith("@"):
        raise FrameError(f"{where}: {name!r} is a list of sites, not a group")


def _changes(names: Sequence[str], where: str) -> None:
    check_length(names, 0, RECORDS, where)
    for name in names:
        _text(name, where, least=1)


def _text(text: str, where: str, least: int = 0) -> None:
    if not least <= len(text) <= TEXT:
        raise FrameError(f"{where}: a text of {len(text)} characters, not {least} to {TEXT}")
    if not (text.isascii() and text.isprintable()):
        raise FrameError(f"{where}: {text[:64]!a} is not printable ASCII")


def _bytes(data: bytes, most: int, where: str) -> None:
    if len(data) > most:
        raise FrameError(f"{where} has {len(data)} bytes, at most {most}")
