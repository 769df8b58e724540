"""What the package is built with beside its source: a README whose links work elsewhere, and pages.

In the checkout README's links are relative. On an index page they lead to the address of the
project that pyproject.toml names as `Source`. As long as that is a reserved name, where nothing
is, the pages are named as the reader has them, and a picture is shown as it is drawn in characters,
in the file beside it.
"""

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(
    r"(!?)\[([^\]]*)\]\((?!\w+://|#)([^)]+)\)"
)  # a link or picture: its target is relative
_PAGE = re.compile(r"docs/([\w-]+)\.md(#.*)?")


def for_index(text: str, source: str, root: Path) -> str:
    """README as an index page shows it; `root` has the drawings in characters."""
    reserved = str(urlsplit(source).hostname).endswith(".example")

    def elsewhere(link: re.Match[str]) -> str:
        picture, words, target = link.groups()
        if not reserved:
            return f"{picture}[{words}]({source}/{target})"
        if picture:
            drawn = (root / target).with_suffix(".txt").read_text(encoding="utf-8")
            return f"```text\n{drawn}```"
        page = _PAGE.fullmatch(target)
        return f"{words} (`ordercast docs {page[1]}`)" if page else words

    return _LINK.sub(elsewhere, text)


class ReadmeHook(MetadataHookInterface):
    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": for_index(text, metadata["urls"]["Source"], Path(self.root)),
        }


class PagesHook(BuildHookInterface):  # type: ignore[type-arg]
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """`ordercast docs` prints these. In a checkout it finds them in docs/."""
        if version == "standard" and self.target_name == "wheel":
            pages = sorted((Path(self.root) / "docs").glob("*.md"))
            build_data["force_include"] |= {str(p): f"ordercast/pages/{p.name}" for p in pages}
