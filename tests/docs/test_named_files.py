"""Every file of the project that a page names exists, every test that it names in a file, and every
heading that it links to."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    path.relative_to(ROOT) for path in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
)
TOP = "src|tests|docs|tools|examples|bench|requirements"
NAMED = re.compile(rf"`((?:{TOP})/[^`\s]*|\w+(?:/\w+)+\.py(?:::\w+)?)`")
PLACEHOLDER = "NAME"
PACKAGE = ROOT / "src" / "ordercast"
FROM = (ROOT, ROOT / "tests", PACKAGE, PACKAGE / "studies")


def missing(text: str) -> list[str]:
    """Files are named from the top of the checkout, tests and modules also from their package."""
    found = []
    for name in NAMED.findall(text):
        path, _, test = name.partition("::")
        known = [one for top in FROM for one in top.glob(path)]
        if PLACEHOLDER in path or (known and not test):
            continue
        if not any(f"def {test}(" in one.read_text(encoding="utf-8") for one in known):
            found.append(name)
    return found


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_a_page_names_no_file_that_is_gone(page: Path) -> None:
    assert missing((ROOT / page).read_text(encoding="utf-8")) == []


def test_what_is_gone_is_found() -> None:
    text = "`tests/docs/test_gone.py` `core/link.py` `core/gone.py` `tests/soak/NAME.py`"
    assert missing(text) == ["tests/docs/test_gone.py", "core/gone.py"]
    here = "`tests/docs/test_named_files.py::{}`"
    assert missing(here.format("test_what_is_gone_is_found")) == []
    assert missing(here.format("test_gone")) == ["tests/docs/test_named_files.py::test_gone"]


def anchors(text: str) -> set[str]:
    """What links to the headings of a page end with."""
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    shown = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower() for title in titles)
    return {re.sub(r"[^\w\- ]", "", title).strip().replace(" ", "-") for title in shown}


def lost_links(page: Path) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    found = []
    for file, anchor in re.findall(r"\]\(([\w./-]*)#([^)\s]+)\)", text):
        there = (ROOT / page).parent / file if file else ROOT / page
        if anchor not in anchors(there.read_text(encoding="utf-8")):
            found.append(f"{file}#{anchor}")
    return found


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_a_link_to_a_heading_leads_to_one(page: Path) -> None:
    assert lost_links(page) == []


def test_sections_that_the_source_names_are_there() -> None:
    """`docs/NAME.md#heading`; or the page and, in quotes, its heading or bold first words."""
    gone, named = [], 0
    for path in sorted(PACKAGE.rglob("*.py")):
        text = " ".join(re.sub(r"(?m)^\s*#\s", "", path.read_text(encoding="utf-8")).split())
        for file, anchor in re.findall(r"docs/([\w-]+\.md)#([\w-]+)", text):
            named += 1
            if anchor not in anchors((ROOT / "docs" / file).read_text(encoding="utf-8")):
                gone.append(f"{path.name}: {file}#{anchor}")
        for files, title in re.findall(
            r'(docs/[\w-]+\.md(?: and docs/[\w-]+\.md)*), "([^"]+)"', text
        ):
            named += 1
            for file in files.split(" and "):
                page = (ROOT / file).read_text(encoding="utf-8")
                if not re.search(rf"(?m)^(#.*|.*\*\*){re.escape(title)}", page):
                    gone.append(f"{path.name}: {file}, {title!r}")
    assert named > 15
    assert gone == []
