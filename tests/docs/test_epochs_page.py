"""The states on the page of epochs are those of the code."""

from tools.states import PAGE, with_block


def test_the_page_shows_the_states_as_the_tables_have_them() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_block(page), "python tools/states.py --write"
