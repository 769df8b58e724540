"""`ordercast docs [NAME]`: the pages of the documentation, which come with the package."""

import argparse
import pydoc
import sys
from pathlib import Path

from ordercast.cli.command import GOOD, UsageError, print_json
from ordercast.model.names import nearest

DESCRIPTION = """\
Print a page of the documentation that belongs to this version, or without NAME the list
of pages. On a terminal the page is shown by your pager."""

EXAMPLE = """\
example:
  ordercast docs
  ordercast docs operations"""

_PACKAGE = Path(__file__).resolve().parent.parent


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="the page (default: list them)")


def run(args: argparse.Namespace) -> int:
    found = pages()
    if args.name is None:
        titles = {name: _title(path) for name, path in found.items()}
        if args.json:
            print_json({"pages": titles})
            return GOOD
        width = max(map(len, titles))
        print("\n".join(f"{name:<{width}}  {title}" for name, title in titles.items()))
        return GOOD
    name = args.name.removesuffix(".md")
    if name not in found:
        raise UsageError(f"there is no page {name!r}{nearest(name, found)}; see 'ordercast docs'")
    text = found[name].read_text(encoding="utf-8")
    if args.json:
        print_json({"page": name, "text": text})
    elif sys.stdout.isatty():
        pydoc.pager(text)
    else:
        print(text, end="")
    return GOOD


def pages() -> dict[str, Path]:
    """The pages by name: of the installed package, or of the checkout that it is run from."""
    installed = _PACKAGE / "pages"
    folder = installed if installed.is_dir() else _PACKAGE.parent.parent / "docs"
    return {path.stem: path for path in sorted(folder.glob("*.md"))}


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return file.readline().removeprefix("#").strip()
