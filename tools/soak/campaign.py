"""What a soak campaign is, and where campaigns are found.

A campaign is a file `tests/soak/NAME.py` with a function `run(seed: int) -> Outcome`. The case is
a pure function of the seed, so the seed alone replays it.
"""

import hashlib
import importlib.util
import re
import shutil
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
CAMPAIGNS = ROOT / "tests" / "soak"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one case. `counters` are added up over all cases for the closing report."""

    ok: bool
    counters: Mapping[str, int] = field(default_factory=dict)
    message: str = ""  # what is wrong, in one line
    replay: str = ""  # a command that replays it, where there is a better one than `soak --replay`


@dataclass(frozen=True, slots=True)
class Campaign:
    name: str
    path: Path
    run: Callable[[int], Outcome]

    def outcome(self, seed: int) -> Outcome:
        """Run one case; an exception is a failure like any other."""
        try:
            outcome = self.run(seed)
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            what = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
            return Outcome(False, message=what, replay=self.replay(seed))
        if outcome.ok or outcome.replay:
            return outcome
        return Outcome(False, outcome.counters, outcome.message, self.replay(seed))

    def replay(self, seed: int) -> str:
        return f"python3 tools/setup.py soak {self.name} --replay {seed}"


def keep_files(directory: Path, case: str) -> str:
    """Keep the files of a case that failed, since a case with threads or processes may not fail
    again. Returns where they are."""
    kept = ROOT / ".soak" / "failed" / case
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(directory, kept, ignore_dangling_symlinks=True)
    return f"files: {kept}"


def campaign_names(place: Path = CAMPAIGNS) -> list[str]:
    return sorted(path.stem for path in place.glob("[!_]*.py"))


def case_seconds(path: Path) -> int:
    """How long a case takes, as far as the campaign says: `CASE_S = …` at the start of a line."""
    found = re.search(r"^CASE_S = (\d+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    return int(found[1]) if found else 0


def load_campaign(path: Path) -> Campaign:
    """Load the file under a name of its own: `forest` is also a room, and `tests` a package."""
    name = f"soak_campaign_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    if (shared := str(ROOT / "tests")) not in sys.path:
        sys.path.append(shared)  # campaigns use the tests' generators, as tests do
    spec.loader.exec_module(module)
    return Campaign(path.stem, path, module.run)


def fingerprint(campaign: Path) -> str:
    """Of all the code that a case depends on: results of other code do not count."""
    digest = hashlib.sha256()
    sources = [*(ROOT / "src").rglob("*.py"), *(ROOT / "tests" / "support").rglob("*.py"), campaign]
    for source in sorted(sources):
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
