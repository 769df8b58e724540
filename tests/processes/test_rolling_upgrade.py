"""A live cluster is upgraded site by site, under load, from the first commit that could be."""

import subprocess
from pathlib import Path

import pytest

from support.clusters.upgrades import SITES, Upgrade, first_commit, has_commit, has_history
from support.harness.loops import run


@pytest.mark.parametrize("policy", ["exclude", "wait"])
def test_an_upgrade_site_by_site_loses_nothing_and_pauses_no_longer_than_a_restart(
    policy: str, tmp_path: Path
) -> None:
    commit = first_commit()
    if not has_commit(commit) and not has_history():
        pytest.skip(f"commit {commit} is not in this checkout: it is shallow, or no repository")
    upgrade = Upgrade(tmp_path, commit, policy)
    try:
        found = run(upgrade.run())
    finally:
        upgrade.end()
    assert found.wrong == []
    assert found.counts["sent"] > 50
    assert len(found.pauses) == 1 + len(SITES)
    for site in SITES:
        assert "migrated from format" in upgrade.log(site)
        assert len(list(upgrade.stores.glob(f"{site}.db.format*"))) == 1
    _require_no_way_back(upgrade)
    _require_good_history(upgrade, tmp_path / "history")


def _require_no_way_back(upgrade: Upgrade) -> None:
    """The earlier program refuses the newer store in one line."""
    words = ("node", str(upgrade.file), "--site", "a", "--dir", str(upgrade.stores))
    command, environment = upgrade.command(*words, newer=False)
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=60, check=False
    )
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "it was written by a newer release, run that one" in done.stderr


def _require_good_history(upgrade: Upgrade, history: Path) -> None:
    for words in (
        ("export", str(upgrade.file), str(history), "--dir", str(upgrade.stores)),
        ("audit", str(history), "--engine", "memory"),
    ):
        command, environment = upgrade.command(*words, newer=True)
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=120, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
