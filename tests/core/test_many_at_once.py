"""Thousands of messages that become possible at once: work by the queue, not by the stack.

A site that is alone in its domain places and delivers everything in one go, so whatever calls
itself once per message would end in the depth of the interpreter's stack.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

import pytest

from ordercast.core.engine import Engine
from ordercast.core.order.registry import PROTOCOLS
from ordercast.core.outbox import Accepted, Record
from ordercast.core.structure import Structure
from ordercast.model.options import MILLISECOND, SECOND, Options
from ordercast.sim.members import build_forest
from support.cases.tables import table_of
from support.worlds.alone import submit

MESSAGES = 100
GROUPS = ("alpha", "beta")
DEEPER = 80  # calls: what one message may need

every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)
every_order = pytest.mark.parametrize("causal", [False, True], ids=["total", "causal"])
every_policy = pytest.mark.parametrize("policy", ["wait", "exclude"])


Case: TypeAlias = tuple[str, bool, str]
"""Protocol, causal order, policy."""


@contextmanager
def little_stack() -> Iterator[None]:
    depth, frame = 0, sys._getframe()
    while frame.f_back is not None:
        depth, frame = depth + 1, frame.f_back
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(depth + DEEPER)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def alone(case: Case, records: list[Record], boot: int = 1) -> Engine:
    protocol, causal, policy = case
    table = table_of({"alpha": ["a"], "beta": ["a"]})
    structure = Structure(1, table, build_forest(table, "auto", protocol))
    options = Options(on_failure=policy, deliver="agreed", causal=causal)
    return Engine("a", structure, options, protocol=protocol, records=records, boot=boot)


def delivered(site: Engine) -> list[bytes]:
    """Everything, and what comes of its alarms."""
    found: list[bytes] = []
    for moment in range(1, 50):
        site.alarm(moment * 100 * MILLISECOND)
        box = site.drain()
        site.stored(box.counted)
        found += [payload for batch in box.deliver for payload in batch.payloads]
    return found


def accepted(case: Case) -> list[Record]:
    """What a store has of a site that crashed before anything had a place."""
    site = alone(case, [])
    site.start(0)
    records: list[Record] = []
    for number in range(MESSAGES):
        submit(site, number, GROUPS[number % 2], [b"%d" % number])
        records += [record for record in site.drain().persist if type(record) is Accepted]
    assert len(records) == MESSAGES
    return records


WANTED = [b"%d" % number for number in range(MESSAGES)]


@every_policy
@every_order
@every_protocol
def test_what_waited_for_its_place_over_a_restart(protocol: str, causal: bool, policy: str) -> None:
    case = protocol, causal, policy
    records = accepted(case)
    with little_stack():
        site = alone(case, records, boot=2)
        site.start(SECOND)
        assert delivered(site) == WANTED


@every_policy
@every_order
@every_protocol
def test_what_was_sent_in_one_turn(protocol: str, causal: bool, policy: str) -> None:
    site = alone((protocol, causal, policy), [])
    site.start(0)
    with little_stack():
        for number, payload in enumerate(WANTED):
            submit(site, 0, GROUPS[number % 2], [payload])
        assert delivered(site) == WANTED


@every_protocol
def test_what_waited_in_causal_order_for_its_turn_is_of_the_same_burst(protocol: str) -> None:
    """Each goes to another group than the last, which is to be stable first; nobody is asked."""
    site = alone((protocol, True, "exclude"), [])
    site.own.one_group_at_a_time()
    site.start(0)
    for number, payload in enumerate(WANTED):
        submit(site, 0, GROUPS[number % 2], [payload])
    with little_stack():
        box = site.drain()
    assert [payload for batch in box.deliver for payload in batch.payloads] == WANTED
