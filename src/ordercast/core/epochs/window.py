"""A member's own messages over all its epochs: which are not stable, and which seq is next."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from ordercast.core.engine import Engine
from ordercast.core.epochs.layout import Layout
from ordercast.core.epochs.records import REFUSED
from ordercast.core.outbox import DOUBTED, StageReached
from ordercast.model.errors import NotInMajority, TooLarge
from ordercast.model.groups import Group, Site
from ordercast.model.limits import BATCH_MESSAGES, LEAST_STREAMS, STREAM_BYTES
from ordercast.model.messages import Batch, may_expire
from ordercast.model.options import Options

FEW = 1_024  # groups and lists: up to here nothing is searched for old ones
_ENTRY = 28  # bytes of a stream in a layout, without its origin's name
_MEMBER = 4  # bytes more for each site of a list, which reports have too


class _Origin(Protocol):
    """The sender of the messages."""

    layout: Layout
    receipts: list[StageReached]


class _Member(_Origin, Protocol):
    """The member that sends them."""

    name: Site
    boot: int
    incarnation: int
    options: Options
    engines: dict[int, Engine]

    @property
    def flush(self) -> "_Flush": ...


class _Flush(Protocol):
    """Own messages that are in no engine."""

    def waiting(self) -> Sequence[Batch]: ...
    def require_open(self) -> None: ...


class Window:
    """Own messages that are accepted and not stable. Engines come and go, this stays."""

    def __init__(self, member: _Member) -> None:
        self._member = member
        self.given: dict[Group, int] = {}  # the last seq of messages that were lost with stores
        # Own batches that no epoch takes, since this was last emptied: group, seq, count.
        self.refused: list[tuple[Group, int, int]] = []
        # Own messages of which nobody knows if they were delivered, since this was last emptied.
        self.bygone: list[tuple[Group, int, int]] = []
        self._skip = _unstored_by(member.options) * (member.boot - 1)
        # By group, the seqs that are skipped in this run: after the first number, up to the second.
        self._skipped: dict[Group, tuple[int, int]] = {}
        self._look_at = FEW  # search them for old ones when there are more than this

    def ended(self, engine: Engine, included: Mapping[Group, int]) -> None:
        """The engine's epoch is gone. Stable messages that no epoch includes were lost with all
        stores that had them. Their seqs are not given again."""
        for group, seq in engine.own.stable_seqs().items():
            if seq > max(included.get(group, 0), self.given.get(group, 0)):
                self.given[group] = seq

    def refuse(self, batch: Batch) -> None:
        """No epoch takes this batch."""
        refused = (batch.group, batch.seq, batch.count)
        self._member.receipts.append(StageReached(REFUSED, *refused))
        self.refused.append(refused)

    def without_bygone(self, unplaced: Sequence[Batch]) -> list[Batch]:
        """The batches that no closed epoch includes. The others were sent before this site was
        retired, and what was known of them is forgotten: they are neither sent again nor
        refused."""
        certain: list[Batch] = []
        for batch in unplaced:
            if self._member.layout.forgets(batch.origin, batch.incarnation, batch.group, batch.seq):
                self.bygone.append((batch.group, batch.seq, batch.count))
            else:
                certain.append(batch)
        return certain

    def number_on(self, engine: Engine) -> None:
        last = engine.own.last_seq
        last.update({group: max(seq, last.get(group, 0)) for group, seq in self.given.items()})

    @property
    def unstable(self) -> int:
        return self.unstable_both()[0]

    @property
    def unstable_bytes(self) -> int:
        return self.unstable_both()[1]

    def unstable_both(self) -> tuple[int, int]:
        """Messages and bytes. This is called for every batch that is sent."""
        messages = size = 0
        for engine in self._member.engines.values():
            messages += engine.own.unstable
            size += engine.own.unstable_bytes
        for batch in self._member.flush.waiting():
            messages += batch.count
            size += len(batch.body)
        return messages, size

    def last_seq(self, group: Group) -> int:
        """The seq of this site's last message to the group, in any epoch."""
        member = self._member
        last = member.layout.last_seq(member.name, member.incarnation, group)
        for engine in member.engines.values():
            last = max(last, engine.own.last_seq.get(group, 0))
        for batch in member.flush.waiting():
            if batch.group == group:
                last = max(last, batch.seq + batch.count - 1)
        return last

    def knows(self, group: Group) -> bool:
        """Whether there is an own stream to the group, in the layout or in an epoch."""
        member = self._member
        return (
            (member.name, member.incarnation, group) in member.layout.lasts
            or any(group in engine.own.last_seq for engine in member.engines.values())
            or any(batch.group == group for batch in member.flush.waiting())
        )

    def require_stream(self, group: Group, members: Sequence[Site]) -> None:
        """Raises TooLarge if the site sends to very many groups and lists already, and not to this
        one: the end of an epoch tells the last seq of each."""
        member = self._member
        known = 0
        for engine in member.engines.values():
            if group in engine.own.last_seq:
                return
            known += len(engine.own.last_seq)
        share = STREAM_BYTES // max(1, len(member.layout.roster))
        most = max(LEAST_STREAMS, share // (_ENTRY + len(member.name) + _MEMBER * len(members)))
        if known >= most:
            raise TooLarge(
                f"{member.name} has sent to {known:,} groups and lists; in a cluster of"
                f" {len(member.layout.roster):,} sites {most:,} is the limit"
            )

    def require_past(self) -> None:
        """Raises TooLarge if the causal past of this site is too long for a message to carry."""
        for engine in self._member.engines.values():
            engine.own.require_past(self._member.name)

    def next_seq(self, group: Group) -> int:
        """The seq of this site's next message to the group. An earlier run may have relayed
        messages that it did not store: their seqs are skipped, once in this run (docs/core.md)."""
        last = self.last_seq(group)
        return max(last + 1, self._after_skipped(group, last)) if self._skip else last + 1

    def _after_skipped(self, group: Group, last: int) -> int:
        skipped = self._skipped.get(group)
        if skipped is None:
            skipped = last, last + self._skip
            if self._is_open():
                self._skipped[group] = skipped
        return skipped[1] + 1

    def forget_skipped(self, numbered: Callable[[Group], bool]) -> None:
        """Forget, now and then, what was skipped in streams that are gone, and that are not
        `numbered`: nothing is reserved in them. If the site sends there again, seqs are skipped
        again, above all that it has given."""
        if len(self._skipped) > self._look_at:
            kept = {g: at for g, at in self._skipped.items() if numbered(g) or self.knows(g)}
            self._skipped, self._look_at = kept, max(FEW, 2 * len(kept))

    def was_skipped(self, group: Group, seq: int) -> bool:
        """Whether no message of this site has this seq, nor ever will."""
        after, upto = self._skipped.get(group, (0, 0))
        return after < seq <= upto

    def _is_open(self) -> bool:
        """Whether the site accepts messages. Before that, the next epoch may tell of later seqs."""
        try:
            self._member.flush.require_open()
        except NotInMajority:
            return False
        return True

    def stable_seq(self, group: Group) -> int:
        member = self._member
        last = member.layout.lasts.get((member.name, member.incarnation, group), 0)
        for engine in member.engines.values():
            last = max(last, engine.own.stable_seq(group))
        return last

    def groups(self) -> list[Group]:
        """All groups that this site has sent to."""
        member = self._member
        found = dict.fromkeys(
            group
            for origin, incarnation, group in member.layout.lasts
            if origin == member.name and incarnation == member.incarnation
        )
        for engine in member.engines.values():
            found.update(dict.fromkeys(engine.own.last_seq))
        found.update(dict.fromkeys(batch.group for batch in member.flush.waiting()))
        return list(found)


def not_in_the_past(member: _Origin, kept: Sequence[Batch]) -> list[Batch]:
    """The own batches that must be sent again. The others are final, and get their receipts."""
    unplaced: list[Batch] = []
    for batch in kept:
        stream = (batch.origin, batch.incarnation, batch.group)
        if batch.seq > member.layout.lasts.get(stream, 0):
            unplaced.append(batch)
            continue
        for stage in ("ordered", DOUBTED, "stable") if may_expire(batch) else ("ordered", "stable"):
            member.receipts.append(StageReached(stage, batch.group, batch.seq, batch.count))
    return unplaced


def _unstored_by(options: Options) -> int:
    """How many messages to a group may be relayed, but neither stored nor stable, when a site
    crashes: a window of them, or one batch that was let in alone."""
    if options.on_failure == "wait" or options.causal_for_good:
        return 0
    return max(options.limits.window_messages, BATCH_MESSAGES)
