"""Replicas that diverge are seen, by their results or by their states; those that share an error
are equal."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ordercast import Replica
from ordercast.model.errors import ConfigError, Error
from ordercast.model.messages import Batch, DeliveredBatch, Key, Placed, pack_payloads
from ordercast.net.local import LocalCluster, local_cluster
from ordercast.net.replica import digests
from ordercast.net.replica.digests import ResultDigests, encoded
from ordercast.net.site.node import site_of
from ordercast.net.site.status import status_of, troubles
from support.clusters.served import served
from support.clusters.sites import until
from support.harness.loops import in_loop

ALPHA = {"alpha": ["a", "b"]}
QUICK = 0.02


class Sum:
    """Adds up numbers; `wrong`: of this command alone, at this replica alone."""

    def __init__(self, wrong: str = "", how: str = "value") -> None:
        self.total = 0
        self.wrong = wrong
        self.how = how

    def apply(self, command: bytes, _: Any) -> int:
        text = command.decode()
        if text == self.wrong and self.how == "error":
            raise OSError("only here")
        if not text.isdigit():
            raise ValueError(f"{text} is no number")
        self.total += int(text)
        if text == self.wrong and self.how == "value":
            return self.total + 1
        if text == self.wrong and self.how == "state":
            self.total += 1
            return self.total - 1
        return self.total

    def replica(self, node: Any, **options: Any) -> Replica[int]:
        return Replica(
            node,
            "alpha",
            self.apply,
            digest=lambda: self.total,
            **{"compare_s": QUICK, **options},
        )


def wrong_at(cluster: LocalCluster, site: str) -> str:
    found: str = status_of(site_of(cluster[site]))["replicas"]["alpha"]["diverged"]
    return found


@pytest.mark.parametrize("how", ["value", "error"])
@in_loop
async def test_another_result_at_one_replica_is_an_alarm_everywhere(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with local_cluster(ALPHA) as cluster:
        right, other = Sum(), Sum("7", how)
        async with right.replica(cluster["a"]) as a, other.replica(cluster["b"]) as b:
            for number in range(6):
                await a.submit(b"%d" % number)
            await asyncio.sleep(5 * QUICK)
            assert (a.diverged, b.diverged) == ("", "")
            await a.submit(b"7")
            await until(lambda: bool(a.diverged and b.diverged))
            raised = "1 raised" if how == "error" else "0 raised"
            assert "message 7 of epoch 1 differ: a has other results (0 raised)" in a.diverged
            assert f"b has other results ({raised}) than a" in b.diverged
            assert wrong_at(cluster, "a") == a.diverged
            assert wrong_at(cluster, "b") == b.diverged
            assert troubles(status_of(site_of(cluster["a"])))[0].startswith(
                "replica of alpha: dive"
            )
            assert await a.submit(b"1") > 0  # by choice it goes on
            await asyncio.sleep(5 * QUICK)
    said = [r for r in caplog.records if "the replicas of alpha have diverged" in r.getMessage()]
    assert len(said) == 2  # each site once


@in_loop
async def test_an_error_that_all_share_is_a_result() -> None:
    async with (
        local_cluster(ALPHA) as cluster,
        Sum().replica(cluster["a"]) as a,
        Sum().replica(cluster["b"]) as b,
    ):
        for number in range(20):
            with pytest.raises(ValueError, match="is no number"):
                await a.submit(b"x%d" % number)
            await b.submit(b"%d" % number)
        await until(lambda: site_of(cluster["a"]).digests.told()["alpha"]["number"] == 40)
        await asyncio.sleep(5 * QUICK)
        assert (a.diverged, b.diverged) == ("", "")
        told = status_of(site_of(cluster["a"]))["replicas"]
        assert told["alpha"]["compared_with"] == ["b"]


@in_loop
async def test_a_replica_stops_by_choice() -> None:
    async with local_cluster(ALPHA) as cluster, Sum().replica(cluster["a"]) as a:
        b = Sum("7").replica(cluster["b"], on_divergence="stop")
        await b.__aenter__()
        await a.submit(b"7")
        await until(lambda: bool(b.diverged))
        with pytest.raises(Error, match="it has diverged"):
            await b.submit(b"1")
        with pytest.raises(Error, match="it has diverged: the results of message 1 of epoch 1"):
            await b.__aexit__(None, None, None)


@in_loop
async def test_another_state_is_seen_at_the_next_boundary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where no result has shown it: the last command before the boundary did it."""
    monkeypatch.setattr(digests, "INTERVAL", 5)
    async with local_cluster(ALPHA, dir=tmp_path, durability="os") as cluster:
        async with Sum().replica(cluster["a"]) as a, Sum("5", "state").replica(cluster["b"]):
            for number in (1, 2, 3, 7, 5):
                await a.submit(b"%d" % number)
            await until(lambda: bool(a.diverged))
            assert a.diverged.startswith("the states after message 5 of epoch 1 differ")
        async with Sum().replica(cluster["a"]) as a, Sum("7", "state").replica(cluster["b"]):
            await until(lambda: bool(a.diverged))
            assert a.diverged.startswith("the results of message")


@in_loop
async def test_after_a_snapshot_and_for_a_joiner_digests_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digests, "INTERVAL", 10)
    groups = {"alpha": ["a", "b"], "beta": ["c"]}

    def kept(state: Sum, site: str) -> dict[str, Any]:
        def restore(text: bytes) -> None:
            state.total = int(text)

        return {
            "snapshot": lambda: b"%d" % state.total,
            "restore": restore,
            "path": tmp_path / f"{site}.snapshot",
        }

    async with local_cluster(groups) as cluster:
        first = Sum()
        async with first.replica(cluster["a"], **kept(first, "a")) as a:
            for number in range(13):
                await a.submit(b"%d" % number)
            await a.save()
        again, other = Sum(), Sum("77")
        async with (
            again.replica(cluster["a"], **kept(again, "a")) as a,
            other.replica(cluster["b"], **kept(other, "b")) as b,
        ):
            for number in range(20, 30):
                await b.submit(b"%d" % number)
            await asyncio.sleep(5 * QUICK)
            assert (a.diverged, b.diverged) == ("", "")
            await cluster["c"].join("alpha")
            late = Sum()
            async with late.replica(cluster["c"], **kept(late, "c")) as c:
                await b.submit(b"1")
                await c.submit(b"2")
                await until(lambda: site_of(cluster["c"]).digests.told()["alpha"]["number"] == 2)
                await asyncio.sleep(5 * QUICK)
                assert (a.diverged, b.diverged, c.diverged) == ("", "", "")
                await c.submit(b"77")
                await until(lambda: bool(b.diverged and c.diverged))
                assert "3 of epoch" in c.diverged
                assert a.diverged == "" or "b" in a.diverged


@in_loop
async def test_replicas_of_daemons_clients_are_compared(tmp_path: Path) -> None:
    async with (
        served(tmp_path, ALPHA) as daemons,
        daemons.connect("a") as one,
        daemons.connect("b") as two,
        Sum().replica(one) as a,
        Sum("7").replica(two),
    ):
        await a.submit(b"7")
        await until(lambda: bool(a.diverged))
        assert wrong_at(daemons.cluster, "a") == a.diverged


def test_results_are_the_same_bytes_in_every_process() -> None:
    class Opaque:
        pass

    assert encoded(Opaque()) == encoded(Opaque())  # their addresses do not count
    assert encoded({"b": 1, "a": {2, 1}}) == encoded({"a": {1, 2}, "b": 1})
    values: list[object] = [
        None,
        0,
        False,
        "",
        b"",
        (),
        [0],
        {},
        "0",
        b"0",
        1,
        1.5,
        ("a", "b"),
        ("ab",),
    ]
    assert len({encoded(value) for value in values}) == len(values)


def test_what_was_taken_back_elsewhere_is_not_compared() -> None:
    """Cut off from each other, two sites may have different messages under one number."""

    def applied(origin: str, value: int) -> ResultDigests:
        made = ResultDigests("alpha", None)
        batch = Batch(origin, 1, "alpha", 1, 1, pack_payloads([b"x"]))
        made.begin(DeliveredBatch(1, 1, Placed(Key((0, 1), origin), 1, batch)))
        made.applied(value, None)
        return made

    mine = applied("a", 1)
    for origin, value, differs in (("a", 1, False), ("b", 2, False), ("a", 2, True)):
        theirs = applied(origin, value).told()
        assert theirs is not None
        assert bool(mine.compare("a", "b", theirs)) == differs


def test_a_choice_that_there_is_not_is_refused() -> None:
    with pytest.raises(ConfigError, match="on_divergence: 'panic' is neither 'alarm' nor 'stop'"):
        Replica(None, "alpha", lambda *_: None, on_divergence="panic")  # type: ignore[arg-type]
