"""Metrics and health over HTTP, and what a site's status says."""

import asyncio
import builtins
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ordercast.model.errors import ConfigError
from ordercast.net.daemon import http as served_http
from ordercast.net.daemon.http import MOST_HEAD, Http
from ordercast.net.daemon.metrics import exposition
from ordercast.net.local import local_cluster
from ordercast.net.site.node import site_of
from ordercast.net.site.status import status_of, troubles
from support.clusters.layouts import primary_of
from support.harness.loops import in_loop

GROUPS = {"alpha": ["a", "b"], "beta": ["b", "c"]}
LINK = {
    "peer": "b", "state": "connected", "address": "127.0.0.1:1", "since_s": 3.0, "heard_s": 0.1,
    "connections": 2, "bytes_in": 10, "bytes_out": 20, "frames_in": 1, "frames_out": 2,
    "waiting_bytes": 0, "last_error": "", "mistakes": 0, "through": "c",
}  # fmt: skip


async def some_status(**changes: Any) -> dict[str, Any]:
    async with local_cluster(GROUPS) as cluster:
        await (await cluster["a"].multicast("alpha", b"x")).stable()
        return {**status_of(site_of(cluster["a"])), "links": [dict(LINK)], **changes}


async def get(http: Http, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(*http.address)
    writer.write(request)
    try:
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


@in_loop
async def test_a_healthy_site_says_ok_and_an_unwell_one_why() -> None:
    status = await some_status()
    http = Http(lambda: status, ("127.0.0.1", 0), "a")
    await http.start()
    try:
        answer = await get(http, b"GET /healthz HTTP/1.1\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert answer.endswith(b"\r\n\r\nok\n")
        status["links"][0].update(state="waiting", last_error="refused")
        status["store"]["failed"] = "disk full"
        answer = await get(http, b"GET /healthz?verbose HTTP/1.0\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert answer.endswith(b"store: disk full; link to b: waiting for 3 s (refused)\n")
    finally:
        await http.close()


@in_loop
async def test_other_requests_are_answered_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served_http, "PATIENCE_S", 0.2)
    status = await some_status()
    http = Http(lambda: status, ("127.0.0.1", 0), "a")
    await http.start()
    try:
        for request, code in (
            (b"GET / HTTP/1.1\r\n\r\n", b"404"),
            (b"HEAD / HTTP/1.1\r\n\r\n", b"404"),
            (b"POST /healthz HTTP/1.1\r\n\r\n", b"405"),
            (b"nonsense\r\n\r\n", b"400"),
            (b"GET /healthz\r\n\r\n", b"400"),
        ):
            assert (await get(http, request)).split(b" ")[1] == code
        whole = await get(http, b"GET /healthz HTTP/1.1\r\n\r\n")
        head = await get(http, b"HEAD /healthz HTTP/1.1\r\n\r\n")
        assert whole == head + b"ok\n"
        assert await get(http, b"x" * (MOST_HEAD + 1)) == b""
        assert await get(http, b"GET /healthz HTTP/1.1\r\n") == b""  # and then nothing more
    finally:
        await http.close()


@pytest.mark.parametrize("idle", [40, 400])
@in_loop
async def test_idle_connections_keep_no_probe_out(
    idle: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served_http, "PATIENCE_S", 60.0)  # none ends by itself on a slow machine
    status = await some_status()
    http = Http(lambda: status, ("127.0.0.1", 0), "a")
    await http.start()
    try:
        crowd = [await asyncio.open_connection(*http.address) for _ in range(idle)]
        async with asyncio.timeout(1.0):
            answer = await get(http, b"GET /healthz HTTP/1.1\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert http.dropped == max(0, idle + 1 - served_http.MOST_CONNECTIONS)
        for _, writer in crowd:
            writer.close()
    finally:
        await http.close()
    assert len([r for r in caplog.records if "the oldest go" in r.message]) == (http.dropped > 0)


@in_loop
async def test_an_address_in_use_names_the_field() -> None:
    status = await some_status()
    first = Http(lambda: status, ("127.0.0.1", 0), "a")
    await first.start()
    try:
        second = Http(lambda: status, first.address, "b")
        with pytest.raises(ConfigError, match=r"sites\.b\.metrics: 127\.0\.0\.1:\d+: .*in use"):
            await second.start()
    finally:
        await first.close()


@in_loop
async def test_metrics_have_every_number_of_the_status() -> None:
    status = await some_status()
    status["window"]["held_by"] = ["b", "c"]
    status["suspects"], status["apart"] = ["b"], [["b", "c"]]
    status["relayed"] = {"pipes": 2, "opened": 5, "refused": 1, "bytes": 700}
    status["stability"]["waits_for"] = ["c"]
    found = exposition(status)
    assert found is not None
    text = found.decode()
    for line in (
        'ordercast_position{cluster="local",site="a"} 1.0',
        'ordercast_epoch{cluster="local",site="a"} 1.0',
        'ordercast_open_epochs{cluster="local",site="a"} 1.0',
        'ordercast_changes{cluster="local",site="a"} 0.0',
        'ordercast_suspect{cluster="local",of="b",site="a"} 1.0',
        'ordercast_apart{cluster="local",one="b",other="c",site="a"} 1.0',
        'ordercast_window_limit_messages{cluster="local",site="a"} 10000.0',
        'ordercast_window_held_by{by="c",cluster="local",site="a"} 1.0',
        'ordercast_stability_waits_for{cluster="local",of="c",site="a"} 1.0',
        'ordercast_link_up{cluster="local",peer="b",site="a"} 1.0',
        'ordercast_link_bytes_total{cluster="local",direction="out",peer="b",site="a"} 20.0',
        'ordercast_link_connections_total{cluster="local",peer="b",site="a"} 2.0',
        'ordercast_link_through{cluster="local",peer="b",relay="c",site="a"} 1.0',
        'ordercast_relayed_pipes{cluster="local",site="a"} 2.0',
        'ordercast_relayed_pipes_opened_total{cluster="local",site="a"} 5.0',
        'ordercast_relayed_pipes_refused_total{cluster="local",site="a"} 1.0',
        'ordercast_relayed_bytes_total{cluster="local",site="a"} 700.0',
        'ordercast_store_failed{cluster="local",site="a"} 0.0',
    ):
        assert line in text.splitlines()


@in_loop
async def test_without_the_extra_metrics_name_it_and_health_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = builtins.__import__

    def missing(
        name: str,
        globals_: Mapping[str, object] | None = None,
        locals_: Mapping[str, object] | None = None,
        names: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        if name.startswith("prometheus_client"):
            raise ImportError(name)
        return real(name, globals_, locals_, names or (), level)

    status = await some_status()
    monkeypatch.setattr(builtins, "__import__", missing)
    http = Http(lambda: status, ("127.0.0.1", 0), "a")
    await http.start()
    try:
        answer = await get(http, b"GET /metrics HTTP/1.1\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 501 ")
        assert b"needs" in answer or b"need the extra 'metrics'" in answer
        assert b" 200 " in await get(http, b"GET /healthz HTTP/1.1\r\n\r\n")
    finally:
        await http.close()


@in_loop
async def test_status_names_the_site_that_holds_the_window(tmp_path: Path) -> None:
    waits = {"durability": "os", "on_failure": "wait"}
    async with local_cluster(GROUPS, dir=tmp_path, **waits) as cluster:
        assert status_of(site_of(cluster["a"]))["window"]["held_by"] == []
        primary = primary_of(cluster.cluster, "alpha")
        other = "a" if primary == "b" else "b"
        await cluster.kill(other)
        await (await cluster[primary].multicast("alpha", b"x")).ordered()
        found = status_of(site_of(cluster[primary]))
        assert found["window"]["messages"] == 1
        assert found["window"]["held_by"] == [other]
        assert not found["quiet"]
        await cluster.start(other)
        await cluster[primary].flush("stable")
        await cluster.kill(primary)  # it orders: a message from another site waits for it
        await (await cluster["c"].multicast("beta", b"y")).accepted()
        assert status_of(site_of(cluster["c"]))["window"]["held_by"] == [primary]
        await cluster.start(primary)
        await cluster["c"].flush("stable")
        assert status_of(site_of(cluster["c"]))["window"]["held_by"] == []


@in_loop
async def test_status_is_plain_data_with_every_documented_field() -> None:
    status = await some_status()
    assert troubles(status) == []
    assert {
        "site", "cluster", "boot", "incarnation", "admitted", "epoch", "epochs", "records",
        "groups", "times", "passages", "clock_ns",
        "voters", "manager", "changes", "suspects", "apart", "protocol", "deliver", "on_failure",
        "durability", "position", "logged", "confirmed", "lag", "window", "queues", "links",
        "store", "quiet", "holds_others", "uptime_s", "standing", "why_not", "attempt",
        "rolled_back", "settled", "excluded", "frozen", "flush", "stability", "dissemination",
        "relayed", "replicas", "readers", "producers", "version", "code", "wire", "features",
        "certificate_ends_s", "link_troubles",
    } == set(status)  # fmt: skip
    assert set(status["stability"]) == {
        "tracker", "unstable", "rounds", "round_ms", "limit", "to_stable_ms",
        "slowest_to_stable_ms", "measured", "all_to_stable_ms", "waits_for", "held_by",
    }  # fmt: skip
    assert set(status["window"]) == {
        "messages", "bytes", "limit_messages", "limit_bytes", "held_by",
    }  # fmt: skip
    for queue in status["queues"]:
        assert set(queue) == {"name", "value", "limit"}
        assert queue["value"] <= queue["limit"]
