"""The house as a whole: no circle of imports, one meaning per name, rooms that can be surveyed."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache

from ordercast.core.order.registry import PROTOCOLS
from ordercast.core.stability.registry import TRACKERS
from ordercast.plan.candidates import BUILDERS
from tools.rooms import (
    PACKAGE,
    PICTURE,
    ROOT,
    USERS,
    cycles,
    entrants,
    imports,
    modules,
    picture,
    rooms_below,
)

LONGEST_FUNCTION = 70
MOST_FILES = 25  # in a package
VERBS = "ordercast.cli"  # one file each, however many there are
FORMATS = {"ordercast_lake", "follow"}  # of Spark; a function of `ordercast.pipeline`
KNOWN = {*PROTOCOLS, *TRACKERS, *BUILDERS, "partition", "tree", "wan"}


@cache
def trees() -> dict[str, ast.Module]:
    return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in modules().items()}


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Also for type checking: a class and its pieces are one file, or really two objects."""
    assert cycles(imports(modules())) == []


def test_a_circle_is_found() -> None:
    edges = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": set()}
    assert cycles(edges) == [["a", "b", "c"]]


def test_no_module_names_one_of_a_room_above_in_a_string() -> None:
    """To import it later: an import that points up, and that import-linter does not see. The
    command is a program that others start."""
    paths = modules()
    edges = imports(paths)
    rooms = rooms_below(PACKAGE, paths, edges)
    up = []
    for name, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and node.value in paths.keys() - {VERBS}:
                own, other = (each.split(".")[1:2] for each in (name, str(node.value)))
                if own and other and own != other and own[0] in rooms.get(other[0], ()):
                    up.append(f"{name}: {node.value}")
    assert up == []


def test_functions_have_at_most_70_lines() -> None:
    long = [
        f"{name}.{function.name}"
        for name, tree in trees().items()
        for function in functions(tree)
        if (function.end_lineno or 0) - function.lineno + 1 > LONGEST_FUNCTION
    ]
    assert long == []


def test_no_package_has_more_than_25_files() -> None:
    """Also none of those that several rooms' tests share."""
    support = (ROOT / "tests" / "support").rglob("*.py")
    counts = Counter(path.parent for path in [*modules().values(), *support])
    counts.pop(modules()[VERBS].parent)
    crowded = {str(folder): count for folder, count in counts.items() if count > MOST_FILES}
    assert crowded == {}


def test_every_package_says_who_lives_there() -> None:
    packages = [path for path in modules().values() if path.name == "__init__.py"]
    assert [path for path in packages if not ast.get_docstring(ast.parse(path.read_text()))] == []


def test_a_public_class_shares_its_name_with_no_other() -> None:
    homes = defaultdict(list)
    for name, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(name)
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


def test_a_module_says_what_it_is_without_naming_its_neighbours() -> None:
    """A neighbour is a module of the same package, named in backquotes: `links`, `links.py`,
    `room.links` or `links.Link`. To a package its own modules are neighbours, and to all a file of
    the source that is named by its path: whoever moves it does not look there. The names of
    protocols, trackers, builders and options are words that users know, and name no module."""
    paths = modules()
    named = {}
    for name, tree in trees().items():
        is_package = paths[name].name == "__init__.py"
        package = name if is_package else name.rpartition(".")[0]
        beside = {
            other.rpartition(".")[2]
            for other in paths
            if other.rpartition(".")[0] == package and other != name
            if not is_package or paths[other].name != "__init__.py"
        }
        text = ast.get_docstring(tree) or ""
        found = named_in(text, package.rpartition(".")[2]) & beside - {name.rpartition(".")[2]}
        if found := found | files_in(text):
            named[name] = sorted(found)
    assert named == {}


def files_in(text: str) -> set[str]:
    """The paths in a text that lead to files of the source."""
    paths = re.findall(r"(?:\w+/)+\w+(?:\.py)?", text)
    places = [ROOT / "src", ROOT / "src" / "ordercast"]
    return {path for path in paths for at in places if (at / path).with_suffix(".py").is_file()}


def test_a_file_of_the_source_is_found_by_its_path() -> None:
    text = "`core/engine.py`, ordercast/core/link and core/nowhere.py; docs/epochs.md"
    assert files_in(text) == {"core/engine.py", "ordercast/core/link"}


def test_packages_that_say_who_enters_say_it_as_the_imports_do() -> None:
    """All packages of the runtime and of the pipeline do: "Entered by `site`, and by users"."""
    paths = modules()
    edges = imports(paths)
    wrong, silent = {}, []
    for name, path in paths.items():
        said = entered_by(ast.get_docstring(trees()[name]) or "")
        if path.name != "__init__.py" or name.count(".") < 1:
            continue
        if said is not None and said != set(entrants(name, paths, edges)):
            wrong[name] = entrants(name, paths, edges)
        if said is None and name.startswith(("ordercast.net.", "ordercast.pipeline")):
            silent.append(name)
    assert wrong == {}
    assert silent == []


def entered_by(text: str) -> set[str] | None:
    """Who enters by the words of a docstring: rooms in backquotes, or users."""
    found = re.search(r"Entered by ([^.:;]*)", " ".join(text.split()))
    if found is None:
        return None
    return {backquoted or USERS for backquoted in re.findall(rf"`(\w+)`|\b{USERS}\b", found[1])}


def test_modules_that_docstrings_name_are_there() -> None:
    """`room.module`, where there is a room of that name; and in a package's docstring each word in
    backquotes that could be a module's name."""
    paths = modules()
    rooms = {name.rpartition(".")[2] for name, path in paths.items() if path.name == "__init__.py"}
    lasts = {name.rpartition(".")[2] for name in paths}
    gone = {}
    for name, tree in trees().items():
        text = ast.get_docstring(tree) or ""
        dotted = re.findall(r"`(?:ordercast\.)?((?:[a-z_]+\.)+[a-z_]+)(?:\.[A-Z]\w*)?`", text)
        missing = [
            word
            for word in dotted
            if word.split(".")[0] in rooms and not word.endswith((".py", ".md", ".toml"))
            if not any(f".{other}".endswith(f".{word}") for other in paths)
        ]
        if paths[name].name == "__init__.py":
            plain = re.findall(r"`([a-z_]+)`", text)
            missing += [word for word in plain if word not in lasts | KNOWN | FORMATS]
        if missing:
            gone[name] = missing
    assert gone == {}


def named_in(text: str, room: str) -> set[str]:
    """The words in backquotes that would name a module of the room, if it had one of that name."""
    found = set()
    for path in re.findall(r"`([A-Za-z_][\w.]*)`", text):
        above, _, name = path.removesuffix(".py").rpartition(".")
        if not above or above.rpartition(".")[2] == room:
            found.add(name)
        elif name[0].isupper():
            found.add(above.rpartition(".")[2])
    return found - KNOWN


def test_a_neighbour_is_found_however_it_is_named() -> None:
    text = "`one`, `two.py`, `room.three`, `x.room.four`, `five.Five`, `other.six`, `seven.json`"
    assert named_in(text, "room") == {"one", "two", "three", "four", "five"}


def test_the_picture_of_the_rooms_is_that_of_today() -> None:
    """`python -m tools.rooms` draws it anew."""
    assert PICTURE.read_text(encoding="utf-8") == picture()


def test_a_choice_of_words_is_written_once() -> None:
    """The values of an option, or the names of stages: a tuple of words that a module gives a name
    to, or has in a table."""
    homes = defaultdict(list)
    for name, tree in trees().items():
        for node in tree.body:
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
                values = node.value.values if isinstance(node.value, ast.Dict) else [node.value]
                for words in filter(None, map(words_of, values)):
                    homes[words].append(name)
    assert {words: found for words, found in homes.items() if len(found) > 1} == {}


def words_of(value: ast.expr) -> tuple[str, ...]:
    if not isinstance(value, ast.Tuple) or len(value.elts) < 2:
        return ()
    words = [each.value for each in value.elts if isinstance(each, ast.Constant)]
    are_words = all(isinstance(word, str) and re.fullmatch(r"[a-z_]+", word) for word in words)
    return tuple(map(str, words)) if are_words and len(words) == len(value.elts) else ()


CALLED_BY_LIBRARIES = {  # textual, logging, Spark
    "BINDINGS", "CSS", "ENABLE_COMMAND_PALETTE", "action_interrupt", "compose", "on_mount",
    "converter", "default_msec_format", "default_time_format", "emit",
    "DefaultSource", "getDefaultReadLimit", "initialOffset", "latestOffset",
    "prepareForTriggerAvailableNow", "reportLatestOffset", "streamReader", "streamWriter",
}  # fmt: skip


def defined(body: list[ast.stmt]) -> Iterator[str]:
    """Functions, classes, constants, methods and fields; not what is inside a function."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
            if isinstance(node, ast.ClassDef):
                yield from defined(node.body)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def used(tree: ast.AST) -> Iterator[str]:
    """Names that are read, also by way of a string: in an annotation, or in a table of names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(r"\w+", node.value) if len(node.value) < 60 else ()
        elif isinstance(node, ast.keyword) and node.arg:
            yield node.arg


def test_nothing_is_there_for_tests_alone() -> None:
    """What the source defines it uses, or a page shows it to users."""
    known = {name for tree in trees().values() for name in used(tree)} | CALLED_BY_LIBRARIES
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))
    code = re.findall(r"`[^`]+`|```.*?```", pages, re.DOTALL)
    shown = set(re.findall(r"\w+", " ".join(code)))
    idle = [
        f"{module}.{name}"
        for module, tree in trees().items()
        for name in defined(tree.body)
        if not name.startswith("__") and name not in known and name not in shown
    ]
    assert idle == []


def test_private_names_of_a_module_are_used_in_it() -> None:
    """Another module may have the name too, so the test above does not see it."""
    idle = []
    for module, tree in trees().items():
        known = set(used(tree))
        flat = [node for node in tree.body if not isinstance(node, ast.ClassDef)]
        names = [*defined(flat), *(n.name for n in tree.body if isinstance(n, ast.ClassDef))]
        private = [name for name in names if name.startswith("_") and not name.startswith("__")]
        idle += [f"{module}.{name}" for name in private if name not in known]
    assert idle == []
