"""What any registered ordering protocol must do, whatever its name (`core/order/interface.py`).

Each test runs random fault schedules in the simulator with sites that watch themselves.
"""

import copy
import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from ordercast.core.engine import Engine
from ordercast.core.order.registry import PROTOCOLS
from ordercast.core.outbox import Checkpoint, EngineBox, Passed, Record
from ordercast.model.groups import Site
from ordercast.model.messages import Batch, Key, pack_payloads
from ordercast.sim.config import SimConfig
from ordercast.sim.faults import random_faults
from ordercast.sim.result import SimResult
from ordercast.sim.schedules import schedule
from support.cases.tables import FIGURE_3, table_of
from support.worlds.engines import simulate_with

SCHEDULES, MORE = range(1, 9), range(1, 17)
Name = tuple[Site, str, int]

every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)


class Registry:
    """What all sites of one run have said of their logs."""

    def __init__(self) -> None:
        self.keys: dict[Name, Key] = {}
        self.members: dict[Name, Sequence[Site]] = {}
        self.logs: dict[Site, list[tuple[Key, Name]]] = defaultdict(list)

    def place(self, name: Name, key: Key, members: Sequence[Site]) -> None:
        assert self.keys.setdefault(name, key) == key, f"{name} has two keys"
        self.members[name] = members

    def log(self, site: Site, name: Name, key: Key) -> None:
        log = self.logs[site]
        assert not log or key > log[-1][0], f"{site} logs {name} behind a later key"
        held = {known for _, known in log}
        for other, other_key in self.keys.items():
            if site in self.members[other] and other_key < key:
                assert other in held, f"{site} logs {name} without {other}, which is before it"
        log.append((key, name))


def watched(registry: Registry) -> type[Engine]:
    class Watched(Engine):
        def passed(self, entry: Passed, children: Sequence[Site], *, mine: bool) -> None:
            batch = entry.placed.batch
            name = (batch.origin, batch.group, batch.seq)
            members = batch.members or self.structure.members(batch.group)
            registry.place(name, entry.placed.key, members)
            assert mine == (self.name in members)
            if mine:
                registry.log(self.name, name, entry.placed.key)
            super().passed(entry, children, mine=mine)

    return Watched


def run(protocol: str, seed: int, **changes: Any) -> tuple[SimResult, Registry]:
    """Without crashes: what a site places and loses before anybody hears of it is no place."""
    registry = Registry()
    calm = {"faults": random_faults(seed, crashes=False)}
    config = replace(schedule(protocol, seed), **{**calm, **changes})
    result = simulate_with(watched(registry), config, seed)
    assert not result.violations, f"{result.violations[0]}\n{result.replay}"
    return result, registry


@every_protocol
def test_keys_are_the_same_everywhere_and_logs_hold_all_up_to_their_last_key(
    protocol: str,
) -> None:
    logged = 0
    for seed in SCHEDULES:
        _, registry = run(protocol, seed)
        for site, log in registry.logs.items():
            keys = [key for key, _ in log]
            assert keys == sorted(set(keys))
            mine = {name for name, members in registry.members.items() if site in members}
            assert {name for _, name in log} == mine
            logged += len(log)
    assert logged > 250


@every_protocol
def test_deliveries_follow_the_keys_and_batches_are_not_split(protocol: str) -> None:
    for seed in SCHEDULES:
        result, registry = run(protocol, seed, batch=4)
        assert result.history is not None
        rows = sorted(result.history.deliveries, key=lambda row: (row.site, row.position))
        for _, group in itertools.groupby(rows, key=lambda row: row.site):
            names = [
                (row.origin, row.group_name, row.seq, registry.keys.get(_name(row)))
                for row in group
            ]
            started = [key for *_, key in names if key is not None]
            assert started == sorted(started)
            for before, after in itertools.pairwise(names):
                if after[3] is None:  # not the first of its batch: follows its predecessor
                    assert after[:3] == (*before[:2], before[2] + 1)


def _name(row: Any) -> Name:
    return (row.origin, row.group_name, row.seq)


@every_protocol
def test_a_restored_site_goes_on_as_the_one_that_it_was_made_from(protocol: str) -> None:
    """Probe: what a restored copy would place next has the key and number of the original's; where
    there is no tree, as much waits for its place."""
    compared = 0

    class Copied(Engine):
        """Keeps what a store would keep, and now and then compares itself to its restored self."""

        def __init__(
            self,
            *args: Any,
            checkpoint: Checkpoint | None = None,
            records: Sequence[Record] = (),
            **options: Any,
        ) -> None:
            options["durable"] = True
            super().__init__(*args, checkpoint=checkpoint, records=records, **options)
            self.kept: tuple[Checkpoint | None, list[Record]] = (checkpoint, list(records))
            self.drains = 0

        def drain(self) -> EngineBox:
            box = super().drain()
            checkpoint, records = self.kept
            records.extend(box.persist)
            if box.forget is not None:
                checkpoint, records = box.forget, []
            self.kept = (checkpoint, records)
            self.drains += 1
            if self.drains % 23 == 0:
                self.compare()
            return box

        def compare(self) -> None:
            nonlocal compared
            checkpoint, records = self.kept
            made = Engine(
                self.name,
                self.structure,
                self.options,
                protocol=protocol,
                boot=self.boot + 1,
                checkpoint=_through_the_codec(checkpoint),
                records=records,
            )
            assert made.gate.logged == self.gate.logged
            assert made.own.last_seq == self.own.last_seq
            kept = [placed.key for placed in self.ordering.log()]
            again = [placed.key for placed in made.ordering.log()]
            common = min(len(kept), len(again))  # one may have forgotten more than the other
            assert kept[len(kept) - common :] == again[len(again) - common :]
            if PROTOCOLS[protocol].direct:  # others' words place a probe, which a restart forgets
                if self.resumes:
                    assert made.ordering.held() == self.ordering.held()
                    compared += 1
                return
            if self.options.causal:
                return  # a held batch would hold the probe too
            twin = copy.deepcopy(self)
            for group in sorted(self.structure.groups):
                if self.structure.primary(group) == self.name:
                    probe = Batch("probe", 1, group, 1, 1, pack_payloads([b"x"]))
                    assert _places(twin, probe) == _places(made, probe)
                    compared += 1

    for seed in MORE if PROTOCOLS[protocol].direct else SCHEDULES:
        result = simulate_with(Copied, schedule(protocol, seed), seed)
        assert not result.violations, f"{result.violations[0]}\n{result.replay}"
    assert compared > 50


def _through_the_codec(checkpoint: Checkpoint | None) -> Checkpoint | None:
    """As a store would give it back."""
    if checkpoint is None:
        return None
    return msgspec.msgpack.decode(msgspec.msgpack.encode(checkpoint), type=Checkpoint)


def _places(site: Engine, batch: Batch) -> list[tuple[Key, int]]:
    site.drain()
    site.link("probe")
    site.ordering.submit(batch)
    return [
        (record.placed.key, record.placed.number)
        for record in site.drain().persist
        if isinstance(record, Passed)
    ]


@every_protocol
def test_state_is_bounded_by_the_structure_not_by_the_traffic(protocol: str) -> None:
    sizes = []
    for messages in (100, 500):
        sites: dict[Site, Engine] = {}

        def make(name: Site, *args: Any, sites: dict[Site, Engine] = sites, **kw: Any) -> Engine:
            sites[name] = Engine(name, *args, **kw)
            return sites[name]

        config = SimConfig(
            table_of(FIGURE_3), protocol=protocol, messages=messages, durability="memory"
        )
        result = simulate_with(make, config, 1)
        assert not result.violations
        for site in sites.values():
            assert site.retention.held() == 0
            assert not site.own.forgettable()
            assert not site.own.kept
            assert not site.ordering.log()
            assert not site.gate.unsettled()
            restless = () if site.direct is None else site.direct.restless
            assert all(link.idle(restless) for link in site.links.values())
        states = [msgspec.json.encode(site.ordering.journal()) for site in sites.values()]
        sizes.append(sum(map(len, states)))
    assert sizes[1] < sizes[0] * 1.5  # numbers get more digits; nothing else grows
