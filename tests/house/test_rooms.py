"""House rules on the source tree: short files, docstrings, pure rooms, nothing that can vary.

Rules that matter are checked here, not left to a page. A rule on code is a function from a syntax
tree to the lines that break it, so each is also shown to catch what it is for.
"""

import ast
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCE = ROOT / "src" / "ordercast"
PURE_ROOMS = ("model", "wire", "forest", "core")
IMPURE_BUILTINS = ("open", "print", "input", "hash", "id", "breakpoint")  # hash: varies by process
LONGEST_FILE = 800

Rule = Callable[[ast.AST], Iterator[int]]


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def pure_modules() -> list[Path]:
    return [path for path in modules() if path.relative_to(SOURCE).parts[0] in PURE_ROOMS]


def breaches(rule: Rule, paths: list[Path]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{line}"
        for path in paths
        for line in rule(ast.parse(path.read_text(encoding="utf-8")))
    ]


def forbidden_modules() -> set[str]:
    """From the contract in pyproject.toml, so that there is one list."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = config["tool"]["importlinter"]["contracts"]
    pure = next(contract for contract in contracts if "pure" in contract["name"])
    return set(pure["forbidden_modules"])


def impure_imports(tree: ast.AST) -> Iterator[int]:
    forbidden = forbidden_modules()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            continue
        if any(name.split(".")[0] in forbidden for name in names):
            yield node.lineno


def impure_calls(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _called(node) in IMPURE_BUILTINS:
            yield node.lineno


def spark_imports(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            if any(alias.name.split(".")[0] == "pyspark" for alias in node.names):
                yield node.lineno
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "pyspark":
            yield node.lineno


def set_iterations(tree: ast.AST) -> Iterator[int]:
    """Loops over what is visibly a set: strings in it come in another order in every process."""
    names = _names_of_sets(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            iterated: ast.expr | None = node.iter
        elif isinstance(node, ast.Call) and _called(node) in ("list", "tuple", "iter", "enumerate"):
            iterated = node.args[0] if node.args else None
        else:
            continue
        if iterated is not None and _is_set(iterated, names):
            yield iterated.lineno


def _names_of_sets(tree: ast.AST) -> set[str]:
    """Names and attributes that the file assigns a set or annotates as one."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign):
            kind = node.annotation.value if isinstance(node.annotation, ast.Subscript) else None
            if isinstance(kind, ast.Name) and kind.id in ("set", "frozenset"):
                found.add(ast.unparse(node.target))
        elif isinstance(node, ast.Assign) and _is_set(node.value, set()):
            found.update(ast.unparse(target) for target in node.targets)
    return found


def _is_set(node: ast.expr, names: set[str]) -> bool:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr | ast.BitAnd | ast.Sub):
        return _is_set(node.left, names) or _is_set(node.right, names)
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    if isinstance(node, ast.Call):
        return _called(node) in ("set", "frozenset")
    return ast.unparse(node) in names


def _called(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else ""


def test_files_under_src_have_at_most_800_lines() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in modules()}
    assert lengths
    assert [str(path) for path, length in lengths.items() if length > LONGEST_FILE] == []


@pytest.mark.parametrize("top", ["src", "tests", "tools", "bench", "examples"])
def test_every_module_says_what_lives_in_it(top: str) -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / top).rglob("*.py"))
        if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert silent == []


@pytest.mark.parametrize("rule", [impure_imports, impure_calls, set_iterations])
def test_core_and_the_rooms_below_it_are_pure(rule: Rule) -> None:
    assert pure_modules()
    assert breaches(rule, pure_modules()) == []


def test_only_the_pipeline_imports_spark() -> None:
    others = [path for path in modules() if path.relative_to(SOURCE).parts[0] != "pipeline"]
    assert breaches(spark_imports, others) == []


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        (impure_imports, "def f():\n    from os.path import join"),
        (impure_imports, "import json, time"),
        (impure_calls, "key = hash(name)"),
        (spark_imports, "from pyspark.sql import DataFrame"),
        (set_iterations, "for x in {a, b}:\n    pass"),
        (set_iterations, "found = [x for x in set(names)]"),
        (set_iterations, "seen: set[str] = load()\nfor x in seen:\n    pass"),
        (set_iterations, "self.open = set()\nfor x in self.open - closed:\n    pass"),
        (set_iterations, "order = list({x for x in names})"),
    ],
)
def test_each_rule_catches_what_it_is_for(rule: Rule, code: str) -> None:
    assert list(rule(ast.parse(code))) != []


@pytest.mark.parametrize(
    "code",
    ["for x in sorted({a, b}):\n    pass", "seen = set()\nif x in seen:\n    pass", "a = b - c"],
)
def test_sets_may_be_asked_and_sorted(code: str) -> None:
    assert list(set_iterations(ast.parse(code))) == []
