"""Faults planted in histories: each takes a history and spoils it in one way, if it can."""

import random
from collections.abc import Callable

from msgspec.structs import replace

from ordercast.history.rows import Delivered, Event, GroupRow, History, Sent, gap_detail
from ordercast.model.messages import MessageId
from support.cases.fuzz import digest_of, noise, right_history

Fault = Callable[[random.Random, History], bool]


def duplicate(rng: random.Random, history: History) -> bool:
    """A message is delivered again, at the end."""
    return bool(history.deliveries) and _append(history, rng.choice(history.deliveries))


def hole(rng: random.Random, history: History) -> bool:
    """A row is not there."""
    if history.deliveries:
        history.deliveries.remove(rng.choice(history.deliveries))
        return True
    return False


def skip(rng: random.Random, history: History) -> bool:
    """A message is not delivered at a site, which goes on without a hole."""
    if not history.deliveries:
        return False
    _close_up(history, rng.choice(history.deliveries))
    return True


def swap(rng: random.Random, history: History) -> bool:
    """Two messages of a site change places, and nothing else about their rows."""
    own = _rows_of_one_site(rng, history, at_least=2)
    if not own:
        return False
    _exchange(history, *rng.sample(own, 2))
    return True


def swap_neighbours(rng: random.Random, history: History) -> bool:
    own = _rows_of_one_site(rng, history, at_least=2)
    if not own:
        return False
    at = rng.randrange(len(own) - 1)
    _exchange(history, own[at], own[at + 1])
    return True


def late(rng: random.Random, history: History) -> bool:
    """A message comes at the end of a site's history instead of at its place."""
    own = _rows_of_one_site(rng, history, at_least=2)
    if not own:
        return False
    row = rng.choice(own[:-1])
    _close_up(history, row)
    return _append(history, row)


def ring(rng: random.Random, history: History) -> bool:
    """Three sites share a group pairwise and order the three messages in a ring."""
    sites = sorted({row.site for row in history.groups})
    if len(sites) < 3:
        return False
    a, b, c = rng.sample(sites, 3)
    epoch = max(row.epoch for row in history.groups)
    for name, pair in (("ab", (a, b)), ("bc", (b, c)), ("ca", (c, a))):
        history.groups += [GroupRow(epoch, name, site) for site in pair]
        message = MessageId(a, 1, name, 1)
        time = max((sent.sent_ns for sent in history.sent), default=0) + 1
        history.sent.append(Sent(*message, 0, 0, time, 8, digest_of(message)))
    for site, order in ((a, ("ab", "ca")), (b, ("bc", "ab")), (c, ("ca", "bc"))):
        for name in order:
            message = MessageId(a, 1, name, 1)
            _append(history, _row(site, epoch, message))
    return True


def foreign(rng: random.Random, history: History) -> bool:
    """A site delivers a message of a group of which it is no member."""
    for row in rng.sample(history.deliveries, len(history.deliveries)):
        members = {g.site for g in history.groups if g.group_name == row.group_name}
        others = sorted({g.site for g in history.groups} - members)
        if others:
            return _append(history, replace(row, site=rng.choice(others)))
    return False


def wrong_epoch(rng: random.Random, history: History) -> bool:
    return _change(rng, history, lambda row: replace(row, epoch=row.epoch + rng.choice((-1, 1, 9))))


def wrong_digest(rng: random.Random, history: History) -> bool:
    return _change(rng, history, lambda row: replace(row, digest=-1))


def vanish(rng: random.Random, history: History) -> bool:
    """A message is delivered nowhere; every site goes on without a hole."""
    if not history.deliveries:
        return False
    message = rng.choice(history.deliveries).id
    while rows := [row for row in history.deliveries if row.id == message]:
        _close_up(history, rows[0])
    return True


def unsent(rng: random.Random, history: History) -> bool:
    """A message is delivered that nobody sent."""
    if history.sent:
        history.sent.remove(rng.choice(history.sent))
        return True
    return False


def short_rollback(rng: random.Random, history: History) -> bool:
    """A rollback says it kept one row more, or less, than it did."""
    return _change_event(
        rng, history, "rollback", lambda e: replace(e, position=e.position + rng.choice((1, 1, -1)))
    )


def forgotten_event(rng: random.Random, history: History) -> bool:
    kinds = ("rollback", "gap", "base", "excluded", "returned", "end")
    events = [event for event in history.events if event.kind in kinds]
    if events:
        history.events.remove(rng.choice(events))
        return True
    return False


def misplaced_base(rng: random.Random, history: History) -> bool:
    return _change_event(
        rng, history, "base", lambda e: replace(e, position=max(0, e.position - rng.randint(1, 2)))
    )


def wrong_gap(rng: random.Random, history: History) -> bool:
    """A gap names another message than the one that is missing."""
    other = rng.choice(history.sent).id if history.sent else None
    if other is None:
        return False
    return _change_event(rng, history, "gap", lambda e: replace(e, detail=gap_detail(other)))


def false_end(rng: random.Random, history: History) -> bool:
    """A site is said to have been up and quiet at the end though it was not."""
    ended = {event.site for event in history.events if event.kind == "end"}
    sites = sorted({row.site for row in history.groups} - ended)
    if not sites:
        return False
    site = rng.choice(sites)
    n = max((e.n for e in history.events if e.site == site), default=0) + 1
    history.events.append(Event(site, n, "end", 0, 1, 1, 0))
    return True


def knew_more(rng: random.Random, history: History) -> bool:
    """An origin had delivered more when it sent: what came before it then is not before it."""
    if not history.sent:
        return False
    at = rng.randrange(len(history.sent))
    sent = history.sent[at]
    position = sent.after_position + rng.randint(1, 4)
    history.sent[at] = replace(
        sent, after_position=position, after_attempt=max(1, sent.after_attempt)
    )
    return True


def resent(rng: random.Random, history: History) -> bool:
    """A client's request becomes a second message of the same origin, delivered where the first
    one was."""
    return _resend(rng, history, lambda message: message.origin, delivered=True)


def resent_elsewhere(rng: random.Random, history: History) -> bool:
    """The second message is of another origin."""
    return _resend(rng, history, lambda message: f"{message.origin}{message.origin}", True)


def resent_unplaced(rng: random.Random, history: History) -> bool:
    """The second message was accepted, and delivered nowhere."""
    return _resend(rng, history, lambda message: message.origin, delivered=False)


FAULTS: tuple[Fault, ...] = (
    duplicate,
    hole,
    skip,
    swap,
    swap_neighbours,
    late,
    ring,
    foreign,
    wrong_epoch,
    wrong_digest,
    vanish,
    unsent,
    short_rollback,
    forgotten_event,
    misplaced_base,
    wrong_gap,
    false_end,
    knew_more,
    resent,
    resent_elsewhere,
    resent_unplaced,
)


def broken_history(rng: random.Random) -> tuple[History, list[str]]:
    """A right history with one to three faults in it, and their names."""
    history = right_history(rng)
    chosen = rng.sample(FAULTS, rng.choice((1, 2, 2, 3)))
    return history, [fault.__name__ for fault in chosen if fault(rng, history)]


def any_history(seed: int) -> History:
    """A right, a broken or a noisy history, by the seed."""
    rng = random.Random(seed)
    kind = rng.randrange(4)
    if kind == 0:
        return right_history(rng)
    if kind == 1:
        return noise(rng)
    return broken_history(rng)[0]


def _resend(
    rng: random.Random, history: History, origin: Callable[[MessageId], str], delivered: bool
) -> bool:
    if not history.sent:
        return False
    one = rng.choice(history.sent)
    asked = {"client": "ab" * 16, "request": rng.randint(1, 9), "part": rng.randint(0, 2)}
    if one.client is not None:
        asked = {"client": one.client, "request": one.request, "part": one.part}
    first = one.id
    history.sent[:] = [replace(s, **asked) if s.id == first else s for s in history.sent]
    sender = origin(first)
    own = [s.seq for s in history.sent if s.id[:3] == (sender, *first[1:3])]
    second = {"origin": sender, "seq": max(own, default=0) + 1, "digest": None, **asked}
    time = max(s.sent_ns for s in history.sent) + 1
    history.sent.append(replace(one, sent_ns=time, **second))
    for row in [row for row in history.deliveries if row.id == first and delivered]:
        _append(history, replace(row, **second))
    return True


def _row(site: str, epoch: int, message: MessageId) -> Delivered:
    origin, incarnation, group, seq = message
    return Delivered(site, 0, 1, epoch, group, origin, incarnation, seq, 0, digest_of(message))


def _append(history: History, row: Delivered) -> bool:
    own = [r for r in history.deliveries if r.site == row.site]
    last = max(own, key=lambda r: (r.attempt, r.position), default=replace(row, position=0))
    position = max(
        [last.position, *(e.position for e in history.events if e.site == row.site)], default=0
    )
    history.deliveries.append(replace(row, position=position + 1, attempt=last.attempt))
    return True


def _close_up(history: History, row: Delivered) -> None:
    """Remove a row and let what follows at the site move up."""

    def moved(one: Delivered) -> Delivered:
        follows = (
            one.site == row.site and one.attempt >= row.attempt and one.position > row.position
        )
        return replace(one, position=one.position - 1) if follows else one

    history.deliveries.remove(row)
    history.deliveries[:] = [moved(one) for one in history.deliveries]
    history.events[:] = [
        replace(event, position=event.position - 1)
        if event.site == row.site and event.position > row.position
        else event
        for event in history.events
    ]


def _rows_of_one_site(rng: random.Random, history: History, at_least: int) -> list[Delivered]:
    by_site: dict[str, list[Delivered]] = {}
    for row in history.deliveries:
        by_site.setdefault(row.site, []).append(row)
    enough = [rows for rows in by_site.values() if len(rows) >= at_least]
    return rng.choice(enough) if enough else []


def _exchange(history: History, one: Delivered, other: Delivered) -> None:
    places = [history.deliveries.index(one), history.deliveries.index(other)]
    for at, place, message in zip(places, (one, other), (other, one), strict=True):
        history.deliveries[at] = replace(
            message, position=place.position, attempt=place.attempt, delivered_ns=place.delivered_ns
        )


def _change(rng: random.Random, history: History, change: Callable[[Delivered], Delivered]) -> bool:
    if not history.deliveries:
        return False
    at = rng.randrange(len(history.deliveries))
    history.deliveries[at] = change(history.deliveries[at])
    return True


def _change_event(
    rng: random.Random, history: History, kind: str, change: Callable[[Event], Event]
) -> bool:
    places = [i for i, event in enumerate(history.events) if event.kind == kind]
    if not places:
        return False
    at = rng.choice(places)
    history.events[at] = change(history.events[at])
    return True
