"""Draws the states of a site within an epoch, from the tables of `ordercast.core.states`.

python tools/states.py            # prints the block
python tools/states.py --write    # puts it into docs/epochs.md, between its two marks
"""

import argparse
import sys
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import TypeVar

from ordercast.core import states

State = TypeVar("State", bound=Enum)
PAGE = Path(__file__).parent.parent / "docs" / "epochs.md"
BEGIN, END = "<!-- states: begin -->\n", "<!-- states: end -->\n"


def drawn() -> str:
    """The pictures and what each state allows, as Markdown."""
    return "\n".join(
        [
            *_picture(states.EPOCH, [states.OPEN, states.FROZEN]),
            "",
            "| the epoch here is | meaning | takes frames | places messages | has closed |",
            "|---|---|---|---|---|",
            *(
                _row(_word(s), s.meaning, _yes(s.works), _yes(s.places), _yes(s.closed))
                for s in states.EpochState
            ),
            "",
            *_picture(states.RECORDS, [states.REPLAYING]),
            "",
            "| of its records the site is | meaning | writes them |",
            "|---|---|---|",
            *(_row(_word(s), s.meaning, _yes(s.persists)) for s in states.RecordsState),
            "",
        ]
    )


def with_block(page: str) -> str:
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{drawn()}{END}{after}"


def _picture(table: Mapping[State, Mapping[str, State]], first: list[State]) -> list[str]:
    arrows = [f"    [*] --> {state.name}" for state in first]
    for state, following in table.items():
        for event, after in following.items():
            if after is not state:
                arrows.append(f"    {state.name} --> {after.name} : {event}")
    return ["```mermaid", "stateDiagram-v2", *arrows, "```"]


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _word(state: Enum) -> str:
    return state.name.lower().replace("_", ", ")


def _yes(so: bool) -> str:
    return "yes" if so else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="into docs/epochs.md")
    if parser.parse_args().write:
        PAGE.write_text(with_block(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        sys.stdout.write(drawn())
    return 0


if __name__ == "__main__":
    sys.exit(main())
