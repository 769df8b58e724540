"""Broken variants of the flush and the return that the schedules must catch: each takes away one
argument of docs/epochs.md. A mutant is a set of replacements, in force while a schedule runs."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace as changed

from ordercast.core.engine import Engine
from ordercast.core.epochs import absence, changes, exclusions, flush, log_tail, past
from ordercast.core.epochs.exclusions import Exclusions
from ordercast.core.epochs.flush import Flusher
from ordercast.core.epochs.layout import Flushing, Layout
from ordercast.core.epochs.log_tail import Agreed, Rollback
from ordercast.core.epochs.missed_messages import Missed
from ordercast.core.epochs.past import Chosen
from ordercast.core.epochs.raft import Raft
from ordercast.core.epochs.records import Confirmed
from ordercast.core.own_messages import OwnMessages
from ordercast.core.stability.plain import Plain
from ordercast.model.groups import Group, Site
from ordercast.model.messages import DeliveredBatch, MessageId, Placed
from ordercast.wire.epochs import LogReport, PastNeeded

Patches = list[tuple[Any, str, Any]]

MUTANTS: dict[str, Callable[[], Patches]] = {}


def mutant(make: Callable[[], Patches]) -> Callable[[], Patches]:
    MUTANTS[make.__name__] = make
    return make


@contextmanager
def broken(name: str) -> Iterator[None]:
    with in_force(MUTANTS[name]()):
        yield


@contextmanager
def in_force(patches: Patches) -> Iterator[None]:
    with ExitStack() as parts:
        for owner, attribute, replacement in patches:
            parts.enter_context(patch.object(owner, attribute, replacement))
        yield


# --- sealing and reporting ------------------------------------------------------------------------


@mutant
def deliveries_are_reported_instead_of_logs() -> Patches:
    """At `safe` a site has more in its log than it has delivered."""
    plain = Flusher.report

    def report(self: Flusher) -> LogReport | None:
        found = plain(self)
        engines = self._member.engines
        if found is None or self._member.options.deliver != "safe":
            return found
        counts = []
        for epoch, group, number, members in found.counts:
            if epoch in engines:
                gate, position = engines[epoch].gate, engines[epoch].gate.logged
                for placed in reversed(engines[epoch].log()):
                    if position > gate.delivered and placed.batch.group == group:
                        number = placed.number - 1
                    position -= placed.batch.count
            counts.append((epoch, group, number, members))
        return changed(found, counts=tuple(counts))

    return [(Flusher, "report", report)]


@mutant
def who_has_reported_goes_on() -> Patches:
    return [(Engine, "freeze", lambda _: None)]


@mutant
def what_is_sealed_is_delivered() -> Patches:
    """Before the past is chosen: at `safe`, all that was logged."""
    plain = Engine.freeze

    def freeze(self: Engine) -> None:
        if self.gate.safe and self.epoch_state.works:
            for placed in self.gate.settle_all():
                self._deliver(placed)
        plain(self)

    return [(Engine, "freeze", freeze)]


@mutant
def stable_entries_are_left_out_without_their_counts() -> Patches:
    def counts(self: Engine) -> dict[Group, tuple[int, tuple[Site, ...]]]:
        return {
            placed.batch.group: (placed.number + placed.batch.count - 1, placed.batch.members)
            for placed in self.log()
        }

    return [(Engine, "counts", counts)]


@mutant
def last_seqs_of_stable_entries_are_left_out() -> Patches:
    plain = Engine.log_seqs

    def log_seqs(self: Engine) -> Any:
        forgotten, self.retention.log_seqs = self.retention.log_seqs, {}
        found = plain(self)
        self.retention.log_seqs = forgotten
        return found

    return [(Engine, "log_seqs", log_seqs)]


def a_restart_resumes() -> Patches:
    """Too rare for drawn schedules: `tests/core/epochs/test_entering.py` has the one that shows."""

    def restarted(self: Flusher) -> None:
        self._replaying = False

    def is_sealed(self: Flusher, epoch: int) -> bool:
        flush = self._member.layout.flushing
        return flush is not None and epoch in flush.epochs

    return [
        (Flusher, "restarted", restarted),
        (Flusher, "is_sealed", is_sealed),
        (Flusher, "entering", lambda *_: None),
    ]


# --- choosing -------------------------------------------------------------------------------------


@mutant
def two_managers() -> Patches:
    """A leader needs nobody's word but its own."""
    return [(Raft, "_enough", lambda _, having: bool(having))]


@mutant
def the_shortest_log_is_the_past() -> Patches:
    plain = past.choose

    def choose(layout: Layout, reports: Mapping[Site, LogReport]) -> Chosen:
        counts: dict[tuple[int, Group], int] = {}
        for report in reports.values():
            for epoch, group, number, _ in report.counts:
                counts[epoch, group] = min(number, counts.get((epoch, group), number))
        cut = {
            site: changed(
                report, counts=tuple((e, g, counts[e, g], m) for e, g, _, m in report.counts)
            )
            for site, report in reports.items()
        }
        return plain(layout, cut)

    return [(exclusions, "choose", choose)]


@mutant
def open_does_not_wait() -> Patches:
    """One site has all of the past: that must do."""

    def any_whole(self: Exclusions, flush: Flushing) -> bool:
        return not flush.members or any(site in self._whole for site in flush.members)

    plain = Flusher._agree

    def agree(self: Flusher, tail: Any) -> None:
        if self.confirmed is None:
            self.confirmed = Confirmed(0, (tail.epoch,), tuple(
                (tail.epoch, g, n, m) for g, (n, m) in tail.counts.items()
            ))  # fmt: skip
        plain(self, tail)

    return [(Exclusions, "_all_whole", any_whole), (Flusher, "_agree", agree)]


@mutant
def the_log_is_cut_before_the_past_is_there() -> Patches:
    """Whole, although something is lacking."""

    def advance(self: Flusher, _only: object = None) -> None:
        if self._past is not None:
            self._confirm(self._past)

    return [(Flusher, "advance", advance)]


@mutant
def the_past_is_delivered_before_open() -> Patches:
    plain = Flusher._confirm

    def confirm(self: Flusher, told: PastNeeded) -> None:
        plain(self, told)
        member = self._member
        counts = {(epoch, group): number for epoch, group, number, _, _ in told.needs}
        fetched = {
            epoch: [placed for batches in groups.values() for placed in batches.values()]
            for epoch, groups in self.fetched.items()
        }
        for epoch in {need[0] for need in told.needs} & set(member.engines):
            tail = log_tail.tail_of(member.engines[epoch], epoch)
            if self.tail is None:
                member.delivering.extend(log_tail.agree(tail, counts, fetched, self.attempt).items)

    return [(Flusher, "_confirm", confirm)]


@mutant
def the_past_is_not_in_key_order() -> Patches:
    def by_group(placed: Any) -> list[Placed]:
        return sorted(placed, key=lambda one: (one.batch.group, one.number))

    return [(log_tail, "in_order", by_group)]


# --- frozen groups --------------------------------------------------------------------------------


@mutant
def a_frozen_group_is_emptied() -> Patches:
    return [(absence, "_frozen", lambda *_: {})]


def anybody_settles_a_frozen_group() -> Patches:
    """Also a site that was absent already when the group's last epoch was closed. Too rare for
    drawn schedules: `tests/core/epochs/test_entering.py` has the one that shows."""
    plain = absence._frozen

    def frozen(layout: Layout, *rest: Any) -> dict[Group, tuple[int, tuple[Site, ...]]]:
        return {
            group: (epoch, layout.groups.get(group, settlers))
            for group, (epoch, settlers) in plain(layout, *rest).items()
        }

    return [(absence, "_frozen", frozen)]


# --- returning ------------------------------------------------------------------------------------


@mutant
def rollback_is_one_short() -> Patches:
    plain = log_tail.agree

    def agree(*args: Any) -> Agreed:
        agreed = plain(*args)
        items = tuple(
            changed(item, position=item.position + 1, annulled=item.annulled[1:])
            if isinstance(item, Rollback)
            else item
            for item in agreed.items
        )
        return changed(agreed, items=items)

    return [(flush, "agree", agree)]


@mutant
def rollback_is_one_too_many() -> Patches:
    plain = log_tail.agree

    def agree(tail: Any, counts: Any, fetched: Any, attempt: int) -> Agreed:
        agreed = plain(tail, counts, fetched, attempt)
        first = agreed.items[0] if agreed.items else None
        if not isinstance(first, Rollback) or first.position == tail.position:
            return agreed
        shorter = first.position - tail.position
        named, position = [], tail.position
        for placed in tail.log:
            batch = placed.batch
            for seq in range(batch.seq, batch.seq + batch.count):
                position += 1
                if position == tail.position + shorter:
                    named.append((position, MessageId(
                        batch.origin, batch.incarnation, batch.group, seq
                    )))  # fmt: skip
        more = changed(first, position=first.position - 1, annulled=(*named, *first.annulled))
        return changed(agreed, items=(more, *agreed.items[1:]))

    return [(flush, "agree", agree)]


@mutant
def the_tail_is_kept() -> Patches:
    """Who returns keeps all of its log."""
    plain = log_tail.agree

    def agree(tail: Any, counts: Any, fetched: Any, attempt: int) -> Agreed:
        most = {
            (tail.epoch, group): max(number, counts.get((tail.epoch, group), 0))
            for group, (number, _) in tail.counts.items()
        }
        return plain(tail, {**counts, **most}, fetched, attempt)

    return [(flush, "agree", agree)]


@mutant
def who_is_absent_is_not_sealed() -> Patches:
    """It goes on delivering what it had logged, and asks to return."""
    plain = Flusher.leave

    def leave(self: Flusher, epoch: int, engine: Engine, mine: Any, unplaced: Any) -> bool:
        done = plain(self, epoch, engine, mine, unplaced)
        tail = self.tail
        if tail is not None and tail.epoch == epoch:
            position = tail.position
            for placed in tail.log:
                if position >= tail.delivered:
                    batch = DeliveredBatch(position + 1, epoch, placed, self.attempt)
                    self._member.delivering.append(batch)
                position += placed.batch.count
            self.tail = changed(tail, delivered=position)
        return done

    return [(Flusher, "leave", leave)]


@mutant
def what_was_not_placed_is_not_sent_again() -> Patches:
    plain = Flusher.leave

    def leave(self: Flusher, epoch: int, engine: Engine, mine: Any, unplaced: Any) -> bool:
        return plain(self, epoch, engine, mine, list(unplaced))

    return [(Flusher, "leave", leave)]


@mutant
def what_the_absent_miss_is_not_kept() -> Patches:
    return [(Missed, "remembering", lambda *_: None)]


@mutant
def who_lost_its_store_passes_for_itself() -> Patches:
    return [
        (Flusher, "takes_part", lambda _: True),
        (Flusher, "stranger", lambda _: False),
        (Exclusions, "_lost", lambda *_: False),
    ]


# --- causal order: `tests/core/epochs/test_causal_failures.py` has the runs that show -------------


def another_group_overtakes() -> Patches:
    return [(OwnMessages, "one_group_at_a_time", lambda _: None)]


def others_overtake_what_waits() -> Patches:
    return [(Flusher, "require_nothing_waits", lambda _: None)]


def nobody_stands_in() -> Patches:
    def as_usual(_layout: Layout, _absent: Any, protocol: str) -> tuple[str, str]:
        return protocol, ""

    return [(absence, "in_force", as_usual), (changes, "in_force", as_usual)]


# --- stability ------------------------------------------------------------------------------------


@mutant
def stability_over_those_that_were_heard() -> Patches:
    """A member that has said nothing yet holds nobody up."""
    plain = Plain._recount

    def recount(self: Plain, group: Group) -> bool:
        members = self._members.get(group)
        if members is None:
            return False
        heard, _ = self._heard.get(group, ({}, {}))
        self._members[group] = tuple(s for s in members if s == self.site or s in heard)
        news = plain(self, group)
        self._members[group] = members
        return news

    return [(Plain, "_recount", recount)]
