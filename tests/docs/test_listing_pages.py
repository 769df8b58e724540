"""The pages that list protocols, trackers or checks have every one of them."""

import re
from pathlib import Path

import pytest

from ordercast.check.report import CHECKS, ON_REQUEST
from ordercast.core.order.registry import PROTOCOLS
from ordercast.core.stability.registry import TRACKERS

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_protocol_has_a_section_a_row_and_a_place_in_the_cluster_file(protocol: str) -> None:
    assert re.search(rf"^## .*`{protocol}`", page("protocols.md"), re.MULTILINE)
    assert re.search(
        rf"^\| [^|]*`{protocol}`[^|]* \| `agreed` \|", page("guarantees.md"), re.MULTILINE
    )
    shown = page("operations.md").partition("\n# protocol = ")[2].partition("\n# builder = ")[0]
    assert f'"{protocol}"' in shown


def test_every_tracker_is_told_to_operators() -> None:
    told = page("operations.md").partition("\n`stability` is one of ")[2].partition("(")[0]
    assert set(re.findall(r"`(\w+)`", told)) == set(TRACKERS)


def test_every_check_has_its_rule_and_its_known_histories() -> None:
    for check in (*CHECKS, *ON_REQUEST):
        assert re.search(rf"^## {check}\b", page("checks.md"), re.MULTILINE), check
        assert (ROOT / "tests/check/data" / f"{check}.txt").exists()
