"""Runs drawn from a seed under `exclude`: sites crash, lose stores, are cut off, groups change,
applications lag, while messages flow; then calm, in which all must have returned with all of it."""

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ordercast.core.epochs.member import Member
from ordercast.model.epochs import RetireSite
from ordercast.model.options import MILLISECOND, SECOND, Limits
from support.cases.epoch_schedules import ON_TREES, cut_off, draw_edit, send
from support.worlds.epochs import World

LITTLE = 3_000  # bytes kept for absent sites: some ten batches


def schedule(
    seed: int, make: Callable[..., Member] = Member, protocols: Sequence[str] = ON_TREES
) -> World:
    """`protocols`: the first to begin with, all of them to switch to."""
    world = drawn_world(seed, make, protocols)
    world.run(5 * SECOND)
    world.settle()
    return world


def drawn_world(
    seed: int,
    make: Callable[..., Member] = Member,
    protocols: Sequence[str] = ON_TREES,
    make_world: Callable[..., World] = World,
) -> World:
    """Everything that will happen is in its queue."""
    draw = random.Random(seed * 11 + 3)
    sites = list("abcdefgh")[: draw.randint(3, 7)]
    groups = {f"g{n}": draw.sample(sites, draw.randint(1, 3)) for n in range(draw.randint(2, 4))}
    world = make_world(
        groups,
        sites,
        draw.sample(sites, draw.choice([1, 3, 3, 3])),
        seed=seed,
        loss=draw.choice([0, 0, 0.05, 0.2]),
        crash=draw.choice([0, 0.0005, 0.002]),
        deliver=draw.choice(["safe", "agreed"]),
        causal=draw.random() < 0.2,
        builder=draw.choice(["greedy", "star"]),
        protocol=protocols[0],
        checkpoint_batches=draw.choice([4, 16]),
        log_entries=draw.choice([2, 128]),
        burst=draw.choice([0, 0, 0.5]),
        policy="exclude",
        missed_bytes=LITTLE if seed % 8 == 7 else Limits().missed_bytes,
        make=make,
    )
    _sends(draw, world)
    for _ in range(draw.choice([0, 1, 2, 4])):
        site, away = draw.choice(sites), draw.choice([20, 400, 1_500]) * MILLISECOND
        world.at(draw.randint(SECOND, 4 * SECOND), partial(_crash, world, site, away))
    if draw.random() < 0.3:  # all at once
        together = draw.sample(sites, draw.randint(2, len(sites)))
        at = draw.randint(SECOND, 4 * SECOND)
        for site in together:
            away = draw.randint(1, 1_500) * MILLISECOND
            world.at(at, partial(_crash, world, site, away))
    if draw.random() < 0.3:
        site = draw.choice([s for s in sites if s not in world.first.voters] or sites)
        world.at(draw.randint(SECOND, 4 * SECOND), lambda: _lose(world, site))
    for _ in range(draw.choice([0, 0, 1, 3])):
        at = draw.randint(SECOND, 4 * SECOND)
        world.at(at, lambda: _split(draw, world))
        world.at(at + draw.randint(20, 1_500) * MILLISECOND, lambda: world.partition([]))
    for number in range(draw.choice([0, 0, 2])):
        at = draw.randint(SECOND, 4 * SECOND)
        world.at(at, partial(_change, draw, world, number, protocols))
    if seed % 5 == 4:
        _lag(random.Random(seed * 17 + 7), world)
    return world


def hard_schedule(
    seed: int, make: Callable[..., Member] = Member, protocol: str = ON_TREES[0]
) -> World:
    world = hard_world(seed, make, protocol)
    world.run(6 * SECOND)
    world.settle()
    return world


def hard_world(
    seed: int,
    make: Callable[..., Member] = Member,
    protocol: str = ON_TREES[0],
    make_world: Callable[..., World] = World,
) -> World:
    """More that is aimed at what is delivered and not agreed: long and flapping partitions, links
    that fail in one direction or without a pattern, sites that go for good and are retired."""
    draw = random.Random(seed * 13 + 5)
    sites = list("abcdefg")[: draw.randint(3, 7)]
    groups = {f"g{n}": draw.sample(sites, draw.randint(2, 3)) for n in range(draw.randint(1, 3))}
    world = make_world(
        groups,
        sites,
        draw.sample(sites, 3),
        seed=seed,
        loss=draw.choice([0, 0.1, 0.3]),
        crash=draw.choice([0, 0, 0.001]),
        deliver=draw.choice(["safe", "agreed", "agreed"]),
        builder=draw.choice(["greedy", "star"]),
        protocol=protocol,
        checkpoint_batches=draw.choice([4, 16]),
        log_entries=draw.choice([2, 128]),
        burst=draw.choice([0, 0, 0.5]),
        policy="exclude",
        slow_member=draw.choice(["wait", "exclude"]),
        missed_bytes=LITTLE if seed % 4 == 3 else Limits().missed_bytes,
        make=make,
    )
    _sends(draw, world)
    _sends(draw, world)
    for _ in range(draw.randint(1, 3)):
        at = draw.randint(SECOND, 4 * SECOND)
        trouble = draw.choice([_split, _flap, _one_way, _tangle])
        world.at(at, partial(trouble, draw, world))
        world.at(at + draw.randint(300, 1_500) * MILLISECOND, lambda: _heal(world))
    for _ in range(draw.choice([0, 1, 3])):
        site, away = draw.choice(sites), draw.choice([5, 300, 1_500]) * MILLISECOND
        world.at(draw.randint(SECOND, 5 * SECOND), partial(_crash, world, site, away))
    mortal = [site for site in sites if site not in world.first.voters]
    if mortal and draw.random() < 0.3:
        site = draw.choice(mortal)
        world.at(draw.randint(SECOND, 4 * SECOND), lambda: _go_for_good(world, site))
    if seed % 5 == 1:
        _lag(random.Random(seed * 17 + 7), world)
    return world


def small_world(seed: int, groups: Mapping[str, Sequence[str]] | None = None) -> World:
    """Three sites, one group (or these), one second with one to three troubles: so small that very
    many can be run. A store is lost only where no other is."""
    draw = random.Random(seed * 19 + 1)
    sites = list("abc")
    world = World(
        {"g0": sites} if groups is None else groups,
        sites,
        sites,
        seed=seed,
        loss=draw.choice([0, 0, 0.1]),
        crash=draw.choice([0, 0.002, 0.01]),
        deliver=draw.choice(["safe", "agreed", "agreed"]),
        builder="star",
        protocol=ON_TREES[0],
        checkpoint_batches=4,
        log_entries=draw.choice([2, 128]),
        burst=draw.choice([0, 0.5]),
        policy="exclude",
    )
    loses = False
    for _ in range(draw.randint(1, 3)):
        at, site = draw.randint(60, 110) * 10 * MILLISECOND, draw.choice(sites)
        what = draw.random()
        if what < 0.2 and not loses:
            loses = True
            world.at(at, partial(_lose, world, site))
        elif what < 0.6:
            away = draw.choice([5, 50, 400]) * MILLISECOND
            world.at(at, partial(_crash, world, site, away))
        else:
            world.at(at, lambda: _split(draw, world))
            world.at(at + draw.randint(50, 600) * MILLISECOND, lambda: world.partition([]))
    return world


def _lag(draw: random.Random, world: World) -> None:
    """Some applications take nothing for a while: at any site at any time, and at sites that take
    part in a flush, as soon as it begins."""
    for _ in range(draw.randint(1, 3)):
        site, at = draw.choice(sorted(world.disks)), draw.randint(SECOND, 4 * SECOND)
        world.at(at, partial(world.hold, site, held=True))
        later = at + draw.choice([30, 300, 2_000]) * MILLISECOND
        world.at(min(later, 5 * SECOND), partial(world.hold, site, held=False))

    def look(at: int) -> None:
        for site, member in list(world.members.items()):
            if member.layout.flushing is not None and draw.random() < 0.2:
                world.hold(site, held=True)
                later = world.now + draw.choice([5, 100]) * MILLISECOND
                world.at(later, partial(world.hold, site, held=False))
        if at < 5 * SECOND:
            world.at(at + 10 * MILLISECOND, lambda: look(at + 10 * MILLISECOND))

    world.at(SECOND, lambda: look(SECOND))


def _split(draw: random.Random, world: World) -> None:
    cut_off(draw, world, 0.4)


def _heal(world: World) -> None:
    world.cut, world.deaf = set(), set()


def _flap(draw: random.Random, world: World) -> None:
    """The network heals again and again, each time for too short a time."""
    side = draw.sample(sorted(world.disks), draw.randint(1, len(world.disks) // 2))
    for number in range(8):
        at = world.now + number * 120 * MILLISECOND
        world.at(at, lambda: world.partition(side))
        world.at(at + draw.randint(60, 115) * MILLISECOND, lambda: world.partition([]))


def _one_way(draw: random.Random, world: World) -> None:
    """Some hear the others, who do not hear them; or the other way round."""
    side = draw.sample(sorted(world.disks), draw.randint(1, len(world.disks) // 2))
    others = [site for site in world.disks if site not in side]
    pairs = {(a, b) for a in side for b in others}
    world.partitions += 1
    world.deaf = pairs if draw.random() < 0.5 else {(b, a) for a, b in pairs}


def _tangle(draw: random.Random, world: World) -> None:
    """Links fail here and there: who hears whom is not transitive."""
    pairs = [frozenset((a, b)) for a in world.disks for b in world.disks if a < b]
    world.cut = {pair for pair in pairs if draw.random() < 0.4}
    world.partitions += 1


def _go_for_good(world: World, site: str) -> None:
    """The site never comes back; after a while an operator retires it. A crash may forget that
    request, or it is refused because the site is not excluded yet: then the operator asks again."""
    if site not in world.members:
        return
    world.down.add(site)
    world.crash(site)
    for number, other in enumerate(world.first.voters):
        later = world.now + (1_000 + 300 * number) * MILLISECOND
        world.at(later, lambda s=other: world.ask(s, f"retire {site} {s}", RetireSite(site)))  # type: ignore[misc]

    def insist() -> None:
        there = [voter for voter in world.first.voters if voter in world.members]
        if there and world.left(site):
            return
        if there and world.now > world.calm_at + 3 * SECOND:  # all could be quiet by now
            world.ask(there[0], f"retire {site} at {world.now}", RetireSite(site))
        world.at(world.now + 2 * SECOND, insist)

    world.at(world.now + 2 * SECOND, insist)


def _sends(draw: random.Random, world: World) -> None:
    for number in range(draw.randint(30, 150)):
        world.at(draw.randint(SECOND // 2, 5 * SECOND), partial(send, draw, world, number))
    for burst in range(draw.choice([0, 3])):
        at = draw.randint(SECOND, 4 * SECOND)
        for more in range(20):
            number = 1000 + 100 * burst + more
            world.at(at + draw.randint(0, 20) * MILLISECOND, partial(send, draw, world, number))


def _crash(world: World, site: str, away: int) -> None:
    if site in world.members:
        world.crash(site, away)


def _lose(world: World, site: str) -> None:
    if site in world.members and world.members[site].flush.takes_part():
        world.lose(site)


def _change(draw: random.Random, world: World, number: int, protocols: Sequence[str]) -> None:
    member = world.members.get(draw.choice(sorted(world.disks)))
    if member is not None and member.layout.roster:
        edit = draw_edit(draw, member.layout, number, protocols)
        if hasattr(edit, "site") and edit.site in ("p", "q"):
            world.add(edit.site)
        world.ask(member.name, f"change {number}", edit)
