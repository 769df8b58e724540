"""The judge of a run through changing epochs: every property that docs/epochs.md argues for."""

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ordercast.core.epochs.records import REFUSED

if TYPE_CHECKING:
    from support.worlds.epochs import World

Message = tuple[str, int, str, int]
Seen = tuple[int, Message, bytes]  # epoch, id, payload
Found = Iterator[tuple[Any, ...]]


def judge(world: "World") -> list[tuple[Any, ...]]:
    """Every violation; for a run that has settled."""
    found = list(world.violations)
    leave_out_unagreed(world)
    order = {
        site: {message: n for n, (_, message, _) in enumerate(seen)}
        for site, seen in world.seen.items()
        if not world.left(site)
    }
    for site in order:
        found += each_alone(world, site)
    found += agreement(world, order)
    found += one_order(world, order)
    found += nothing_lost(world, order)
    found += logs_differ(world)
    found += rolled_back(world, order)
    if not world.quiet():
        found.append(("not quiet", sorted(set(world.disks) - set(world.members))))
    return found


def leave_out_unagreed(world: "World") -> None:
    """At `agreed`, a site that never came back cannot take back its deliveries of the epoch that
    was closed without it. Do not judge them, unless all the group's present members went with it:
    then nobody else knew that past, and the deliveries stand."""
    layout = max((member.layout for member in world.members.values()), key=lambda one: one.count)
    for site in world.down if world.options.deliver == "agreed" else ():
        if site in layout.absent:
            since = layout.absent[site]
            world.seen[site] = [
                row
                for row in world.seen[site]
                if row[0] != since
                or all(layout.absent.get(s) == since for s in world.present(since, row[1][2]))
            ]


def members_in(world: "World", epoch: int, group: str) -> tuple[str, ...]:
    """The sites that must have the group's messages of the epoch in the end, absent ones
    included."""
    named: dict[str, tuple[str, ...]] = world.nominal.get(epoch) or world.epochs[epoch][0]
    return named.get(group) or world.listed.get(group, ())


def each_alone(world: "World", site: str) -> Found:
    """No message twice, FIFO, epochs in their order, only what is for this site."""
    seen = world.seen[site]
    if len({message for _, message, _ in seen}) != len(seen):
        yield ("twice", site)
    epochs = [epoch for epoch, _, _ in seen]
    if epochs != sorted(epochs):
        yield ("epochs go down", site)
    last: dict[tuple[str, str], tuple[int, int]] = {}
    for epoch, message, _ in seen:
        origin, incarnation, group, seq = message
        if (incarnation, seq) <= last.get((origin, group), (0, 0)):
            yield ("fifo", site, message)
        last[origin, group] = (incarnation, seq)
        if site not in members_in(world, epoch, group):
            yield ("no member", site, message, epoch)
    for opened in world.opened[site]:
        before, after = epochs[: opened.position], epochs[opened.position :]
        if any(e >= opened.epoch for e in before) or any(e < opened.epoch for e in after):
            yield ("opened at another place", site, opened)


def agreement(world: "World", order: dict[str, dict[Message, int]]) -> Found:
    """One epoch and one content per message, and all members of its group then have it."""
    place: dict[Message, tuple[int, bytes]] = {}
    for site in order:
        for epoch, message, payload in world.seen[site]:
            if place.setdefault(message, (epoch, payload)) != (epoch, payload):
                yield ("two epochs", message)
    for message, (epoch, _) in place.items():
        for member in members_in(world, epoch, message[2]):
            if (
                member in world.down
                or world.left(member)
                or epoch < world.first_epoch.get(member, 0)
                or world.skipped(member, epoch)
                or world.ended_with(message[2], epoch, member)
            ):
                continue  # away for good, or what it had seen was lost with its store
            if message not in order[member]:
                yield ("agreement", member, message, epoch)


def one_order(world: "World", order: dict[str, dict[Message, int]]) -> Found:
    for a, b in itertools.combinations(order, 2):
        common = [order[b][message] for message in order[a] if message in order[b]]
        if common != sorted(common):
            yield ("order", a, b)
    yield from acyclic(order)
    if world.options.causal and (
        world.options.on_failure == "wait" or world.options.deliver == "safe"
    ):
        yield from causal(world, order)


def causal(world: "World", order: dict[str, dict[Message, int]]) -> Found:
    """Nothing comes before what happened before it, through other messages too."""
    known: dict[str, dict[Message, None]] = {}  # what an origin has sent or delivered, and its past
    counted: dict[str, int] = {}
    pasts: dict[Message, dict[Message, None]] = {}
    for (origin, group, seq), count in world.before.items():  # as they were sent
        past = known.setdefault(origin, {})
        for _, earlier, _ in world.seen[origin][counted.get(origin, 0) : count]:
            past.update(pasts.get(earlier, {}))
            past[earlier] = None
        counted[origin] = count
        message = (origin, world.incarnation(origin), group, seq)
        for site, places in order.items():
            at = places.get(message)
            late = [
                one
                for one in past
                if at is not None
                and places.get(one, -1) > at
                and not any(s in world.lost for s in who_may_have_lost(world, one[2]))
            ]
            if late:
                yield ("causal", site, late[0], message)
        while (origin, group, seq) in world.payloads:  # those of its batch
            pasts[origin, message[1], group, seq] = dict(past)
            past[origin, message[1], group, seq] = None
            seq += 1
            if (origin, group, seq) in world.before:
                break


def who_may_have_lost(world: "World", group: str) -> list[str]:
    """All members that the group ever had. If they lose a message with their stores, its origin
    sends it again, after messages that it sent later."""
    named = [groups.get(group, ()) for groups in world.nominal.values()]
    return [site for members in (*named, world.listed.get(group, ())) for site in members]


def acyclic(order: dict[str, dict[Message, int]]) -> Found:
    """The union of all sites' orders has no cycle."""
    after: dict[Message, list[Message]] = {}
    before: dict[Message, int] = {}
    for places in order.values():
        for one, following in itertools.pairwise(places):
            after.setdefault(one, []).append(following)
            before[following] = before.get(following, 0) + 1
            before.setdefault(one, 0)
    free = [message for message, count in before.items() if not count]
    for message in free:  # grows while it is read
        for following in after.get(message, ()):
            before[following] -= 1
            if not before[following]:
                free.append(following)
    if len(free) < len(before):
        yield ("cycle", [message for message, count in before.items() if count][:6])


def nothing_lost(world: "World", order: dict[str, dict[Message, int]]) -> Found:
    """What was accepted is delivered, and nothing else under its number; or it is refused, because
    its group is gone."""
    waiting = {
        (site, batch.group, seq)
        for site, member in world.members.items()
        for batch in member.flush.waiting()
        for seq in range(batch.seq, batch.seq + batch.count)
    }
    content = {message: payload for site in order for _, message, payload in world.seen[site]}
    for (site, group, seq), stages in world.stages.items():
        named = (site, world.incarnation(site), group, seq)
        there = any(named in places for places in order.values())
        if (site, group, seq) in world.copied and not there:
            continue  # another copy is delivered instead (`worlds.producing` asks for that)
        if (site, group, seq) in waiting:
            continue  # its origin keeps it until the group's members return
        wanted = world.payloads.get((site, group, seq))
        if there and "accepted" in stages and wanted not in (None, content[named]):
            yield ("another content", site, group, seq)
        if site in world.down or world.left(site) or (named in world.ever and world.losses()):
            continue  # the sites that had it may have lost their stores, or be retired
        if "stable" in stages and any(
            s in world.lost or world.left(s) for s in who_may_have_lost(world, group)
        ):
            continue  # perhaps only one site had it, and its application had not seen it
        if "accepted" in stages and REFUSED not in stages and not there:
            yield ("lost", site, group, seq)
        if there and REFUSED in stages and not world.removed(group):
            yield ("refused and delivered", site, group, seq)


def rolled_back(world: "World", order: dict[str, dict[Message, int]]) -> Found:
    """A rollback takes back no more than needed: afterwards another message is at the place of the
    first one. A message that the site never delivers again in that epoch, no site delivers then."""
    for site, rollback in world.rollbacks:
        if site not in world.members or site in world.lost or site not in order:
            continue
        if not rollback.annulled:
            yield ("rolled back nothing", site, rollback)
            continue
        first, seen = rollback.annulled[0][1], world.seen[site]
        at = order[site].get(first)
        if at == rollback.position and seen[at][0] == rollback.epoch:
            yield ("rolled back too much", site, rollback)
        for _, message in rollback.annulled:
            at = order[site].get(message)
            if at is None or seen[at][0] != rollback.epoch:
                for other, places in order.items():
                    where = places.get(message)
                    if where is not None and world.seen[other][where][0] == rollback.epoch:
                        yield ("rolled back what others have", site, other, message)


def logs_differ(world: "World") -> Found:
    """Voters' logs agree as far as they are committed."""
    known: dict[int, Any] = {}
    for site, member in world.members.items():
        raft = member.raft
        for index in range(raft.log.snapshot.upto + 1, raft.committed + 1):
            if known.setdefault(index, raft.log.entry(index)) != raft.log.entry(index):
                yield ("voters' logs differ", site, index)
