"""docs/architecture.md: what it names is there, and its glossary is the code's own words."""

import ast
import re
from collections import Counter
from pathlib import Path

import ordercast
from tools.rooms import modules, page_with_table

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGE = (DOCS / "architecture.md").read_text(encoding="utf-8")
GLOSSARY = PAGE[PAGE.index("\n## Glossary\n") :]
LINKED = re.compile(r"\[([\w.]+)\]\((\.\./src/[\w/]+\.py)\)")
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def definitions(body: list[ast.stmt], prefix: str = "") -> list[str]:
    """Classes, functions and methods of a module, by their qualified names."""
    found = []
    for node in body:
        if isinstance(node, Definition):
            found.append(prefix + node.name)
            if isinstance(node, ast.ClassDef):
                found += definitions(node.body, f"{prefix}{node.name}.")
    return found


def module(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def test_every_linked_name_is_defined_in_the_file_that_the_link_leads_to() -> None:
    links = LINKED.findall(PAGE)
    assert len(links) > 40
    for name, path in links:
        if not name.endswith((".py", ".md")):
            assert name in definitions(module(DOCS / path).body), f"{name} is not in {path}"


def test_the_table_of_rooms_is_that_of_the_imports() -> None:
    assert page_with_table(PAGE) == PAGE, "python -m tools.rooms writes it anew"


def test_the_table_of_duties_has_those_of_the_outbox_in_their_order() -> None:
    text = ast.get_docstring(module(ROOT / "src/ordercast/core/outbox.py")) or ""
    duties = re.findall(r"^(\d)\. .*?`(\w+)`", text, re.MULTILINE)
    shown = re.findall(r"^\| (\d) `(\w+)`", PAGE, re.MULTILINE)
    assert shown == duties


def test_every_place_in_the_lists_of_how_to_add_is_there() -> None:
    lists = PAGE[PAGE.index("\n## How to add") : PAGE.index("\n## Glossary\n")]
    places = re.findall(r"^- `([\w/.]+)`", lists, re.MULTILINE)
    assert len(places) > 40
    for place in places:
        known = place if "NAME" not in place else str(Path(place).parent)
        assert (ROOT / known).exists(), place


def test_every_module_that_runs_the_checks_one_by_one_is_in_the_list_of_a_checker() -> None:
    checker = PAGE[PAGE.index("\n### a checker") : PAGE.index("\n### a tracker")]
    found = [
        path.relative_to(ROOT).as_posix()
        for path in modules().values()
        if path.parent.name == "check"
        if len(re.findall(r"\bimport .*check_\w+", path.read_text(encoding="utf-8"))) > 2
    ]
    assert len(found) > 1
    assert [path for path in found if f"- `{path}`" not in checker] == []


def test_what_a_protocol_offers_and_asks_for_is_named_as_in_the_code() -> None:
    kinds = PAGE[PAGE.index("\nChoose the kind.") : PAGE.index("\n### a frame")]
    core = ROOT / "src" / "ordercast" / "core"
    code = [*(core / "order").glob("*.py"), core / "outbox.py"]
    words = set(re.findall(r"\w+", "\n".join(path.read_text(encoding="utf-8") for path in code)))
    named = set(re.findall(r"`(\w+)(?:\([^`]*\))?`", kinds))
    assert len(named) > 25
    assert named <= words


# --- the glossary ---------------------------------------------------------------------------------


def rows() -> list[list[str]]:
    lines = [line for line in GLOSSARY.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row[0] != "word"]


TWO_MEANINGS = {"header", "mark", "member", "record", "stream"}
"""Words that we could not do without twice. All rows of one but the first say of what it is."""


def test_no_word_has_two_meanings() -> None:
    """In parentheses stands of what it is: that makes no other word of it."""
    cells = [word.strip() for words, _, _ in rows() for word in words.split(",")]
    words = Counter(re.sub(r" \(.*\)", "", word) for word in cells)
    assert len(words) > 100
    assert {word for word, times in words.items() if times > 1} == TWO_MEANINGS
    for word in TWO_MEANINGS:
        assert cells.count(word) <= 1, word


def test_every_public_name_is_in_it() -> None:
    named = {name for _, _, names in rows() for name in re.findall(r"`(\w+)`", names)}
    assert set(ordercast.__all__) <= named


def test_every_class_in_it_exists_once() -> None:
    classes: Counter[str] = Counter()
    others: set[str] = set(ordercast.__all__)
    for path in modules().values():
        for node in module(path).body:
            if isinstance(node, ast.ClassDef):
                classes[node.name] += 1
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                others.add(node.target.id)  # an alias
    for _, _, names in rows():
        for name in re.findall(r"`(\w+)`", names):
            assert classes[name] == 1 or (name in others and not classes[name]), name
