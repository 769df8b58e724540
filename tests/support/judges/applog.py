"""What an application notes of its dealings with a site, over all of the site's lives, and whether
that is what it was promised: no jump, no hole, the same content again, everything again that is not
confirmed, nothing again that is."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

from ordercast.history.digest import digest
from ordercast.history.rows import History
from ordercast.net.site.gaps import Gap

Note: TypeAlias = tuple[Any, ...]
"""("open",), ("saw", position, group, origin, incarnation, seq, digest), ("confirming", position),
("confirmed", position), ("accepted", group, first seq, [digests]), ("rolled", position, how many)
where deliveries were taken back. What is not judged: ("manager", site), ("standing", state),
("epoch", number), ("links", {peer: through which site}), and ("refused", why) of what was not
taken."""


def saw(item: Any) -> Note:
    """A gap has no digest."""
    content = None if isinstance(item, Gap) else digest(item.payload)
    return "saw", item.position, item.group, item.origin, item.incarnation, item.seq, content


def accepted(receipt: Any, payloads: list[bytes]) -> Note:
    """Of a batch, by the receipt of its last message."""
    first = receipt.seq - len(payloads) + 1
    return "accepted", receipt.group, first, [digest(payload) for payload in payloads]


def read_notes(path: Path) -> list[Note]:
    """A line each; a process that was killed may have torn the last one."""
    notes = []
    for line in path.read_bytes().split(b"\n"):
        try:
            notes.append(tuple(json.loads(line)))
        except ValueError:
            continue
    return notes


def judge(site: str, notes: Iterable[Note]) -> list[str]:
    """What is wrong with one site's stream; nothing, if all is well."""
    wrong: list[str] = []
    told: dict[int, Note] = {}
    surely = maybe = 0  # the confirmed position: of calls that returned, of all calls
    expected: int | None = None
    for note in notes:
        kind = note[0]
        if kind == "open":
            expected = None
        elif kind == "confirming":
            maybe = max(maybe, note[1])
        elif kind == "confirmed":
            surely = max(surely, note[1])
        elif kind == "rolled":
            position = note[1]
            if expected is not None and position >= expected:
                wrong.append(f"{site}: rolled back to {position}, it had {expected - 1}")
            told = {at: seen for at, seen in told.items() if at <= position}
            surely, maybe, expected = min(surely, position), min(maybe, position), position + 1
        elif kind == "saw":
            position = note[1]
            if expected is None:
                if not surely < position <= maybe + 1:
                    wrong.append(
                        f"{site}: starts at {position}; {surely} is confirmed, {maybe} at most"
                    )
                surely = maybe = max(surely, position - 1)  # the log is durable up to here
            elif position != expected:
                wrong.append(f"{site}: {position} follows {expected - 1}")
            expected = position + 1
            if told.setdefault(position, note) == (*note[:-1], None):
                told[position] = note  # a gap that was not durable may be a message after a restart
            elif told[position] != note:
                wrong.append(f"{site}: {position} was {told[position][2:]}, now {note[2:]}")
    if sorted(told) != list(range(1, len(told) + 1)):
        wrong.append(f"{site}: of {max(told, default=0)} positions {len(told)} were seen")
    return wrong


def standing(notes: list[Note]) -> list[Note]:
    """The notes without deliveries that were rolled back."""
    found: list[Note] = []
    for note in notes:
        if note[0] == "rolled":
            found = [one for one in found if one[0] != "saw" or one[1] <= note[1]]
        found.append(note)
    return found


def compare(notes: dict[str, list[Note]], history: History) -> list[str]:
    """Whether applications saw what the stores say, and stores have what applications sent."""
    wrong: list[str] = []
    rows = {
        (row.site, row.position): (
            row.group_name, row.origin, row.incarnation, row.seq, row.digest,
        )
        for row in sorted(history.deliveries, key=lambda row: row.attempt)  # the last stands
    }  # fmt: skip
    sent = {
        (row.origin, row.group_name, row.seq): row.digest
        for row in history.sent
        if row.digest is not None
    }
    for site, noted in notes.items():
        last, shed = 0, False
        for note in standing(noted):
            if note[0] == "saw":
                last = max(last, note[1])
                shed = shed or note[-1] is None
                if note[-1] is not None and rows.get((site, note[1])) != note[2:]:
                    wrong.append(f"{site}: saw {note[1:]}, stored {rows.get((site, note[1]))}")
            elif note[0] == "accepted":
                _, group, first, digests = note
                for seq, known in enumerate(digests, first):
                    if sent.get((site, group, seq)) != known:
                        wrong.append(f"{site}: message {seq} to {group} was accepted, not stored")
        stored = max((at for owner, at in rows if owner == site), default=0)
        if stored > last or (stored < last and not shed):
            wrong.append(f"{site}: saw up to {last}, the store has {stored}")
    return wrong
