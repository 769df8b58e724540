"""The runtime verbs against real daemons, as an operator uses them."""

import base64
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from ordercast.net.export.history import collect
from processes.daemons import Daemons, is_running, soon, up


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemons]:
    """One cluster for the tests that leave it as they found it, but for what was sent."""
    with up(tmp_path_factory.mktemp("cluster"), metrics=True, in_process=True) as daemons:
        yield daemons


def test_a_message_is_sent_and_printed_at_every_member(cluster: Daemons) -> None:
    before = cluster.json("status", "cluster.toml")["sites"]
    sent = cluster.json("send", "cluster.toml", "alpha", "grüße", "--until", "stable")
    assert (sent["sent"], sent["reached"], sent["until"]) == (1, 1, "stable")
    for site in ("a", "b"):
        start = str(before[site]["position"] + 1)
        words = ("tail", "cluster.toml", "--site", site, "--start", start, "--count", "1")
        (row,) = cluster.lines(*words)
        assert row["text"] == "grüße"
        assert (row["group"], row["origin"]) == ("alpha", sent["from"])
        assert (row["epoch"], row["incarnation"], row["seq"]) == (1, 1, sent["last_seq"])
        text = cluster.good(*words)
        assert text == f"{start}\talpha\t{row['origin']}:{row['seq']}\tgrüße\n"


def test_headers_groups_and_times_are_sent_and_printed(cluster: Daemons) -> None:
    start = str(cluster.json("status", "cluster.toml")["sites"]["b"]["position"] + 1)
    words = ("send", "cluster.toml", "beta,alpha", "hello", "--from", "a", "--until", "stable")
    cluster.good(*words, "--header", "colour=red=blue", "--header", "empty=")
    words = ("tail", "cluster.toml", "--site", "b", "--start", start, "--count", "1")
    (row,) = cluster.lines(*words)
    assert row["headers"] == {"colour": "red=blue", "empty": ""}
    assert row["groups"] == ["beta", "alpha"]
    assert abs(row["sent_ns"] / 1e9 - time.time()) < 60
    shown = "hello\t[colour=red=blue]\t[empty=]\n"
    seq = row["seq"]
    assert cluster.good(*words) == f"{start}\tbeta,alpha\ta:{seq}\t{shown}"
    position, delivered, sent, *rest = cluster.good(*words, "--times").split("\t", 3)
    assert (position, rest) == (start, [f"beta,alpha\ta:{seq}\t{shown}"])
    assert row["sent_ns"] <= row["delivered_ns"] < row["sent_ns"] + 60e9
    for text, at_ns in ((delivered, row["delivered_ns"]), (sent, row["sent_ns"])):
        assert datetime.fromisoformat(text).timestamp() == pytest.approx(at_ns / 1e9, abs=1e-3)


def test_the_time_of_each_delivery_is_that_of_the_export(cluster: Daemons) -> None:
    """Also where one answer does not hold them all. The export lacks the last message: the store
    notes that it was released with the commit after it."""
    start = cluster.json("status", "cluster.toml")["sites"]["a"]["position"] + 1
    cluster.good("send", "cluster.toml", "alpha", "--size", "1", "--count", "9000")
    cluster.good("send", "cluster.toml", "alpha", "last", "--until", "stable")
    words = ("tail", "cluster.toml", "--site", "a", "--start", str(start), "--count", "9001")
    shown = {row["position"]: row["delivered_ns"] for row in cluster.lines(*words)}
    rows = collect(cluster.dir)[1].deliveries
    kept = {row.position: row.delivered_ns for row in rows if row.site == "a"}
    assert len(set(shown.values())) > 1
    del shown[start + 9000]
    assert shown == {position: kept[position] for position in range(start, start + 9000)}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (["colour"], "--header: 'colour' is not NAME=VALUE"),
        (["a=1", "a=2"], "--header: 'a' is given twice"),
        (["=1"], "headers: '' is not a name: 1 to 64 printable characters of ASCII"),
        (["a=" + "x" * 5_000], "headers of 5,001 bytes; the limit is 4,096 for one message"),
    ],
)
def test_headers_that_are_wrong_are_one_line(cluster: Daemons, given: list[str], why: str) -> None:
    words = [word for each in given for word in ("--header", each)]
    done = cluster.run("send", "cluster.toml", "alpha", "x", *words)
    assert done.returncode == 2
    assert done.stderr.strip() == f"ordercast: {why}"


def test_a_message_with_an_id_is_delivered_once_also_by_its_first_mark(cluster: Daemons) -> None:
    start = str(cluster.json("status", "cluster.toml")["sites"]["b"]["position"] + 1)
    words = ("send", "cluster.toml", "alpha", "--from", "a", "--id", "order-17")
    first = cluster.json(*words, "paid")
    assert (first["reached"], first["until"]) == (1, "stable")
    since = str(first["since"])
    assert cluster.json(*words, "paid", "--since", since)["since"] == first["since"]
    cluster.good(*words, "paid, and another text")
    cluster.good("send", "cluster.toml", "alpha", "the end", "--from", "a", "--until", "stable")
    tail = ("tail", "cluster.toml", "--site", "b", "--start", start, "--count", "2")
    assert [row["text"] for row in cluster.lines(*tail)] == ["paid", "the end"]
    late = cluster.run(*words, "late", "--since", "5")
    told = late.stderr
    assert late.returncode == 1
    assert "id 'order-17' came too late for group 'alpha'" in told
    assert told.endswith("and perhaps it was before\n")  # to try again is of no use


def test_each_line_of_input_is_a_message(cluster: Daemons) -> None:
    start = cluster.json("status", "cluster.toml")["sites"]["c"]["position"] + 1
    sent = cluster.json("send", "cluster.toml", "beta", "-", "--from", "a", text="one\ntwo\n\nfour")
    assert (sent["sent"], sent["reached"], sent["from"]) == (4, 4, "a")
    words = ("tail", "cluster.toml", "--site", "c", "--start", str(start), "--count", "4")
    assert [row["text"] for row in cluster.lines(*words)] == ["one", "two", "", "four"]


def test_ctrl_c_ends_a_send_that_waits_for_lines(cluster: Daemons) -> None:
    command = cluster.command("send", "cluster.toml", "alpha", "-", "--json")
    with subprocess.Popen(
        command, cwd=cluster.place, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    ) as sending:  # fmt: skip
        assert sending.stdin is not None
        assert sending.stderr is not None
        before = cluster.json("status", "cluster.toml")["sites"]["a"]["position"]
        sending.stdin.write("one\n")
        sending.stdin.flush()
        assert soon(
            lambda: cluster.json("status", "cluster.toml")["sites"]["a"]["position"] > before
        )
        sending.send_signal(signal.SIGINT)  # the pipe stays open
        assert sending.wait(30) == 130
        assert sending.stderr.read().splitlines()[-1] == "ordercast: interrupted"


def test_several_groups_are_one_send_and_one_delivery_each(cluster: Daemons) -> None:
    before = cluster.json("status", "cluster.toml")["sites"]
    cluster.json("send", "cluster.toml", "alpha,beta", "all", "--until", "stable")
    after = cluster.json("status", "cluster.toml")["sites"]
    assert [after[s]["position"] - before[s]["position"] for s in "abc"] == [1, 1, 1]


def test_made_up_messages_have_the_size_asked_for(cluster: Daemons) -> None:
    start = cluster.json("status", "cluster.toml")["sites"]["a"]["position"] + 1
    done = cluster.run("send", "cluster.toml", "alpha", "--size", "300", "--count", "2000")
    assert done.returncode == 0
    assert "2,000 ordered" in done.stdout
    words = ("tail", "cluster.toml", "--site", "a", "--start", str(start), "--count", "2000")
    rows = cluster.lines(*words)
    assert {len(row["text"]) for row in rows} == {300}
    assert [row["position"] for row in rows] == list(range(start, start + 2000))


def test_the_messages_of_some_groups_only_are_printed(cluster: Daemons) -> None:
    start = cluster.json("status", "cluster.toml")["sites"]["b"]["position"] + 1
    for group in ("alpha", "beta", "alpha,beta"):
        cluster.json("send", "cluster.toml", group, group, "--until", "stable")
    words = ("tail", "cluster.toml", "--site", "b", "--start", str(start), "--count", "1")
    (row,) = cluster.lines(*words, "--group", "beta")
    assert (row["position"], row["text"]) == (start + 1, "beta")
    rows = cluster.lines(*words[:-1], "2", "--group", "beta")
    assert [row["text"] for row in rows] == ["beta", "alpha,beta"]
    done = cluster.run(*words, "--group", "bta", "--group", "beta")
    assert "there is no group 'bta' now (did you mean 'beta'?)" in done.stderr
    assert done.stdout.startswith(f"{start + 1}\tbeta\t")


def test_bytes_that_are_no_text_are_printed_as_base64(cluster: Daemons) -> None:
    start = cluster.json("status", "cluster.toml")["sites"]["a"]["position"] + 1
    payload = bytes(range(256))
    code = (
        "import asyncio, ordercast\n"
        "async def main():\n"
        "    async with ordercast.connect('cluster.toml', site='a') as node:\n"
        "        receipt = await node.multicast('alpha', bytes(range(256)))\n"
        "        await receipt.stable()\n"
        "        print(receipt.group, (await node.status())['site'])\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=cluster.place, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "alpha a\n"), done.stderr
    words = ("tail", "cluster.toml", "--site", "a", "--start", str(start), "--count", "1")
    (row,) = cluster.lines(*words)
    assert base64.b64decode(row["base64"]) == payload
    assert "text" not in row


def test_status_shows_every_site(cluster: Daemons) -> None:
    table = cluster.good("status", "cluster.toml").splitlines()
    assert table[0].split()[:3] == ["site", "state", "position"]
    assert [line.split()[:2] for line in table[1:]] == [["a", "up"], ["b", "up"], ["c", "up"]]
    one = cluster.json("status", "cluster.toml", "--site", "b")["sites"]
    assert list(one) == ["b"]
    assert one["b"]["window"]["limit_messages"] == 10_000
    assert {link["peer"] for link in one["b"]["links"]} == {"a", "c"}


def test_watching_prints_one_object_per_line(cluster: Daemons) -> None:
    watching = cluster.start("status", "cluster.toml", "--watch", "--json")
    assert watching.stdout is not None
    try:
        first, second = (json.loads(watching.stdout.readline()) for _ in range(2))
    finally:
        watching.send_signal(signal.SIGINT)
        watching.communicate(timeout=20)
    assert list(first["sites"]) == list(second["sites"]) == ["a", "b", "c"]
    assert watching.returncode == 130


def test_metrics_and_health_are_served(cluster: Daemons) -> None:
    cluster.json("send", "cluster.toml", "alpha", "x", "--until", "stable")
    root = f"http://127.0.0.1:{cluster.metrics['a']}"
    with urllib.request.urlopen(f"{root}/healthz", timeout=10) as answer:
        assert (answer.status, answer.read()) == (200, b"ok\n")
    with urllib.request.urlopen(f"{root}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    assert 'ordercast_link_up{cluster="demo",peer="b",site="a"} 1.0' in text
    position = next(line for line in text.splitlines() if line.startswith("ordercast_position{"))
    assert float(position.split()[-1]) >= 1
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"{root}/other", timeout=10)


def test_a_second_daemon_of_a_site_is_refused_in_one_line(cluster: Daemons) -> None:
    done = cluster.run("node", "cluster.toml", "--site", "a")
    assert done.returncode == 2
    assert "a.db" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    again = cluster.run("cluster", "up", "cluster.toml", "--detach")
    assert again.returncode == 2
    assert "running already: a (process " in again.stderr


def test_unknown_names_are_the_users_mistake(cluster: Daemons) -> None:
    for words, said in (
        (("send", "cluster.toml", "alhpa", "x"), "no group 'alhpa' (did you mean 'alpha'?)"),
        (("send", "cluster.toml", "alpha", "x", "--from", "d"), "there is no site 'd'"),
        (("tail", "cluster.toml", "--site", "d"), "there is no site 'd'"),
        (("tail", "cluster.toml", "--site", "a", "--start", "0"), "0 is too small"),
        (("node", "cluster.toml", "--site", "d"), "there is no site 'd'"),
        (("cluster", "kill", "cluster.toml", "d"), "there is no site 'd'"),
        (("status", "none.toml"), "none.toml: no such file"),
    ):
        done = cluster.run(*words)
        assert done.returncode == 2, words
        assert done.stdout == ""
        assert said in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_a_killed_site_is_waited_for_and_told(tmp_path: Path) -> None:
    with up(tmp_path, metrics=True, on_failure="wait") as daemons:
        daemons.good("send", "cluster.toml", "alpha", "before", "--until", "stable")
        killed = daemons.json("cluster", "kill", "cluster.toml", "b")
        assert soon(lambda: not is_running(killed["killed"]))
        status = daemons.run("status", "cluster.toml", "--json")
        assert status.returncode == 1
        assert json.loads(status.stdout)["sites"]["b"]["state"] == "down"

        words = ("send", "cluster.toml", "alpha", "during", "--from", "a", "--until", "ordered")
        waits = daemons.run(*words, "--timeout", "1.5", "--json")
        assert waits.returncode == 1
        assert json.loads(waits.stdout)["reached"] == 0
        assert "1 of 1 messages are not known to be ordered: gave up after 1.5 s" in waits.stderr
        held = json.loads(daemons.run("status", "cluster.toml", "--json").stdout)["sites"]["a"]
        assert held["window"]["held_by"] == ["b"]
        assert held["state"] == "unwell"
        with pytest.raises(urllib.error.HTTPError, match="503") as answer:
            urllib.request.urlopen(f"http://127.0.0.1:{daemons.metrics['a']}/healthz", timeout=10)
        assert b"link to b" in answer.value.read()

        restarted = daemons.json("cluster", "restart", "cluster.toml", "b")
        assert (restarted["killed"], restarted["site"]) == (None, "b")
        daemons.good("send", "cluster.toml", "alpha", "after", "--from", "b", "--until", "stable")
        rows = daemons.lines("tail", "cluster.toml", "--site", "b", "--start", "1", "--count", "3")
        assert sorted(row["text"] for row in rows) == ["after", "before", "during"]
        assert soon(lambda: daemons.run("status", "cluster.toml").returncode == 0)


@pytest.mark.parametrize("protocol", ["propagation", "centralized"])
def test_what_was_sent_is_exported_and_judged(tmp_path: Path, protocol: str) -> None:
    with up(tmp_path, protocol=protocol) as daemons:
        for origin, group in (("a", "beta"), ("b", "alpha"), ("c", "beta")):
            words = ("send", "cluster.toml", group, "--from", origin, "--size", "50")
            daemons.good(*words, "--count", "600", "--until", "stable")
        exported = daemons.json("export", "cluster.toml", "running")
        assert (exported["sent"], exported["deliveries"]) == (1800, 3600)
        assert exported["ended"] == ["a", "b", "c"]
        assert daemons.json("audit", "running", "--engine", "memory")["ok"]
    closed = daemons.json("export", "cluster.toml", "closed")
    assert closed == {**exported, "out": "closed"}
    verdict = daemons.json("audit", "closed", "--engine", "memory")
    assert (verdict["ok"], verdict["rows"], verdict["informative"]["pending"]) == (True, 3600, 0)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_cluster_in_the_foreground_ends_with_ctrl_c(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    daemons = Daemons(tmp_path)
    running = daemons.start("cluster", "up", "cluster.toml")
    try:
        assert running.stdout is not None
        assert running.stdout.readline().startswith("cluster demo is up: a (")
        pids = daemons.pids()
        assert list(pids) == ["a", "b", "c"]
        daemons.good("cluster", "kill", "cluster.toml", "c")
        daemons.good("send", "cluster.toml", "alpha", "still here")
        assert running.stderr is not None
        noticed = "site c has ended (it was ended by SIGKILL)"
        assert any(noticed in line for line in running.stderr)  # ends at the first of them
        running.send_signal(number)
        _, told = running.communicate(timeout=60)
    finally:
        running.kill()
        daemons.run("cluster", "down", "cluster.toml")
    assert running.returncode == code
    # The sites log there too; one of them may see that another has stopped before it.
    own = [line for line in told.splitlines() if not re.match(r"\S+Z [abc] [A-Z]+ ", line)]
    assert own == ["stopping"]
    assert not any(is_running(pid) for pid in pids.values())
    assert not list(daemons.dir.glob("[ab].pid"))


def test_ctrl_c_before_all_are_ready_leaves_no_daemon(tmp_path: Path) -> None:
    daemons = Daemons(tmp_path)
    with daemons.start("cluster", "up", "cluster.toml", "--detach") as starting:
        logs = [daemons.dir / f"{site}.log" for site in "abc"]
        assert soon(lambda: logs[0].exists() and logs[0].stat().st_size > 0)
        starting.send_signal(signal.SIGINT)  # the first of three is about to start
        assert starting.wait(60) == 130
    assert daemons.good("cluster", "down", "cluster.toml").startswith("no site of demo runs")
    assert all(" starts\n" in log.read_text(encoding="utf-8") for log in logs)


def test_a_site_that_cannot_start_is_told_and_stops_the_others(tmp_path: Path) -> None:
    daemons = Daemons(tmp_path)
    daemons.dir.mkdir(parents=True)
    (daemons.dir / "b.db").write_bytes(b"this is no store" * 500)
    done = daemons.run("cluster", "up", "cluster.toml", "--detach")
    assert done.returncode in (1, 2)
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("ordercast: site b did not start: ")
    assert "b.db" in line
    assert daemons.pids() == {}
    here = daemons.run("cluster", "up", "cluster.toml")
    assert here.returncode == done.returncode
    said = here.stderr.splitlines()
    assert any(line.startswith("ordercast: ") and "b.db" in line for line in said)  # its own word
    assert said[-1].startswith("ordercast: site b did not start: it ended with code ")
    assert daemons.pids() == {}


def test_an_address_in_use_is_named(cluster: Daemons) -> None:
    done = cluster.run("node", "cluster.toml", "--site", "a", "--dir", "other", "--new")
    assert done.returncode == 2
    assert f"127.0.0.1:{cluster.address['a']}" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_a_process_that_got_the_old_number_is_never_killed(tmp_path: Path) -> None:
    daemons = Daemons(tmp_path)
    daemons.dir.mkdir(parents=True)
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        (daemons.dir / "a.pid").write_text(f"{bystander.pid}\n12345\n", encoding="ascii")
        done = daemons.run("cluster", "kill", "cluster.toml", "a")
        assert done.returncode == 2
        assert "site 'a' does not run" in done.stderr
        daemons.good("cluster", "down", "cluster.toml")
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_node_tells_events_and_stops_cleanly(tmp_path: Path) -> None:
    daemons = Daemons(tmp_path, {"solo": ["a"]})
    node = daemons.start("node", "cluster.toml", "--site", "a", "--json")
    assert node.stdout is not None
    try:
        ready = json.loads(node.stdout.readline())
        assert (ready["event"], ready["site"], ready["pid"]) == ("ready", "a", node.pid)
        daemons.good("send", "cluster.toml", "solo", "x", "--until", "stable")
        node.send_signal(signal.SIGTERM)
        out, said = node.communicate(timeout=20)
    finally:
        node.kill()
    assert node.returncode == 0
    stopped = json.loads(out.splitlines()[-1])
    assert (stopped["event"], stopped["position"]) == ("stopped", 1)
    assert " a INFO stopped at position 1" in said
    assert "Traceback" not in said
    assert not (daemons.dir / "a.sock").exists()
    assert not (daemons.dir / "a.pid").exists()


def test_stores_and_sockets_are_for_their_user_alone(cluster: Daemons) -> None:
    assert cluster.dir.stat().st_mode & 0o077 == 0
    assert (cluster.dir / "a.sock").stat().st_mode & 0o777 == 0o600


def test_certificates_are_made_and_used(tmp_path: Path) -> None:
    daemons = Daemons(tmp_path, tables='[tls]\ndir = "certs"')
    try:
        refused = daemons.run("cluster", "up", "cluster.toml", "--detach")
        assert refused.returncode == 2
        assert "certs" in refused.stderr
        written = daemons.json("certs", "cluster.toml")["written"]
        assert set(written) >= {"ca.pem", "ca.key", "a.pem", "a.key", "c.pem", "c.key"}
        assert (tmp_path / "certs" / "a.key").stat().st_mode & 0o077 == 0
        assert daemons.json("certs", "cluster.toml")["written"] == []
        daemons.good("cluster", "up", "cluster.toml", "--detach")
        daemons.good("send", "cluster.toml", "alpha", "sealed", "--until", "stable")
    finally:
        daemons.run("cluster", "down", "cluster.toml")


def test_a_reader_that_goes_away_ends_the_tail(cluster: Daemons) -> None:
    cluster.good("send", "cluster.toml", "alpha", "--size", "10", "--count", "50")
    read, write = os.pipe()
    tail = subprocess.Popen(
        cluster.command("tail", "cluster.toml", "--site", "a", "--start", "1"),
        cwd=cluster.place,
        stdout=write,
        stderr=subprocess.PIPE,
    )
    os.close(write)
    os.read(read, 100)
    os.close(read)
    for _ in range(200):  # it notices when it writes
        cluster.good("send", "cluster.toml", "alpha", "more")
        if tail.poll() is not None:
            break
    _, said = tail.communicate(timeout=20)
    assert tail.returncode == 1
    assert said == b""
