"""A site that is no member of a group asks a member about a message of a producer, or with an id.
Here is the member's answer, and the conclusion from it (docs/producers.md and docs/ids.md, "Through
a site that is no member")."""

from collections.abc import Mapping
from dataclasses import dataclass

from ordercast.core.engine import Engine
from ordercast.core.epochs.layout import Layout
from ordercast.core.epochs.streams.client_marks import engine_of
from ordercast.core.ids import id_mark
from ordercast.model.epochs import PRODUCERS
from ordercast.model.groups import Group, Site
from ordercast.model.messages import MARK_BITS, generation_in, is_by_id, ticket_in


@dataclass(frozen=True, slots=True)
class CopyMarks:
    """`epoch`: in which the member is. `number`: of a producer, its mark after all that the member
    has logged; of an id, its number in the window then; 0: there is none. `settled`: up to which
    number the ids of the group are settled there."""

    epoch: int
    number: int
    settled: int


def copy_marks(
    site: Site, layout: Layout, engines: Mapping[int, Engine], group: Group, client: bytes
) -> CopyMarks | None:
    """This site's answer about messages under this name; None: it has no log of the group. Without
    a name: only how far ids are settled."""
    engine, home = engine_of(site, layout, engines, group), layout.home(site)
    if engine is None or home is None:
        return None
    marks, number = engine.marks, 0
    if is_by_id(client):
        window = marks.windows.get(group)
        number = 0 if window is None else window.numbers.get(id_mark(client), 0)
    elif client:
        number = marks.marks.get((PRODUCERS, ticket_in(client), group), 0)
    return CopyMarks(home.epoch, number, marks.settled.get(group, 0))


def was_produced(told: CopyMarks, epoch: int, number: int) -> bool | None:
    """Of a producer's message with this number whose copy was stable, in this epoch of its group or
    before, when a member was asked: whether it is delivered. False: it is fenced, as far as is
    known, or its mark is gone. None: the member cannot know."""
    if not epoch or told.epoch < epoch:
        return None
    return told.number >= number and generation_in(told.number) == generation_in(number)


def was_kept(told: CopyMarks, epoch: int, mark: int) -> bool | None:
    """The same of a message with an id and this mark. False: it has expired, as far as is known."""
    if not epoch or told.epoch < epoch:
        return None
    if told.number >> MARK_BITS != mark >> MARK_BITS:
        return False
    return True if told.number <= told.settled else None
