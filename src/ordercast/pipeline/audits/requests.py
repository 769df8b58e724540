"""Requests of clients: which parts of them stand under two messages or more.

Clients are too many to be known everywhere, as sites are. A packed value brings the names of its
own clients, which get numbers where the value is read.

The messages of one request may lie in any shares. So a share tells, for each of its messages, what
its rows say was asked for. That travels beside the rows to the parts, divided by client, request
and part: in the same shuffle, and not at all where no row names a client.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import msgspec
import numpy as np
import pyarrow as pa

from ordercast.check.copies import NUMBERED
from ordercast.history.rows import REPEATING
from ordercast.history.tables import REQUEST
from ordercast.pipeline.audits.evidence import Evidence
from ordercast.pipeline.audits.facts import Facts, is_in
from ordercast.pipeline.audits.listing import Listing
from ordercast.pipeline.audits.numbers import Bools, Columns, Ints, StreamArrays
from ordercast.pipeline.audits.packing import by_key, join, pack, unpack
from ordercast.pipeline.audits.rows import DELIVERED, DeliveryRows, is_live

NOBODY = -1


@dataclass
class Clients:
    """Numbers the clients of a share in the order in which they come."""

    names: list[str] = field(default_factory=list)
    _known: dict[str, int] = field(default_factory=dict)

    def numbers(self, names: Iterable[str | None]) -> Ints:
        """One for each name; None is nobody."""
        return np.array([NOBODY if n is None else self._number(n) for n in names], np.int64)

    def _number(self, name: str) -> int:
        number = self._known.setdefault(name, len(self.names))
        if number == len(self.names):
            self.names.append(name)
        return number


@dataclass(frozen=True)
class Read:
    """The requests in a batch of a table; no columns where no row names a client."""

    columns: Columns = field(default_factory=dict)
    names: list[str | None] = field(default_factory=list)  # by the numbers in the column `client`
    rows: int = 0
    null: str = ""  # a column without a value in a row that names a client

    def renumber(self, own: Columns) -> list[str | None]:
        """Number the clients of some rows anew; returns their names."""
        if not self.columns:
            return []
        used, own["client"] = np.unique(own["client"], return_inverse=True)
        return [self.names[number] for number in used.tolist()]


def read_requests(table: pa.Table) -> Read:
    if "client" not in table.column_names:
        return Read()
    clients = table.column("client").combine_chunks()
    rows = len(clients) - clients.null_count
    if not rows:
        return Read()
    encoded = clients.dictionary_encode(null_encoding="encode")
    columns: Columns = {"client": encoded.indices.to_numpy().astype(np.int64)}
    asked = clients.is_valid().to_numpy(zero_copy_only=False)
    null = ""
    for name in REQUEST[1:]:
        values = pa.nulls(len(clients), pa.int64())
        if name in table.column_names:
            values = table.column(name).combine_chunks()
        if not null and not values.is_valid().to_numpy(zero_copy_only=False)[asked].all():
            null = name
        columns[name] = values.fill_null(0).to_numpy()
    return Read(columns, encoded.dictionary.to_pylist(), rows, null)


def unasked(rows: int) -> Columns:
    """The columns of rows that name no client."""
    return {name: np.full(rows, NOBODY, np.int64) for name in REQUEST}


_TOLD = (*REQUEST, "message", "copy")
_MIX = np.uint64(0x9E3779B97F4A7C15)


def divide_requests(
    columns: Columns, clients: Clients, facts: Facts, shares: int
) -> Iterator[tuple[int, bytes]]:
    """Each pair of a request and a message once, packed by client, request and part."""
    rows = np.flatnonzero(columns["client"] != NOBODY)
    # A message of a producer, or with an id, may be sent again: only its rows that are delivered
    # count. And what was dropped as a copy: something like it must be delivered.
    produced, numbered = (
        np.array([name.startswith(begin) for name in clients.names], bool)
        for begin in (REPEATING, NUMBERED)
    )
    copies = is_in(columns["message"][rows], facts.copies) & numbered[columns["client"][rows]]
    rows = rows[(columns["kind"][rows] == DELIVERED) | ~produced[columns["client"][rows]] | copies]
    place = (columns[name][rows] for name in ("site", "position", "attempt"))
    rows = rows[(columns["kind"][rows] != DELIVERED) | is_live(facts, *place)]
    told = {name: columns[name][rows] for name in (*REQUEST, "message")}
    was_sent = columns["kind"][rows] != DELIVERED
    told["copy"] = (was_sent & produced[told["client"]]).astype(np.int64)
    own = _distinct(told, _TOLD)
    hashes = np.array([_hash(name) for name in clients.names], np.uint64)
    mixed = (hashes[own["client"]] + own["request"].astype(np.uint64)) * _MIX
    mixed ^= mixed >> np.uint64(32)
    mixed = (mixed + own["part"].astype(np.uint64)) * _MIX
    mixed ^= mixed >> np.uint64(32)
    for share, own_rows in by_key((mixed % np.uint64(shares)).astype(np.int64)):
        piece = {name: column[own_rows] for name, column in own.items()}
        used, piece["client"] = np.unique(piece["client"], return_inverse=True)
        names = [clients.names[number] for number in used.tolist()]
        yield share, msgspec.msgpack.encode((pack(piece), names))


_PIECE = msgspec.msgpack.Decoder(tuple[bytes, list[str]])


def judge_requests(
    values: Iterable[bytes],
    facts: Facts,
    streams: StreamArrays,
    evidence: Evidence,
    listing: Listing | None,
) -> None:
    """Judge one share of `divide_requests`, which holds all rows of its requests."""
    clients = Clients()
    pieces = []
    for packed, names in map(_PIECE.decode, values):
        piece = unpack(packed)
        piece["client"] = clients.numbers(names)[piece["client"]]
        pieces.append(piece)
    own = join(pieces)
    own["run"] = streams.run[streams.of(own["message"])]
    own["rank"], own["seq"] = streams.id_order(own["message"])
    by = ("run", *REQUEST)
    own = _distinct(own, (*by, "copy", "rank", "seq"))
    _judge_copies(own, by, facts, evidence, listing)
    own = {name: column[own["copy"] == 0] for name, column in own.items()}
    begins = np.flatnonzero(_changes(own, by))
    counts = np.diff(np.append(begins, len(own["message"])))
    found = begins[counts > 1]  # where the smallest id of a part is; the next one follows it
    check = evidence.check("resent")
    if not len(found):
        return
    asked = {name: own[name][found].tolist() for name in by}
    asked["client"] = [clients.names[number] for number in asked["client"]]
    key, row = min((list(key), int(row)) for *key, row in zip(*asked.values(), found, strict=True))
    messages = own["message"][[row, row + 1]].tolist()
    check.see(len(found), key, [*key[1:], *messages])
    if listing is not None:
        request, part = own["request"][found], own["part"][found]
        told = {"client": evidence.number(asked["client"]), "request": request, "part": part}
        listing.add("resent", len(found), message=own["message"][found + 1], **told)


def _judge_copies(
    own: Columns, by: tuple[str, ...], facts: Facts, evidence: Evidence, listing: Listing | None
) -> None:
    """What was dropped as a copy although nothing like it was delivered is lost. `own` is sorted;
    of one request the copies come last."""
    if not own["copy"].any():
        return
    new = _changes(own, by)
    first = own["copy"][np.flatnonzero(new)]  # of each request: are there copies alone?
    alone = first[np.cumsum(new) - 1] == 1
    message = own["message"][alone]
    member = facts.copy_members[np.searchsorted(facts.copies, message)]
    evidence.count("pending", int(np.count_nonzero(member < 0)))
    rows = np.flatnonzero(alone)[member >= 0]
    message, member = message[member >= 0], member[member >= 0]
    if not len(rows):
        return
    least = int(np.lexsort((own["seq"][rows], own["rank"][rows]))[0])
    key = [int(own["rank"][rows[least]]), int(own["seq"][rows[least]])]
    evidence.check("lost").see(len(rows), key, [int(message[least]), int(member[least])])
    if listing is not None:
        listing.add("lost", len(rows), site=member, message=message)


def tell_both(deliveries: DeliveryRows, messages: Ints, evidence: Evidence) -> None:
    """Where the two messages of a witness were delivered."""
    rows = np.flatnonzero(np.isin(deliveries.place.message, messages))
    evidence.table(
        "both",
        deliveries.site[rows],
        deliveries.place.message[rows],
        deliveries.place.position[rows],
    )


def place_of_both(columns: list[Ints], one: int, other: int) -> list[int]:
    """The first site that has delivered both, and their positions there; nothing if none has."""
    first: dict[int, dict[int, int]] = {}
    for site, message, position in sorted(zip(*(c.tolist() for c in columns), strict=True)):
        first.setdefault(site, {}).setdefault(message, position)
    for site, at in sorted(first.items()):
        if len(at) == 2:
            return [site, at[one], at[other]]
    return []


def _distinct(columns: Columns, by: tuple[str, ...]) -> Columns:
    """Sorted by these columns; of rows that are equal in them, one."""
    order = np.lexsort([columns[name] for name in reversed(by)])
    ordered = {name: column[order] for name, column in columns.items()}
    new = _changes(ordered, by)
    return {name: column[new] for name, column in ordered.items()}


def _changes(columns: Columns, by: tuple[str, ...]) -> Bools:
    """Where any of these columns differs from the row before."""
    new = np.ones(len(columns[by[0]]), bool)
    if len(new):
        new[1:] = np.any([columns[name][1:] != columns[name][:-1] for name in by], axis=0)
    return new


def _hash(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big")
