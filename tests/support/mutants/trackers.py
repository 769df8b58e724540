"""Broken variants of the trackers by rounds, in a running site: each takes one argument away."""

from collections.abc import Callable
from typing import Any

from ordercast.core.link import Link, Take
from ordercast.core.stability import arrays, seat
from ordercast.core.stability.arrays import LogArray
from ordercast.core.stability.by_rounds import ByRounds
from ordercast.core.stability.coordp import CoordP
from ordercast.core.stability.gathering import Gathering
from ordercast.core.stability.rounds import AckMessage
from ordercast.core.stability.seat import Differences, Seat
from ordercast.core.stability.train import Train
from ordercast.model.options import NEVER
from ordercast.wire.frames import CONTROL, Data
from ordercast.wire.stability import RoundAsk

Patches = list[tuple[Any, str, Any]]


def an_entry_counts_before_all_have_put_theirs_in() -> Patches:
    """A list of sites, one of which has never seen the list."""
    learn = ByRounds._learn

    def mutant(self: ByRounds, group: str) -> bool:
        entry = self._known.get(group)
        if entry is not None:
            self._known[group] = (*entry[:2], len(self._members[group]), entry[3])
        return learn(self, group)

    return [(ByRounds, "_learn", mutant)]


def who_is_silent_is_left_out() -> Patches:
    """The coordinator goes by those that have answered, and calls them the members."""
    conclude, learn = CoordP._conclude, an_entry_counts_before_all_have_put_theirs_in()

    def mutant(self: CoordP[Any, Any]) -> None:
        if self._open and 0 < len(self._answers) == self.paths.count - 2:
            for name in self.paths.ring[1:]:
                self._answers.setdefault(name, {})
        conclude(self)

    return [(CoordP, "_conclude", mutant), *learn]


def the_most_is_taken_for_the_least() -> Patches:
    def lesser(one: Any, other: Any) -> Any:
        return (max(one[0], other[0]), max(one[1], other[1]), one[2] + other[2], one[3])

    return [(arrays, "_lesser", lesser)]


def reports_leave_before_the_log_is_durable() -> Patches:
    flush = Link.flush

    def mutant(self: Link, now: int, down: Any, _: Any) -> bool:
        return flush(self, now, down, down)

    return [(Link, "flush", mutant)]


def counts_ride_with_data_that_does_not_wait_for_the_disk() -> Patches:
    send = Link._send_control

    def mutant(self: Link, *args: Any) -> None:
        counts, self._counts, self.unstored = self._counts, False, 0
        send(self, *args)
        self._counts = self._counts or counts

    return [(Link, "_send_control", mutant)]


def what_rides_is_not_taken() -> Patches:
    """And taken for received."""

    def mutant(self: Link, now: int, frame: Data, take: Take) -> None:
        self._receive(now, frame, frame.lane, frame.number, frame.items, take)
        if frame.rider is not None:
            inc = self.incoming[CONTROL]
            inc.got = max(inc.got, frame.rider.number + len(frame.rider.items) - 1)

    return [(Link, "receive", mutant)]


def what_rides_is_taken_again() -> Patches:
    """Without a look at its number."""
    receive = Link.receive

    def mutant(self: Link, now: int, frame: Data, take: Take) -> None:
        if frame.rider is not None:
            self.incoming[CONTROL].got = frame.rider.number - 1
        receive(self, now, frame, take)

    return [(Link, "receive", mutant)]


def the_settled_prefix_is_taken_for_the_log() -> Patches:
    """What is in a log may still wait behind something that is not stable."""

    def own(self: Seat) -> LogArray:
        return {g: (logged, logged, *rest) for g, (logged, _, *rest) in self._logs.items()}  # type: ignore[misc]

    return [(Seat, "received", own)]


def a_relay_speaks_for_its_children_without_them() -> Patches:
    def ready(self: Gathering[Any, Any]) -> bool:
        if len(self._heard) < len(self._awaited):
            self._heard = {name: self._heard.get(name, {}) for name in self._awaited}
        return True

    return [(Gathering, "_ready", ready), *an_entry_counts_before_all_have_put_theirs_in()]


def a_passenger_counts_itself_and_puts_nothing_on_the_train() -> Patches:
    receive = Train.receive

    def mutant(self: Train[Any, Any], peer: Any, message: Any) -> None:
        if isinstance(message, AckMessage) and self.name != self.paths.first:
            mine = self.member.received()
            more = {g: (*e[:2], e[2] + 1, e[3]) for g, e in message.array.items() if g in mine}
            if message.round > self.round:
                self.round = message.round
                self._pass_on(AckMessage(self.round, {**mine, **message.array, **more}))
            return
        receive(self, peer, message)

    return [(Train, "receive", mutant)]


def nobody_says_again_what_a_crash_has_lost() -> Patches:
    return [(Differences, "again", lambda *_: [])]


def a_restarted_root_counts_its_rounds_from_one() -> Patches:
    return [(seat, "_OF_ONE_START", 0)]


def only_the_root_begins_rounds() -> Patches:
    return [(ByRounds, "_ask", lambda _: None)]


def requests_are_dropped_while_a_round_is_under_way() -> Patches:
    receive = ByRounds.receive

    def mutant(self: ByRounds, peer: str, item: Any) -> list[str]:
        if isinstance(item, RoundAsk) and self.seat.under_way:
            return []
        return receive(self, peer, item)

    return [(ByRounds, "receive", mutant)]


def there_is_no_age_limit() -> Patches:
    return [(ByRounds, "_patient_until", lambda _: NEVER)]


def differences_are_of_the_logs_alone() -> Patches:
    def difference(new: LogArray, old: LogArray) -> LogArray:
        return {g: entry for g, entry in new.items() if g not in old or entry[0] != old[g][0]}

    return [(seat, "difference", difference)]


def what_is_told_after_a_restart_is_taken_for_a_difference() -> Patches:
    """Both sides forget what they had of each other; here the sender does not."""
    again = Differences.again

    def mutant(self: Differences, peer: str) -> Any:
        sent = dict(self._sent.get(peer, {}))
        messages = again(self, peer)
        self._sent[peer] = sent
        return messages

    return [(Differences, "again", mutant)]


MUTANTS: dict[str, tuple[Callable[[], Patches], tuple[str, ...]]] = {
    mutant.__name__: (mutant, trackers)
    for mutant, trackers in (
        (an_entry_counts_before_all_have_put_theirs_in, ("s_coordp", "train")),
        (who_is_silent_is_left_out, ("coordp",)),
        (the_most_is_taken_for_the_least, ("s_coordp", "full_dist")),
        (reports_leave_before_the_log_is_durable, ("coordp", "s_train")),
        (counts_ride_with_data_that_does_not_wait_for_the_disk, ("s_coordp", "coordp")),
        (what_rides_is_not_taken, ("s_coordp", "train")),
        (what_rides_is_taken_again, ("s_coordp", "train")),
        (the_settled_prefix_is_taken_for_the_log, ("s_coordp", "full_dist")),
        (a_relay_speaks_for_its_children_without_them, ("s_coordp", "s_train")),
        (a_passenger_counts_itself_and_puts_nothing_on_the_train, ("train",)),
        (nobody_says_again_what_a_crash_has_lost, ("s_coordp", "train")),
        (a_restarted_root_counts_its_rounds_from_one, ("coordp", "s_coordp")),
        (only_the_root_begins_rounds, ("s_coordp", "coordp")),
        (requests_are_dropped_while_a_round_is_under_way, ("s_coordp", "train")),
        (there_is_no_age_limit, ("s_coordp", "full_dist")),
        (differences_are_of_the_logs_alone, ("s_coordp", "s_train")),
        (what_is_told_after_a_restart_is_taken_for_a_difference, ("s_coordp", "coordp")),
    )
}
