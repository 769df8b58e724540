"""House rules on every file: it speaks of the project alone, not of anybody's machine or mail."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TREES = (".ci", "bench", "deploy", "docs", "examples", "requirements", "src", "tests", "tools")
TEXTS = {".md", ".py", ".toml", ".txt", ".json", ".svg", ".css", ".html", ".js", ".cfg", ""}
FOREIGN = {  # written in pieces, so that this file does not break its own rule
    "a home directory": re.compile(r"/(?:home|Users|root)" + r"/[\w.-]|[A-Z]:\\" + r"Users"),
    "a machine's path": re.compile(r"(?<![\w.])/(?:work|opt|mnt|srv)" + r"/\w|/tmp" + r"/\w"),
    "an e-mail address": re.compile(r"[\w.+-]+@" + r"[\w-]+\.\w{2,}"),
    "a document that is not here": re.compile(
        r"\b(?:DES" + r"IGN|CONT" + r"RACT|ERR" + r"ATA)\b|\bSTYLE\." + "md"
    ),
    "a package host": re.compile(
        r"(?i)py" + r"pi\.(?:org|python)|python" + r"hosted|arti" + r"factory"
    ),
}


def files() -> list[Path]:
    """What git tracks; in an unpacked archive, all files of our own trees."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        found = [*ROOT.iterdir(), *(path for tree in TREES for path in (ROOT / tree).rglob("*"))]
    else:
        found = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    return [path for path in sorted(found) if path.is_file()]


def texts() -> Iterator[tuple[Path, str]]:
    for path in files():
        if path.suffix in TEXTS and not {"__pycache__", "uplot"} & set(path.parts):
            yield path.relative_to(ROOT), path.read_text(encoding="utf-8")


def test_no_file_names_a_machine_a_host_or_a_mail_address() -> None:
    found = [
        f"{path}: {what}: {match.group()}"
        for path, text in texts()
        for what, pattern in FOREIGN.items()
        for match in pattern.finditer(text)
    ]
    assert found == []


_UNITS = (
    "bytes|messages|deliveries|rows|records|items|headers|entries|payloads|sites|groups|members"
)
_PLAIN_COUNT = re.compile(
    r"\{(?!rows\} del|messages\} mess|sites\} sites|_)[^{}:!'\"]+\} (?:" + _UNITS + r")\b"
    r"|(?:limit is|limits are|most is|at most|is above) \{[^{}:!'\"]+\}"
)


def test_counts_that_users_read_have_separators() -> None:
    """A count before its unit, or a limit. `reproduce` forms its own: its numbers are rounded."""
    found = [
        f"{path}:{number}: {match.group()}"
        for path, text in texts()
        if path.suffix == ".py" and path.parts[0] == "src" and "studies" not in path.parts
        for number, line in enumerate(text.splitlines(), start=1)
        for match in _PLAIN_COUNT.finditer(line)
    ]
    assert found == []
    assert _PLAIN_COUNT.search('f"headers of {size} bytes; the limit is 4"')
    assert _PLAIN_COUNT.search('f"the limit is {MOST}"')


def test_the_licence_is_the_whole_apache_licence() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License\n                           Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_ci_runs_make_test_and_nothing_weaker() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    commands = [line for line in script.splitlines() if line and not line.startswith("#")]
    assert commands[-1] == "exec make test"
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111


def test_every_make_target_only_calls_the_setup_script() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipes = [line.strip() for line in makefile.splitlines() if line.startswith("\t")]
    assert recipes == ["@$(PYTHON) tools/setup.py $@ $(WORDS)"]
