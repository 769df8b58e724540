"""Runs drawn from a seed: sends and changes of every kind under faults, then calm."""

import random
from collections.abc import Callable, Sequence
from functools import partial

from ordercast.core.epochs.layout import Layout
from ordercast.core.epochs.member import Member
from ordercast.model.epochs import (
    AddGroup,
    AddSite,
    AddVoter,
    Edit,
    JoinGroup,
    LeaveGroup,
    RemoveGroup,
    RemoveVoter,
    RetireSite,
    UseBuilder,
    UseProtocol,
)
from ordercast.model.options import MILLISECOND, SECOND
from support.worlds.epochs import World

SPARE = ("p", "q")  # machines that may be added
ON_TREES = ("propagation", "centralized")
VOTERS_FROM = 10_000  # seeds from here on change voters too


def schedule(
    seed: int, make: Callable[..., Member] = Member, protocols: Sequence[str] = ON_TREES
) -> World:
    """`protocols`: the first to begin with, all of them to switch to."""
    world = drawn_world(seed, make, protocols)
    world.run(3 * SECOND)
    world.settle()
    return world


def drawn_world(
    seed: int,
    make: Callable[..., Member] = Member,
    protocols: Sequence[str] = ON_TREES,
    make_world: Callable[..., World] = World,
) -> World:
    """Everything that will happen is in its queue."""
    draw = random.Random(seed * 7 + 1)
    sites = list("abcdefgh")[: draw.randint(4, 8)]
    groups = {f"g{n}": draw.sample(sites, draw.randint(1, 4)) for n in range(draw.randint(2, 4))}
    world = make_world(
        groups,
        sites,
        draw.sample(sites, draw.choice([1, 3, 3, 3])),
        seed=seed,
        loss=draw.choice([0, 0, 0.05, 0.2]),
        crash=draw.choice([0, 0, 0.001, 0.005]),
        deliver=draw.choice(["safe", "agreed"]),
        causal=draw.random() < 0.25,
        builder=draw.choice(["greedy", "star"]),
        protocol=protocols[0],
        checkpoint_batches=draw.choice([4, 16]),
        log_entries=draw.choice([2, 128]),
        burst=draw.choice([0, 0, 0.5]),
        make=make,
    )

    def change(number: int) -> None:
        member = world.members.get(draw.choice(sorted(world.disks)))
        if member is None or not member.layout.roster:
            return
        edits = [draw_edit(draw, member.layout, number, protocols)]
        if draw.random() < 0.2:
            edits.append(draw_edit(draw, member.layout, number + 100, protocols))
        for edit in edits:
            if isinstance(edit, AddSite):
                world.add(edit.site)
        world.ask(member.name, f"change {number}", *edits)

    for number in range(draw.randint(20, 100)):
        world.at(draw.randint(SECOND // 2, 3 * SECOND), partial(send, draw, world, number))
    for number in range(draw.randint(1, 6)):
        at = draw.randint(SECOND, 5 * SECOND // 2)
        world.at(at, partial(change, number))
        for more in range(draw.choice([0, 8])):  # while it is under way
            later = at + draw.randint(0, 20) * MILLISECOND
            world.at(later, partial(send, draw, world, 1000 + 100 * number + more))
    for _ in range(draw.choice([0, 0, 1, 3])):
        at = draw.randint(SECOND, 5 * SECOND // 2)
        world.at(at, lambda: cut_off(draw, world, 0.5))
        world.at(at + draw.randint(20, 1_200) * MILLISECOND, lambda: world.partition([]))
    if seed % 3 == 0 and seed >= VOTERS_FROM:
        _change_voters(world, random.Random(seed * 11 + 5))
    return world


def send(draw: random.Random, world: World, number: int) -> None:
    """One to three messages, from some site to one of its groups or to some sites."""
    member = world.members.get(draw.choice(sorted(world.disks)))
    if member is None:
        return
    payloads = [b"%d %d" % (number, n) for n in range(draw.choice([1, 1, 1, 3]))]
    home = member.layout.home(member.name)
    if home is not None and draw.random() < 0.2:
        some = draw.sample(home.sites, draw.randint(1, min(3, len(home.sites))))
        world.submit_to(member.name, sorted(some), *payloads)
    elif member.layout.groups:
        world.submit(member.name, draw.choice(sorted(member.layout.groups)), *payloads)


def cut_off(draw: random.Random, world: World, with_leaders: float) -> None:
    """Some sites are cut off from the others: with this probability the leaders among them."""
    side = draw.sample(sorted(world.disks), draw.randint(1, len(world.disks) // 2))
    leading = [site for site, member in world.members.items() if member.manager.leads]
    world.partition([*leading, *side] if draw.random() < with_leaders else side)


def _change_voters(world: World, draw: random.Random) -> None:
    def change(number: int) -> None:
        member = world.members.get(draw.choice(sorted(world.disks)))
        if member is not None and member.layout.roster:
            voters, sites = member.layout.voters, sorted(member.layout.roster)
            outside = [site for site in sites if site not in voters]
            fewer = not outside or (len(voters) > 1 and draw.random() < 0.5)
            site = draw.choice(voters if fewer else outside)
            edit = RemoveVoter(site) if fewer else AddVoter(site)
            world.ask(member.name, f"voters {number}", edit)

    for number in range(draw.randint(1, 4)):
        world.at(draw.randint(SECOND, 3 * SECOND), partial(change, number))


def draw_edit(draw: random.Random, layout: Layout, number: int, protocols: Sequence[str]) -> Edit:
    groups, sites = sorted(layout.groups), sorted(layout.roster)
    kind = draw.randrange(10)
    group = draw.choice(groups) if groups else "none"
    if kind == 0:
        return AddGroup(
            f"n{number}", tuple(draw.sample(sites, min(len(sites), draw.randint(1, 3))))
        )
    if kind == 1:
        return UseBuilder(draw.choice(["greedy", "star"]), draw.choice([*sites, ""]))
    if kind == 2:
        return UseProtocol(draw.choice(protocols), draw.choice([*sites, ""]))
    if kind == 3:
        return LeaveGroup(group, draw.choice(layout.groups.get(group, ("a",))))
    if kind == 4 and len(groups) > 1:
        return RemoveGroup(group)
    if kind == 5:
        return AddSite(draw.choice(SPARE))
    if kind == 6:
        return RetireSite(draw.choice([s for s in sites if s not in layout.voters] or sites))
    if kind == 7 and any(site in SPARE for site in sites):
        return JoinGroup(group, draw.choice([site for site in sites if site in SPARE]))
    if kind == 8:
        return AddGroup("same", tuple(draw.sample(sites, 2)))
    return JoinGroup(group, draw.choice(sites))
