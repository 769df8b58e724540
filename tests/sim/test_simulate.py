"""`simulate`: a pure function of config and seed, with a verdict that can fail."""

import hashlib
import json
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ordercast.core.engine import Engine
from ordercast.core.epochs import member
from ordercast.model.errors import ConfigError
from ordercast.model.messages import DeliveredBatch
from ordercast.model.options import SECOND
from ordercast.sim.chance import Chance
from ordercast.sim.config import SimConfig
from ordercast.sim.disk import Disk
from ordercast.sim.faults import Fault, parse_faults
from ordercast.sim.injections import draw_injections
from ordercast.sim.networks import WanSpec, build_network
from ordercast.sim.simulate import simulate
from ordercast.sim.workload import horizon, submissions
from ordercast.wire.frames import Ack
from support.cases.tables import FIGURE_3, table_of
from support.harness.commands import under_hash_seeds
from support.worlds.engines import simulate_with

TABLE = table_of(FIGURE_3)
SMALL = SimConfig(TABLE, messages=60)
FAULTY = SimConfig(
    TABLE,
    messages=120,
    batch=3,
    implicit=0.2,
    on_failure="wait",
    causal=True,
    faults=parse_faults(
        "loss=0.1,duplicate=0.1,replay=0.05,reorder=0.1,"
        "partition=1,clog=1,pause=1,slow=1,crash=2,restart=2",
        str,
    ),
)


def test_a_quiet_network_delivers_everything_once_to_every_member() -> None:
    result = simulate(SMALL, 1)
    assert result.violations == ()
    assert result.sent == 60
    members = [len(TABLE.groups[row.group_name]) for row in result.history.sent]
    assert result.delivered == sum(members)
    assert [event.kind for event in result.history.events] == ["end"] * len(TABLE.sites)


def test_the_same_seed_gives_the_same_history_and_another_seed_another() -> None:
    one, same, other = simulate(FAULTY, 3), simulate(FAULTY, 3), simulate(FAULTY, 4)
    assert one.history_hash == same.history_hash
    assert one.history == same.history
    assert one.history_hash != other.history_hash


@pytest.mark.parametrize("protocol", ["propagation", "centralized"])
def test_two_processes_with_different_hash_seeds_give_the_same_hash(protocol: str) -> None:
    words = ("-m", "ordercast.cli", "sim", "--schedule", "--json", "--protocol", protocol)
    found = [json.loads(output) for output in under_hash_seeds(*words, "--seed", "12")]
    assert found[0]["sent"] > 0
    assert found[0]["history_hash"] == found[1]["history_hash"]


def test_frames_as_objects_and_as_bytes_give_the_same_history() -> None:
    as_bytes = simulate(replace(FAULTY, codec="bytes"), 3)
    assert as_bytes.history_hash == simulate(FAULTY, 3).history_hash


def test_what_the_world_draws_is_the_same_on_every_machine() -> None:
    """Workload, faults, delays and syncs of a seed, pinned: no machine may draw others."""
    sites = TABLE.sites
    network = build_network(WanSpec(), sites, Chance(3, "network"))
    disk = Disk("sync", Chance(3, "disks"))
    drawn = [
        list(submissions(FAULTY, 3)),
        draw_injections(FAULTY.faults, sites, horizon(FAULTY), 3),
        [network.arrivals(0, a, [(b, Ack(1, 1, ()))]) for a in sites for b in sites],
        [disk.begin_sync(0) for _ in range(10)],
    ]
    told = repr(drawn).replace(", headers=())", ")")  # nobody drew those when this was pinned
    digest = hashlib.sha256(told.encode()).hexdigest()
    assert digest[:16] == "d1a8f861f6e0636c"


def test_everything_at_once_ends_well_and_is_counted_by_kind() -> None:
    result = simulate(FAULTY, 3)
    assert result.violations == ()
    assert result.faults["crash"] == result.faults["restart"] == 2
    for kind in ("loss", "duplicate", "replay", "reorder", "partition", "clog", "pause", "slow"):
        assert result.faults[kind] > 0, kind


def test_a_fault_turned_off_leaves_the_workload_as_it_was() -> None:
    calm = simulate(replace(FAULTY, faults=()), 3)
    faulty = simulate(FAULTY, 3)
    assert [row.digest for row in sorted(calm.history.sent, key=lambda r: r.sent_ns)][:10] == [
        row.digest for row in sorted(faulty.history.sent, key=lambda r: r.sent_ns)
    ][:10]


def test_the_replay_line_runs_the_same_again(tmp_path: Path) -> None:
    config = replace(FAULTY, messages=40, rate=500.0, network=WanSpec(), settle=40 * SECOND)
    result = simulate(config, 9)
    words = shlex.split(result.replay)
    assert words[:2] == ["ordercast", "sim"]
    replayed = subprocess.run(
        [sys.executable, "-m", "ordercast.cli", *words[1:], "--json"],
        capture_output=True,
        check=True,
        cwd=tmp_path,
    )
    assert json.loads(replayed.stdout)["history_hash"] == result.history_hash


def test_the_json_has_the_fields_of_the_contract() -> None:
    told = simulate(SMALL, 7).as_json()
    assert {
        "protocol", "seed", "sent", "delivered", "frames", "latency_ms", "epochs", "violations",
        "replay", "history_hash", "events", "virtual_seconds", "wall_seconds",
    } <= set(told)  # fmt: skip
    assert set(told["frames"]) == {"data", "control", "voters"}
    assert set(told["latency_ms"]) == {"mean", "p50", "p99"}
    assert 0 < told["latency_ms"]["p50"] <= told["latency_ms"]["p99"]
    json.dumps(told)


class Forgetful(Engine):
    """Loses the third delivery on its way to the application, without a hole in the positions."""

    def drain(self) -> Any:
        box = super().drain()
        kept: list[DeliveredBatch] = []
        for item in box.deliver:
            if item.position != 3:
                shift = 1 if item.position > 3 else 0
                kept.append(msgspec.structs.replace(item, position=item.position - shift))
        box.deliver = kept
        return box


def test_a_lost_delivery_is_found_by_the_checkers() -> None:
    result = simulate_with(Forgetful, SMALL, 1)
    assert "agreement" in {violation.check for violation in result.violations}
    assert not result.ok


class Deaf(Engine):
    """Does not hear its parent after a while, and does not know it."""

    def receive(self, now: int, peer: str, frame: Any) -> None:
        if peer != self.parent or self.position < 2:
            super().receive(now, peer, frame)


def test_what_is_never_delivered_is_a_liveness_violation_that_says_what_is_missing_where() -> None:
    result = simulate_with(Deaf, replace(SMALL, settle=5 * SECOND), 1)
    (witness,) = [v.witness for v in result.violations if v.check == "liveness"]
    assert witness["not_quiet"]
    assert witness["missing"][0]["sites"]
    assert witness["at_ns"] <= 60 * 1_000_000 + 5 * SECOND


class Broken(Engine):
    def alarm(self, now: int) -> None:
        raise KeyError(f"something the protocol did not foresee at {now}")


def test_a_protocol_that_breaks_down_is_a_violation_with_a_replay_line() -> None:
    result = simulate_with(Broken, SMALL, 1)
    (witness,) = [v.witness for v in result.violations if v.check == "breakdown"]
    assert witness["error"].startswith("KeyError")
    assert "alarm" in witness["trace"][-1]
    assert result.replay.startswith("ordercast sim ")


def test_a_queue_above_its_limit_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member, "observations", lambda _: [("hoard", 11, 10)])
    result = simulate(SMALL, 1)
    (witness,) = [v.witness for v in result.violations if v.check == "bounds"]
    assert witness["name"].endswith(": hoard")


def test_sites_that_stay_down_are_not_held_against_the_others() -> None:
    faults = (Fault("crash", count=1),)
    config = replace(SMALL, on_failure="wait", faults=faults)
    result = simulate(config, 1)
    assert result.violations == ()
    assert result.delivered < 60 * 9
    assert [event.kind for event in result.history.events] == ["crash"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"protocol": "propagate"},
            "there is no protocol 'propagate' (did you mean 'propagation'?)",
        ),
        ({"protocol": "centralized", "builder": "greedy"}, "builder: 'centralized' runs on 'star'"),
        ({"builder": "gredy"}, "builder: there is no builder 'gredy' (did you mean 'greedy'?)"),
        ({"deliver": "save"}, "deliver: there is no 'save' (did you mean 'safe'?)"),
        ({"on_failure": "weit"}, "on-failure: there is no 'weit' (did you mean 'wait'?)"),
        ({"durability": "disk"}, "durability: there is no 'disk'"),
        ({"codec": "byte"}, "codec: there is no 'byte' (did you mean 'bytes'?)"),
        ({"stability": "plane"}, "stability: there is no 'plane' (did you mean 'plain'?)"),
        (
            {"on_failure": "wait", "durability": "memory"},
            "durability: on_failure = 'wait' needs a store that outlives a crash",
        ),
        ({"rate": 0.0}, "rate: 0.0 is not a rate"),
        ({"batch": 0}, "batch: 0 is too small (1 or more)"),
        ({"messages": -1}, "messages: -1 is too small (0 or more)"),
        ({"payload": 2_000_000}, "payload: 2,000,000 is above the limit of 1,048,576 bytes"),
        ({"implicit": 1.5}, "implicit: 1.5 is not a share (0 to 1)"),
        ({"origins": 0}, "origins: 0 of 9 sites"),
        ({"origins": 10}, "origins: 10 of 9 sites"),
        ({"origins": ("aa",)}, "origins: there is no site 'aa' (did you mean 'a'?)"),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_line(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        simulate(replace(SMALL, **change), 1)
    assert str(caught.value).startswith(message)


def test_nothing_to_send_is_a_run_of_nothing() -> None:
    result = simulate(replace(SMALL, messages=0), 1)
    assert (result.sent, result.delivered, result.violations) == (0, 0, ())
