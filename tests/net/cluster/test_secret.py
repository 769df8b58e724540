"""The file with the secret of a cluster, and the directory that it lies in."""

import os
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ordercast.model.errors import ConfigError
from ordercast.net.client.client import connect
from ordercast.net.cluster.directory import append_own, make_directory, require_own
from ordercast.net.cluster.file import parse_cluster, read_cluster
from ordercast.net.cluster.processes import (
    StartFailed,
    _Logged,
    is_retired,
    log_file,
    note_retired,
    require_all_run,
)
from ordercast.net.cluster.secret import ClusterSecret, secret_of
from ordercast.net.site.node import Node
from ordercast.net.store.file import connect as connect_store
from ordercast.net.store.file import lock
from support.harness.loops import in_loop
from support.harness.ports import free_ports

CLUSTER = """
[cluster]
name = "demo"
{more}
[sites.a]
address = "{host}:{port}"
[groups]
alpha = ["a"]
"""


def cluster_file(folder: Path, more: str = "", host: str = "127.0.0.1", port: int = 7101) -> Path:
    path = folder / "cluster.toml"
    path.write_text(CLUSTER.format(more=more, host=host, port=port), encoding="utf-8")
    return path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# --- where it is and how it is made ---------------------------------------------------------------


@in_loop
async def test_the_first_site_makes_it_beside_the_cluster_file_whatever_its_dir(
    tmp_path: Path,
) -> None:
    file = cluster_file(tmp_path, port=free_ports(1)[0])
    async with Node.open(file, "a", dir=tmp_path / "elsewhere"):
        secret = tmp_path / ".ordercast" / "demo" / "secret"
        assert mode(secret) == 0o600
        assert mode(secret.parent) == mode(secret.parent.parent) == 0o700
        assert mode(tmp_path / "elsewhere") == 0o700
        assert len(bytes.fromhex(secret.read_text(encoding="ascii"))) == 32
        assert sorted(path.name for path in secret.parent.iterdir()) == ["places", "secret"]


def test_many_at_once_agree_on_one_and_never_see_half_of_it(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        for number in range(20):
            path = tmp_path / str(number) / "secret"
            found = list(pool.map(lambda _, at=path: ClusterSecret(at, make=True).now(), range(16)))
            assert len(set(found)) == 1
            assert list(path.parent.iterdir()) == [path]


def test_the_cluster_file_says_where_and_for_whom(tmp_path: Path) -> None:
    given = read_cluster(cluster_file(tmp_path, 'secret = "keys/of-demo"'))
    assert given.secret == tmp_path / "keys" / "of-demo"
    apart = read_cluster(cluster_file(tmp_path, "insecure = true", "192.0.2.1"))
    assert apart.secret is None
    with_tls = CLUSTER.format(more="", host="192.0.2.1", port=1) + '[tls]\ndir = "x"'
    assert parse_cluster(with_tls, source="x").secret is None


def test_where_sites_are_on_other_machines_it_is_not_made_anew(tmp_path: Path) -> None:
    more = 'insecure = true\nsecret = "shared"'
    cluster = read_cluster(cluster_file(tmp_path, more, "192.0.2.1"))
    with pytest.raises(ConfigError, match=r"shared: is missing: make the secret once"):
        secret_of(cluster)
    ClusterSecret(tmp_path / "shared", make=True)
    assert secret_of(cluster) is not None


@pytest.mark.parametrize(
    ("more", "wrong"),
    [
        ("secret = 7", "cluster.secret: 7 is not a file's name"),
        ('secret = ""', "cluster.secret: '' is not a file's name"),
        ('secret = "s"\n[tls]\ndir = "x"', "cluster.secret: is for clusters without"),
    ],
)
def test_a_wrong_name_is_one_line(more: str, wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong):
        parse_cluster(CLUSTER.format(more=more, host="127.0.0.1", port=1), source="x.toml")


# --- what is not taken ----------------------------------------------------------------------------


def test_a_secret_that_others_can_read_or_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    right = ClusterSecret(path, make=True)
    before = right.now()
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="other users can read the secret"):
        ClusterSecret(path, make=True)
    path.chmod(0o600)
    for text in ("", "xyz", "00" * 31, "00" * 5_000, "é"):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError, match="is no secret of a cluster"):
            ClusterSecret(path, make=True)
        assert right.now() == before, "a running site goes on with the last good one"


def test_a_link_or_a_directory_in_its_place_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "target"
    ClusterSecret(target, make=True)
    (tmp_path / "link").symlink_to(target)
    with pytest.raises(ConfigError, match=r"link: cannot be read \(is a link\)"):
        ClusterSecret(tmp_path / "link", make=True)
    (tmp_path / "dangling").symlink_to(tmp_path / "made-for-somebody")
    with pytest.raises(ConfigError, match="is a link"):
        ClusterSecret(tmp_path / "dangling", make=True)
    assert not (tmp_path / "made-for-somebody").exists()
    (tmp_path / "folder").mkdir()
    with pytest.raises(ConfigError, match="folder: is no file"):
        ClusterSecret(tmp_path / "folder", make=True)


def test_where_it_cannot_be_written_one_line_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        ConfigError, match=r"file: cannot be made \(.*\); 'secret' under \[cluster\]"
    ):
        ClusterSecret(tmp_path / "file" / "secret", make=True)


# --- the directory --------------------------------------------------------------------------------


def test_a_directory_of_somebody_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also to root: `sudo` must not act on what another user has prepared."""
    file = cluster_file(tmp_path)
    directory = tmp_path / "dir"
    make_directory(directory)
    ClusterSecret(directory / "secret", make=True)
    us = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: us + 1)
    why = r"dir: belongs to \w+, and this process runs as .*: run it as the owner \(sudo -u\)"
    for act in (
        lambda: require_own(directory),
        lambda: make_directory(directory),
        lambda: connect(file, "a", directory),
        lambda: ClusterSecret(directory / "secret", make=True),
    ):
        with pytest.raises(ConfigError, match=why):
            act()


def test_a_directory_that_others_may_write_is_refused(tmp_path: Path) -> None:
    directory = tmp_path / "dir"
    make_directory(directory)
    directory.chmod(0o777)
    with pytest.raises(ConfigError, match=r"dir: every user may write there \(chmod o-w\)"):
        require_own(directory)
    directory.chmod(0o770)
    with pytest.raises(ConfigError, match=r"dir: its group may write there \(chmod g-w\)"):
        require_own(directory)
    around = tmp_path / ".ordercast"
    make_directory(around / "demo")
    around.chmod(0o777)
    with pytest.raises(ConfigError, match=r"\.ordercast: every user may write there"):
        require_own(around / "demo")
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="file: is not a directory"):
        require_own(tmp_path / "file")


def test_a_log_or_a_lock_is_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "a.log").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic"):
        append_own(tmp_path / "a.log")
    assert not (tmp_path / "victim").exists()
    (tmp_path / "a.db.lock").symlink_to(tmp_path / "victim")
    with pytest.raises(ConfigError, match=r"a\.db: cannot be written"):
        lock(tmp_path / "a.db")
    assert not (tmp_path / "victim").exists()


def test_a_store_or_a_note_is_not_made_through_a_link(tmp_path: Path) -> None:
    for name in ("a.db", "a.retired"):
        (tmp_path / name).symlink_to(tmp_path / "victim")
    with pytest.raises(ConfigError, match=r"a\.db: is a link; give the folder"):
        connect_store(tmp_path / "a.db")
    note_retired(tmp_path, "a", True)
    assert not (tmp_path / "victim").exists()
    assert (tmp_path / "a.retired").is_file()
    assert is_retired(tmp_path, "a")


def test_why_a_daemon_ended_is_not_read_through_a_link(tmp_path: Path) -> None:
    """A log that somebody has put there could show a file that he may not read."""
    (tmp_path / "victim").write_text("a secret\n", encoding="ascii")
    log = log_file(tmp_path, "a")
    log.symlink_to(tmp_path / "victim")
    child = _Logged([sys.executable, "-c", "raise SystemExit(2)"])
    child.wait()
    with pytest.raises(StartFailed, match="site a did not start") as failed:
        require_all_run({"a": child}, tmp_path)
    assert "secret" not in str(failed.value)
    log.unlink()
    log.write_text("ordercast: why it ended\n", encoding="ascii")
    with pytest.raises(StartFailed, match="site a did not start: why it ended"):
        require_all_run({"a": child}, tmp_path)
