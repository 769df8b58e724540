"""What the package is built with beside its source: a README whose links work elsewhere, and pages.

In the checkout README's links are relative. On an index page they lead to the address of the
project that pyproject.toml names as `Source`.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"\]\((?!\w+://|#)")  # a relative target of a link or picture


class ReadmeHook(MetadataHookInterface):
    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        base = f"]({metadata['urls']['Source']}/"
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": _LINK.sub(lambda _: base, text),
        }


class PagesHook(BuildHookInterface):  # type: ignore[type-arg]
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """`ordercast docs` prints these. In a checkout it finds them in docs/."""
        if version == "standard" and self.target_name == "wheel":
            pages = sorted((Path(self.root) / "docs").glob("*.md"))
            build_data["force_include"] |= {str(p): f"ordercast/pages/{p.name}" for p in pages}
