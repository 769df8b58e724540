"""A site that is no member of a group asks a member about a client's request. Here is the member's
answer, and the conclusion from it (docs/requests.md, "Through a site that is no member")."""

from collections.abc import Mapping, Sequence
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
    site: Site,
    layout: Layout,
    engines: Mapping[int, Engine],
    group: Group,
    listed: Sequence[Site] = (),
) -> ClientMarks | None:
    """What this site can tell of a group, or of listed sites; None: it has no log of them now."""
    engine = engine_of(site, layout, engines, group, listed)
    home = layout.home(site)
    if engine is None or home is None:
        return None
    ticket = layout.producers.get((CLIENT_WINDOW, group), 0)
    marks, window = engine.marks, engine.marks.client_windows.get(group)
    begin = ticket << MARK_BITS
    is_open = ticket and not marks.is_crowded(group)
    mark = max(marks.heard.get(group, 0), begin) if is_open else 0
    if window is None:
        return ClientMarks(home.epoch, mark, begin or LARGEST_NUMBER)
    return ClientMarks(home.epoch, mark, window.horizon)


def engine_of(
    site: Site,
    layout: Layout,
    engines: Mapping[int, Engine],
    group: Group,
    listed: Sequence[Site] = (),
) -> Engine | None:
    """The engine in which this site has the log of the group, or of the listed sites."""
    home = layout.home(site)
    engine = None if home is None else engines.get(home.epoch)
    if home is None or engine is None:
        return None
    if listed:
        return engine if site in listed and all(one in home.sites for one in listed) else None
    return engine if site in engine.structure.groups.get(group, ()) else None


def epoch_of(layout: Layout, group: Group, listed: Sequence[Site] = ()) -> int:
    """The epoch that the group is in, or that has all listed sites; 0: there is none now."""
    if listed:
        domains = layout.domains.values()
        return next((d.epoch for d in domains if all(one in d.sites for one in listed)), 0)
    domain = layout.domain_of([group])
    return 0 if domain is None else domain.epoch


def was_delivered(told: ClientMarks, epoch: int, stamp: int) -> bool | None:
    """Of a request with this stamp whose copy was stable, in this epoch of its group or before,
    when a member was asked: whether it is delivered. False: it has expired, as far as is known.
    None: the member cannot know."""
    if not epoch or told.epoch < epoch:
        return None
    return stamp >= told.horizon
