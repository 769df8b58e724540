"""`python -m tools.rooms`: draw the rooms of the source tree, from what their modules import.

Writes docs/images/rooms.svg, and the table of rooms in docs/architecture.md. Each room is a box;
rows are layers, and every import points down. An arrow leads from a room to one in the next row
that it imports; imports that skip a row are named in the box, unless a third room leads there
anyway. A test holds picture and table to the code.
"""

import ast
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from pathlib import Path
from typing import TypeAlias

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
PICTURE = ROOT / "docs" / "images" / "rooms.svg"
PAGE = ROOT / "docs" / "architecture.md"
PACKAGE = "ordercast"
USERS = "users"

Edges: TypeAlias = dict[str, set[str]]

_WIDTH, _LINE, _GAP, _PAD = 1160, 20, 34, 14


def modules() -> dict[str, Path]:
    """Every module of the source tree by its dotted name; a package by its own."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(paths: Mapping[str, Path], *, typing: bool = True) -> Edges:
    """Which modules each imports; with those for type checking only, unless told otherwise."""
    edges: Edges = {name: set() for name in paths}
    for name, path in paths.items():
        for imported in _imported(ast.parse(path.read_text(encoding="utf-8")), typing=typing):
            known = imported
            while known and known not in paths:
                known = known.rpartition(".")[0]
            if known and known != name:
                edges[name].add(known)
    return edges


def _imported(node: ast.AST, *, typing: bool) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test) and not typing:
            continue
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module:
            yield from (f"{child.module}.{alias.name}" for alias in child.names)
        else:
            yield from _imported(child, typing=typing)


def cycles(edges: Edges) -> list[list[str]]:
    """Sets of modules that import each other in a circle."""
    found: list[list[str]] = []
    seen: set[str] = set()
    reach = {name: _reach(edges, name) for name in edges}
    for name in sorted(edges):
        if name in reach[name] and name not in seen:
            circle = sorted(other for other in reach[name] if name in reach[other])
            seen.update(circle)
            found.append(circle)
    return found


def _reach(edges: Mapping[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    ahead = list(edges.get(start, ()))
    while ahead:
        name = ahead.pop()
        if name not in seen:
            seen.add(name)
            ahead.extend(edges.get(name, ()))
    return seen


def rooms_below(package: str, paths: Mapping[str, Path], edges: Edges) -> Edges:
    """The packages directly below one, and which of them import which."""
    prefix = f"{package}."

    def room(module: str) -> str | None:
        if not module.startswith(prefix):
            return None
        first = module[len(prefix) :].partition(".")[0]
        return first if paths.get(prefix + first, Path()).name == "__init__.py" else None

    found: Edges = {}
    for module in paths:
        if (own := room(module)) is not None:
            others = {room(target) for target in edges[module]} - {own, None}
            found.setdefault(own, set()).update(other for other in others if other is not None)
    return found


def layers(rooms: Edges) -> list[list[str]]:
    """From top to bottom, each room as high as its longest way down."""
    height: dict[str, int] = {}

    def measure(room: str) -> int:
        if room not in height:
            height[room] = 1 + max((measure(other) for other in rooms[room]), default=-1)
        return height[room]

    rows = defaultdict(list)
    for room in sorted(rooms):
        rows[measure(room)].append(room)
    return [rows[level] for level in sorted(rows, reverse=True)]


def direct(rooms: Edges) -> list[tuple[str, str]]:
    """Imports that no other way leads along."""
    return [
        (room, other)
        for room in sorted(rooms)
        for other in sorted(rooms[room])
        if not any(other in _reach(rooms, third) for third in rooms[room] - {other})
    ]


def _says(path: Path) -> str:
    """The first sentence of a module's docstring."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(text.split("\n\n")[0].split()).replace("`", "")


def table() -> list[str]:
    """Each room and the rooms in it, from top to bottom: what it is for, and who enters it."""
    paths = modules()
    edges = imports(paths)
    lines = ["| room | what is in it | who enters |", "|---|---|---|"]
    for outer in _from_the_top(PACKAGE, paths, edges):
        lines.append(_row(f"{PACKAGE}.{outer}", paths, edges))
        inside = _from_the_top(f"{PACKAGE}.{outer}", paths, edges)
        lines += [_row(f"{PACKAGE}.{outer}.{inner}", paths, edges) for inner in inside]
    return lines


def _from_the_top(package: str, paths: Mapping[str, Path], edges: Edges) -> list[str]:
    return [room for row in layers(rooms_below(package, paths, edges)) for room in row]


def _row(package: str, paths: Mapping[str, Path], edges: Edges) -> str:
    who = [word if word == USERS else f"`{word}`" for word in entrants(package, paths, edges)]
    name = package.removeprefix(f"{PACKAGE}.").replace(".", "/")
    return f"| `{name}` | {_says(paths[package])} | {', '.join(who) or USERS} |"


def entrants(package: str, paths: Mapping[str, Path], edges: Edges) -> list[str]:
    """Who imports modules of a room: the rooms beside it, the one around it, other rooms beside
    that, and users."""
    who = {
        _entrant(module, package, paths)
        for module, targets in edges.items()
        if not f"{module}.".startswith(f"{package}.")
        if any(f"{target}.".startswith(f"{package}.") for target in targets)
    }
    return [*sorted(who - {USERS}), *sorted(who & {USERS})]


def _entrant(module: str, package: str, paths: Mapping[str, Path]) -> str:
    if module == PACKAGE or not module.startswith(f"{PACKAGE}."):
        return USERS
    shared = package
    while not module.startswith(f"{shared}."):
        shared = shared.rpartition(".")[0]
    first = f"{shared}.{module.removeprefix(f'{shared}.').split('.')[0]}"
    return (first if paths[first].name == "__init__.py" else shared).rpartition(".")[2]


def page_with_table(page: str) -> str:
    """The page with the table as it is now between its two marks."""
    before, _, rest = page.partition("<!-- rooms -->\n")
    _, _, after = rest.partition("<!-- end of rooms -->\n")
    return "\n".join([f"{before}<!-- rooms -->", *table(), f"<!-- end of rooms -->\n{after}"])


def picture() -> str:
    paths = modules()
    edges = imports(paths)
    rooms = rooms_below(PACKAGE, paths, edges)
    skips = defaultdict(list)
    rows = layers(rooms)
    level = {room: number for number, row in enumerate(rows) for room in row}
    near: list[tuple[str, str]] = []
    for upper, lower in direct(rooms):
        if level[lower] == level[upper] + 1:
            near.append((upper, lower))
        else:
            skips[upper].append(lower)
    parts: list[str] = []
    middle: dict[str, tuple[float, float, float]] = {}  # of each room: x, top, bottom
    y: float = _GAP
    for row in rows:
        inner = {room: layers(rooms_below(f"{PACKAGE}.{room}", paths, edges)) for room in row}
        width = (_WIDTH - _GAP * (len(row) + 1)) / len(row)
        texts = {room: _wrapped(_says(paths[f"{PACKAGE}.{room}"]), width) for room in row}
        tallest = max(_height(texts[room], inner[room]) for room in row)
        for index, room in enumerate(row):
            x = _GAP + index * (width + _GAP)
            note = f"also imports {', '.join(skips[room])}" if skips[room] else ""
            parts += _box((x, y, width, tallest), room, note, texts[room], inner[room])
            middle[room] = (x + width / 2, y, y + tallest)
        y += tallest + _GAP
    arrows = [_arrow(middle[upper], middle[lower]) for upper, lower in near]
    return "\n".join([*_frame(y), *arrows, *parts, "</svg>", ""])


def _wrapped(text: str, width: float) -> list[str]:
    """In lines of the small letters that a box of this width has room for."""
    lines = textwrap.wrap(text, int((width - 2 * _PAD) / 6.3))
    return lines[:2] if len(lines) <= 2 else [lines[0], lines[1] + " …"]


def _height(text: list[str], inner: list[list[str]]) -> float:
    return 2 * _PAD + 8 + 16 * len(text) + 26 * len(inner) + (8 if inner else 0)


def _frame(height: float) -> Iterable[str]:
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}"'
        ' font-family="Helvetica, Arial, sans-serif" font-size="14" fill="#1b2733">'
    )
    yield "<title>The rooms of ordercast: imports point down</title>"
    yield f'<rect width="{_WIDTH}" height="{height:.0f}" fill="#ffffff"/>'
    yield (
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7"'
        ' markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#7b8b9c"/></marker></defs>'
    )


def _box(
    at: tuple[float, float, float, float], room: str, note: str, text: list[str],
    inner: list[list[str]],
) -> Iterator[str]:  # fmt: skip
    x, y, width, height = at
    yield (
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{height:.0f}" rx="6"'
        f' fill="#e8eef7" stroke="#4a6a8f"/>'
    )
    top = y + _PAD + 12
    yield f'<text x="{x + _PAD:.0f}" y="{top:.0f}" font-weight="bold">{escape(room)}</text>'
    yield (
        f'<text x="{x + width - _PAD:.0f}" y="{top:.0f}" text-anchor="end" font-size="12"'
        f' fill="#5c6b7a">{note}</text>'
    )
    for line in text:
        top += 17
        yield f'<text x="{x + _PAD:.0f}" y="{top:.0f}" font-size="12">{escape(line)}</text>'
    for number, row in enumerate(inner):
        cell = (width - 2 * _PAD - 6 * (len(row) - 1)) / len(row)
        for index, name in enumerate(row):
            left = x + _PAD + index * (cell + 6)
            above = top + 12 + number * (_LINE + 6)
            yield (
                f'<rect x="{left:.0f}" y="{above:.0f}" width="{cell:.0f}" height="{_LINE}" rx="3"'
                f' fill="#ffffff" stroke="#b7c4d3"/>'
            )
            yield (
                f'<text x="{left + cell / 2:.0f}" y="{above + 14:.0f}" text-anchor="middle"'
                f' font-size="12">{escape(name)}</text>'
            )


def _arrow(upper: tuple[float, float, float], lower: tuple[float, float, float]) -> str:
    (x1, _, y1), (x2, y2, _) = upper, lower
    bend = (y1 + y2) / 2
    return (
        f'<path d="M{x1:.0f} {y1:.0f}C{x1:.0f} {bend:.0f} {x2:.0f} {bend:.0f} {x2:.0f}'
        f' {y2 - 1:.0f}" fill="none" stroke="#7b8b9c" stroke-width="1.4" marker-end="url(#tip)"/>'
    )


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
    PAGE.write_text(page_with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"{PICTURE.relative_to(ROOT)} and the table in {PAGE.relative_to(ROOT)} written")
