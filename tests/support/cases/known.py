"""Histories in a readable form, with the verdict that each must get (tests/check/data/*.txt).

A file holds cases, each under a line `=== title`. Lines of a case:

    group 2 alpha: a b -c             the members in epoch 2 (default 1); -c: nominal, not live
    level 1 agreed                    what epoch 1 delivers (default safe)
    send m1 x alpha after=3/1 at=7    a message by name; also inc=, seq=, digest=, and what
                                      client asked for it: asked=client/request/part
    unsent m9 x alpha                 a name for a message that is in no table
    a: m1 m2 [m3] . m4                rows in order; [m3]: a gap; the dot leaves a position out
    a epoch=2 attempt=2 from=5: m5!   more rows: from position 5; m5! has another digest,
                                      m5? does not say who asked for it
    event a rollback position=4       also attempt=, epoch=, message= (for a gap)
    event a dropped message=m1        also outcome=
    end a b                           an event `end` at each
    expect fifo 1                     a count; what is not expected is 0
    witness fifo {"message": "m1"}    the witness, or some of its fields; messages by name

Times, digests and what is left out are filled in.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ordercast.history.rows import (
    Delivered,
    EpochRow,
    Event,
    GroupRow,
    History,
    Sent,
    dropped_detail,
    gap_detail,
)
from ordercast.model.messages import MessageId

DATA = Path(__file__).parents[2] / "check" / "data"
INFORMATIVE = ("pending", "unagreed", "annulled")


@dataclass
class Case:
    title: str
    history: History = field(default_factory=History)
    expected: dict[str, int] = field(default_factory=dict)
    witnesses: dict[str, dict[str, Any]] = field(default_factory=dict)
    ids: dict[str, MessageId] = field(default_factory=dict)
    asked: dict[str, dict[str, str | int]] = field(default_factory=dict)
    positions: dict[str, int] = field(default_factory=dict)

    def named(self, value: Any) -> Any:
        """A witness with names instead of message ids."""
        names = {tuple(message): name for name, message in self.ids.items()}
        if isinstance(value, list):
            if len(value) == 4 and isinstance(value[0], str):
                return names.get(tuple(value), value)
            return [self.named(one) for one in value]
        if isinstance(value, dict):
            return {key: self.named(one) for key, one in value.items()}
        return value


def known_cases(name: str) -> list[Case]:
    """The cases of a file of tests/check/data."""
    cases: list[Case] = []
    for line in (DATA / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("==="):
            cases.append(Case(line.strip("= ")))
        elif line.strip() and not line.startswith("#"):
            _read(cases[-1], line)
    for case in cases:
        _fill_epochs(case.history)
    return cases


def _read(case: Case, line: str) -> None:
    head, _, rest = line.partition(" ")
    if head == "group":
        _read_group(case, rest)
    elif head == "level":
        epoch, level = rest.split()
        case.history.epochs.append(EpochRow(int(epoch), "d", level, "exclude", "none", "test", 0))
    elif head == "send":
        case.history.sent.append(_read_send(case, rest))
    elif head == "unsent":
        _read_send(case, rest)
    elif head == "event":
        _read_event(case, rest)
    elif head == "end":
        for site in rest.split():
            _tell(case, site, "end", {})
    elif head == "expect":
        name, count = rest.split()
        case.expected[name] = int(count)
    elif head == "witness":
        name, _, text = rest.partition(" ")
        case.witnesses[name] = json.loads(text)
    else:
        _read_rows(case, line)


def _options(words: list[str]) -> dict[str, str]:
    return dict(word.split("=", 1) for word in words)


def _read_group(case: Case, text: str) -> None:
    head, _, members = text.partition(":")
    epoch, group = head.split() if " " in head else ("1", head)
    case.history.groups += [
        GroupRow(int(epoch), group, member.lstrip("-"), not member.startswith("-"))
        for member in members.split()
    ]


def _read_send(case: Case, text: str) -> Sent:
    name, origin, group, *words = text.split()
    options = _options(words)
    incarnation = int(options.get("inc", 1))
    earlier = [s for s in case.history.sent if s.id[:3] == (origin, incarnation, group)]
    seq = int(options.get("seq", len(earlier) + 1))
    position, _, attempt = options.get("after", "0/0").partition("/")
    after = (int(position), int(attempt or 1))
    at = int(options.get("at", len(case.history.sent)))
    digest = None if options.get("digest") == "none" else 7
    case.ids[name] = MessageId(origin, incarnation, group, seq)
    case.asked[name] = _read_asked(options.get("asked", ""))
    return replace(Sent(*case.ids[name], *after, at, 8, digest), **case.asked[name])


def _read_asked(text: str) -> dict[str, str | int]:
    if not text:
        return {}
    client, request, part = text.rsplit("/", 2)
    return {"client": client, "request": int(request), "part": int(part)}


def _read_rows(case: Case, line: str) -> None:
    head, _, words = line.partition(":")
    site, *more = head.split()
    options = _options(more)
    attempt, epoch = int(options.get("attempt", 1)), int(options.get("epoch", 1))
    position = int(options.get("from", case.positions.get(site, 0) + 1)) - 1
    for word in words.split():
        position += 1
        if word == ".":
            continue
        if word.startswith("["):
            place = {"position": position, "attempt": attempt, "epoch": epoch}
            _tell(case, site, "gap", {**place, "message": word.strip("[]")})
            continue
        name = word.strip("!?")
        group, origin, incarnation, seq = _by_group(case.ids[name])
        digest = 8 if word.endswith("!") else 7
        row = Delivered(
            site, position, attempt, epoch, group, origin, incarnation, seq, position, digest
        )
        asked = {} if word.endswith("?") else case.asked[name]
        case.history.deliveries.append(replace(row, **asked))
    case.positions[site] = position


def _by_group(message: MessageId) -> tuple[str, str, int, int]:
    return (message.group, message.origin, message.incarnation, message.seq)


def _read_event(case: Case, text: str) -> None:
    site, kind, *words = text.split()
    options: dict[str, Any] = _options(words)
    _tell(
        case,
        site,
        kind,
        {k: v if k in ("message", "outcome") else int(v) for k, v in options.items()},
    )


def _tell(case: Case, site: str, kind: str, options: dict[str, Any]) -> None:
    n = sum(event.site == site for event in case.history.events) + 1
    position = options.get("position", case.positions.get(site, 0))
    place = (position, options.get("attempt", 1), options.get("epoch", 1))
    detail = "{}"
    if kind in ("gap", "dropped"):
        named = case.ids[options["message"]]
        outcome = options.get("outcome", "")
        detail = gap_detail(named) if kind == "gap" else dropped_detail(named, outcome)
    case.history.events.append(Event(site, n, kind, *place, n, detail))


def _fill_epochs(history: History) -> None:
    told = {row.epoch for row in history.epochs}
    for epoch in sorted({row.epoch for row in history.groups} - told):
        history.epochs.append(EpochRow(epoch, "d", "safe", "exclude", "none", "test", 0))
