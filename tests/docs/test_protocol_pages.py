"""The pages that list the ordering protocols have every one of them."""

import re
from pathlib import Path

import pytest

from ordercast.core.order.registry import PROTOCOLS

DOCS = Path(__file__).resolve().parents[2] / "docs"


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_protocol_has_a_section_a_row_and_a_place_in_the_cluster_file(protocol: str) -> None:
    assert re.search(rf"^## .*`{protocol}`", page("protocols.md"), re.MULTILINE)
    assert re.search(
        rf"^\| [^|]*`{protocol}`[^|]* \| `agreed` \|", page("guarantees.md"), re.MULTILINE
    )
    shown = page("operations.md").partition("\nprotocol = ")[2].partition("\nbuilder = ")[0]
    assert f'"{protocol}"' in shown
