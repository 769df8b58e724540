"""Files that are whole or as they were before."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from ordercast.whole_files import OURS, drafted, write_file
from support.harness.commands import with_support
from support.programs import killed_writer


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(("how", "before"), [("replaced", "old"), ("new", "-")])
def test_a_kill_at_any_line_leaves_the_old_file_or_the_new_one(
    how: str, before: str, tmp_path: Path
) -> None:
    command = [sys.executable, killed_writer.__file__, str(tmp_path), how]
    done = subprocess.run(
        command, capture_output=True, text=True, env=with_support(), timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    found = [line.split() for line in done.stdout.splitlines()]
    contents = [content for content, _ in found]
    turn = contents.index("new")
    assert contents == [before] * turn + ["new"] * (len(found) - turn)
    assert 5 < turn < len(found) - 1
    assert {int(others) for _, others in found} == {0, 1}  # the next write takes the draft's place
    assert found[-1] == ["new", "0"]


@pytest.mark.parametrize("new", [False, True])
def test_an_exception_leaves_the_old_file_and_no_draft(new: bool, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_bytes(b"old")

    def interrupted() -> None:
        with drafted(kept, new=new) as draft:
            draft.write_bytes(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert (names(tmp_path), kept.read_bytes()) == (["kept"], b"old")


def test_a_step_that_fails_leaves_the_old_file_and_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    kept = tmp_path / "kept"
    kept.write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_file(kept, b"new", durable=True)
    assert (names(tmp_path), kept.read_bytes()) == (["kept"], b"old")


def test_a_new_file_takes_no_other_ones_place(tmp_path: Path) -> None:
    kept, led = tmp_path / "kept", tmp_path / "led"
    kept.write_bytes(b"old")
    led.symlink_to(tmp_path / "nowhere")
    for path in (kept, led):
        with pytest.raises(FileExistsError):
            write_file(path, b"new", new=True)
    assert (names(tmp_path), kept.read_bytes()) == (["kept", "led"], b"old")


def test_a_link_is_replaced_and_never_written_through(tmp_path: Path) -> None:
    target, led, draft = tmp_path / "target", tmp_path / "led", tmp_path / "draft"
    target.write_bytes(b"old")
    led.symlink_to(target)
    draft.symlink_to(target)
    write_file(led, b"new", draft=draft)
    assert (names(tmp_path), target.read_bytes()) == (["led", "target"], b"old")
    assert (led.is_symlink(), led.read_bytes()) == (False, b"new")


def test_the_rights_are_those_asked_for_also_while_it_is_written(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        seen = []
        for path, rights in (("own", OURS), ("open", 0o666)):
            (tmp_path / path).write_bytes(b"old")
            (tmp_path / path).chmod(0o644)
            with drafted(tmp_path / path, mode=rights) as draft:
                seen.append(mode(draft))
        assert [*seen, mode(tmp_path / "own"), mode(tmp_path / "open")] == [OURS, 0o644] * 2
    finally:
        os.umask(before)


def test_drafts_are_hidden_and_no_two_writers_share_one(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    with drafted(path) as one, drafted(path) as other:
        one.write_bytes(b"one")
        other.write_bytes(b"other")
        assert len(names(tmp_path)) == 2
        assert all(name.startswith(".kept.") and name.endswith(".tmp") for name in names(tmp_path))
    assert (names(tmp_path), path.read_bytes()) == (["kept"], b"one")


def test_only_what_is_durable_is_forced_and_the_folder_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forced: list[bool] = []
    monkeypatch.setattr(
        os, "fsync", lambda handle: forced.append(stat.S_ISDIR(os.fstat(handle).st_mode))
    )
    write_file(tmp_path / "kept", b"x")
    assert forced == []
    write_file(tmp_path / "kept", b"y", durable=True)
    assert forced == [False, True]
