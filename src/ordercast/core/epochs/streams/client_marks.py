"""What a member of a group knows of its clients, and what follows from that for a request which was
sent through a site that is no member (docs/requests.md, "Through a site that is no member")."""

from collections.abc import Mapping
from dataclasses import dataclass

from ordercast.core.engine import Engine
from ordercast.core.epochs.layout import Layout
from ordercast.model.epochs import CLIENT_WINDOW
from ordercast.model.groups import Group, Site
from ordercast.model.limits import LARGEST_NUMBER
from ordercast.model.messages import MARK_BITS


@dataclass(frozen=True, slots=True)
class ClientMarks:
    """`epoch`: in which the member is. `mark`: for stamps; 0: there is none now. `horizon`: of the
    window after all that the member has logged."""

    epoch: int
    mark: int
    horizon: int


def client_marks(
    site: Site, layout: Layout, engines: Mapping[int, Engine], group: Group
) -> ClientMarks | None:
    """What this site can tell; None: it has no log of the group."""
    home = layout.home(site)
    engine = None if home is None else engines.get(home.epoch)
    if home is None or engine is None or site not in engine.structure.groups.get(group, ()):
        return None
    ticket = layout.producers.get((CLIENT_WINDOW, group), 0)
    marks, window = engine.marks, engine.marks.client_windows.get(group)
    begin = ticket << MARK_BITS
    is_open = ticket and not marks.is_crowded(group)
    mark = max(marks.heard.get(group, 0), begin) if is_open else 0
    if window is None:
        return ClientMarks(home.epoch, mark, begin or LARGEST_NUMBER)
    return ClientMarks(home.epoch, mark, window.horizon)


def epoch_of(layout: Layout, group: Group) -> int:
    """The epoch that the group is in; 0: in none now."""
    domain = layout.domain_of([group])
    return 0 if domain is None else domain.epoch


def was_delivered(told: ClientMarks, epoch: int, stamp: int) -> bool | None:
    """Of a request with this stamp whose copy was stable, in this epoch of its group or before,
    when a member was asked: whether it is delivered. False: it has expired, as far as is known.
    None: the member cannot know."""
    if not epoch or told.epoch < epoch:
        return None
    return stamp >= told.horizon
