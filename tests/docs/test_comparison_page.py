"""docs/comparison.md: written anew it is the same, and it has every protocol."""

from ordercast.core.order.registry import PROTOCOLS
from tools.comparison import PAGE, WORDS, page


def test_the_page_is_what_the_protocols_do_today() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_protocol_is_on_the_page_and_its_own_page_is_there() -> None:
    assert set(WORDS) == set(PROTOCOLS)
    for words in WORDS.values():
        assert (PAGE.parent / words.page.partition("#")[0]).exists()
