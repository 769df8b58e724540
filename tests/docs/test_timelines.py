"""docs/epochs.md and docs/stability.md begin with a run of the core: it is run again here."""

import re
from pathlib import Path

import pytest

from tools.timeline import IMAGES, PICTURES, as_text, picture

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("name", PICTURES)
def test_a_page_shows_a_real_run_as_text_and_as_its_picture(name: str) -> None:
    title, run = PICTURES[name]
    events = run()
    page = (DOCS / name).with_suffix(".md").read_text(encoding="utf-8")
    assert f"\n![{title}](images/{name})\n" in page
    shown = re.findall(r"^```\n( 0 ms.*?)\n```$", page, re.MULTILINE | re.DOTALL)
    assert shown == ["\n".join(as_text(events))]
    drawn = (IMAGES / name).read_text(encoding="utf-8")
    assert drawn == picture(title, events), "python -m tools.timeline draws it anew"


def test_a_page_begins_with_its_example() -> None:
    for name in PICTURES:
        page = (DOCS / name).with_suffix(".md").read_text(encoding="utf-8")
        assert re.findall(r"^## (.*)$", page, re.MULTILINE)[0] == "An example"
