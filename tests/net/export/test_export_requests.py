"""What clients asked for, in an export: which request a message is of, and one that became two."""

import asyncio
from pathlib import Path
from unittest.mock import patch

import pyarrow.parquet as pq
import pytest

from ordercast.check.report import check_history
from ordercast.core import ids as core_ids
from ordercast.history.reader import check_event, read_history
from ordercast.history.rows import (
    DROPPED,
    DUPLICATE,
    EXPIRED,
    FENCED,
    Delivered,
    Event,
    Sent,
    dropped_outcome,
    gap_message,
)
from ordercast.model.errors import ConfigError, Expired, Fenced, StoreCorrupt
from ordercast.model.messages import Requests
from ordercast.net.export.history import export
from ordercast.net.local import local_cluster
from support.stores.exporting import Cluster, counts
from support.stores.records import anew, engine, write

CLIENT, OTHER = bytes(range(16)), b"\xff" * 16
THREE = Requests(CLIENT, ((5, 2), (7, 1)))  # two messages of request 5, one of request 7


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def asked(row: Sent | Delivered) -> tuple[str | None, int | None, int | None]:
    return row.client, row.request, row.part


def test_each_row_says_which_part_of_which_request_it_is(cluster: Cluster) -> None:
    cluster.send("a", "g", b"1", b"2", b"3", requests=THREE)
    cluster.send("a", "g", b"4")
    cluster.close()
    assert cluster.judge().ok
    history = cluster.export()
    told = [(CLIENT.hex(), 5, 0), (CLIENT.hex(), 5, 1), (CLIENT.hex(), 7, 0), (None, None, None)]
    assert [asked(row) for row in sorted(history.sent, key=lambda row: row.seq)] == told
    for site in "abc":
        rows = [row for row in history.deliveries if row.site == site]
        assert [asked(row) for row in rows] == told


def test_a_request_that_two_daemons_took_is_found(cluster: Cluster) -> None:
    for origin in "ab":
        cluster.send(origin, "g", b"1", b"2", b"3", requests=THREE)
    cluster.send("c", "g", b"1", b"2", b"3", requests=Requests(OTHER, THREE.numbers))
    cluster.close()
    report = cluster.judge()
    assert counts(report) == {"resent": 3}
    assert report.as_json()["witnesses"]["resent"] == {
        "client": CLIENT.hex(),
        "request": 5,
        "part": 0,
        "messages": [["a", 1, "g", 1], ["b", 1, "g", 1]],
        "site": "a",
        "positions": [1, 4],
    }


def test_a_request_that_was_only_accepted_twice_is_found(cluster: Cluster) -> None:
    for _ in range(2):
        cluster.accept(cluster.batch("a", "g", b"1", requests=Requests(CLIENT, ((1, 1),))))
    cluster.close(quiet=False)
    assert counts(cluster.judge()) == {"resent": 1}


def test_what_an_origin_forgot_still_has_its_request(cluster: Cluster) -> None:
    cluster.send("a", "g", b"1", b"2", b"3", requests=THREE)
    write(cluster.stores["a"], forget=anew(3, engine(own_seqs={"g": 3})))
    cluster.send("a", "g", b"4")
    write(cluster.stores["a"], forget=anew(4, engine(own_seqs={"g": 4})), confirmed=4)
    cluster.close()
    history = cluster.export()
    forgotten = [row for row in history.sent if row.digest is None]
    told = [(CLIENT.hex(), 5, 0), (CLIENT.hex(), 5, 1), (CLIENT.hex(), 7, 0)]
    assert [asked(row) for row in forgotten][:3] == told
    assert cluster.judge().ok


def test_a_gap_takes_its_own_part_out_of_a_request(cluster: Cluster) -> None:
    batch = cluster.batch("b", "g", b"1", b"2", b"3", requests=THREE)
    cluster.accept(batch)
    placed = cluster.place(batch)
    for site in "bc":
        cluster.passed(site, placed)
    cluster.passed("a", placed, events=[("gap", 2, '{"count":1}')])
    cluster.close()
    rows = [row for row in cluster.export().deliveries if row.site == "a"]
    assert [(row.position, *asked(row)[1:]) for row in rows] == [(1, 5, 0), (3, 7, 0)]


def test_every_file_has_the_columns_though_no_client_sent_anything(cluster: Cluster) -> None:
    """Who reads a folder takes the columns of one file for those of all."""
    cluster.some(1)
    cluster.close()
    assert cluster.judge().ok
    for table in ("sent", "deliveries"):
        for path in sorted((cluster.folder / "out" / table).iterdir()):
            rows = pq.read_table(path)
            assert rows.column("client").null_count == rows.num_rows
            assert {"request", "part"} <= set(rows.column_names)


def test_requests_of_another_number_of_messages_are_damage(cluster: Cluster) -> None:
    cluster.send("a", "g", b"1", b"2", requests=THREE)
    cluster.close()
    with pytest.raises(StoreCorrupt, match="requests have 3 messages, the batch 2"):
        cluster.export()


async def _send_copies(folder: Path) -> None:
    """Each of these is logged, and only the first of each kind is delivered."""
    async with local_cluster({"g": ["a", "b"]}, dir=folder, durability="os") as running:
        a, b = running["a"], running["b"]
        mark = await a.id_mark("g")
        for node in (a, b):
            await (await node.produce("sink", 1, "g", [b"1"], generation=1)).stable()
            await (await a.multicast("g", b"x", id="x", since=mark)).stable()
        await (await a.produce("sink", 1, "g", [b"2"], generation=2)).stable()
        with pytest.raises(Fenced):
            await (await b.produce("sink", 7, "g", [b"late"], generation=1)).stable()
        for number in range(4):
            await (await a.multicast("g", b"%d" % number, id=str(number))).stable()
        with pytest.raises(Expired):
            await (await a.multicast("g", b"late", id="x", since=mark)).stable()


def test_what_was_logged_and_not_delivered_says_why(tmp_path: Path) -> None:
    with patch.object(core_ids, "REMEMBERED", 2):
        asyncio.run(_send_copies(tmp_path))
    export(tmp_path, tmp_path / "out")
    history = read_history(tmp_path / "out")
    assert check_history(history).ok
    for site in "ab":
        dropped = [e for e in history.events if (e.site, e.kind) == (site, DROPPED)]
        asked = {row.id: str(row.client) for row in history.sent}
        told = [
            (asked[gap_message(event)].split("/")[0], dropped_outcome(event)) for event in dropped
        ]
        assert told == [
            ("producer", DUPLICATE),
            ("id", DUPLICATE),
            ("producer", FENCED),
            ("id", EXPIRED),
        ]


def test_an_outcome_that_is_none_is_refused_in_one_line() -> None:
    event = Event("a", 1, DROPPED, 1, 1, 1, 0, '{"message":["a",1,"g",1],"outcome":"gone"}')
    with pytest.raises(ConfigError, match="field 'outcome': 'gone' is none of duplicate, expired"):
        check_event(event, "events")
