"""House rules on the requirement locks: hashed, complete, and silent about where packages are."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
DIRECT = {  # lock: what must be in it
    "core": PROJECT["project"]["dependencies"],
    "all": [*PROJECT["project"]["dependencies"], *(r for rs in EXTRAS.values() for r in rs)],
    "dev": [
        *PROJECT["project"]["dependencies"],
        *(requirement for requirements in EXTRAS.values() for requirement in requirements),
        *PROJECT["dependency-groups"]["dev"],
    ],
    "java": PROJECT["dependency-groups"]["java"],
}


def entries(lock: str) -> list[str]:
    """Each requirement with its hashes on one line, comments left out."""
    text = (ROOT / "requirements" / f"{lock}.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    return "\n".join(lines).replace("\\\n", " ").splitlines()


def pins(lock: str) -> dict[str, list[str]]:
    """Versions by name: a universal lock may hold one per Python."""
    found: dict[str, list[str]] = {}
    for entry in entries(lock):
        name, version = entry.split(" ")[0].split("==")
        found.setdefault(canonicalize_name(name), []).append(version)
    return found


def test_there_is_a_lock_for_each_purpose_and_no_other() -> None:
    assert sorted(path.stem for path in (ROOT / "requirements").glob("*.txt")) == sorted(DIRECT)


@pytest.mark.parametrize("lock", DIRECT)
def test_every_requirement_is_pinned_and_hashed(lock: str) -> None:
    assert entries(lock)
    for entry in entries(lock):
        assert re.match(r"[a-z0-9.-]+==[^ ]+ .*--hash=sha256:[0-9a-f]{64}", entry), entry


@pytest.mark.parametrize("lock", DIRECT)
def test_a_lock_names_no_host_and_no_path(lock: str) -> None:
    text = (ROOT / "requirements" / f"{lock}.txt").read_text(encoding="utf-8")
    assert re.findall(r"\w+://|--[a-z-]*(?:index|links|host)\S*|(?:^|\s)[./~]\S*", text) == []


@pytest.mark.parametrize("lock", DIRECT)
def test_a_lock_has_what_pyproject_asks_for(lock: str) -> None:
    locked = pins(lock)
    for line in DIRECT[lock]:
        requirement = Requirement(line)
        if requirement.name == PROJECT["project"]["name"]:  # an extra that names the others
            assert requirement.extras <= set(EXTRAS)
            continue
        versions = locked.get(canonicalize_name(requirement.name), [])
        assert versions, f"{lock}.txt lacks {requirement.name}: run make lock"
        for version in versions:
            assert version in requirement.specifier, f"{lock}.txt has {requirement.name} {version}"
